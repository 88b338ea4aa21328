(** Finite sums: linearity, exchange, delta contraction, positivity, derivatives. *)

From Coq Require Export Lra Lia.
From Bayesgrad Require Export Definitions.

Lemma Sum_ext n f g : (forall k, (k < n)%nat -> f k = g k) -> Sum n f = Sum n g.
Proof. intro H. induction n as [|n IH]; simpl; [reflexivity|]. rewrite IH, H by auto. reflexivity. Qed.

Lemma Sum_zero n f : (forall k, (k < n)%nat -> f k = 0) -> Sum n f = 0.
Proof. intro H. induction n as [|n IH]; simpl; [reflexivity|]. rewrite IH, H by auto. ring. Qed.

Lemma Sum_plus n f g : Sum n (fun k => f k + g k) = Sum n f + Sum n g.
Proof. induction n as [|n IH]; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma Sum_minus n f g : Sum n (fun k => f k - g k) = Sum n f - Sum n g.
Proof. induction n as [|n IH]; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma Sum_opp n f : Sum n (fun k => - f k) = - Sum n f.
Proof. induction n as [|n IH]; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma Sum_scal_l n x f : Sum n (fun k => x * f k) = x * Sum n f.
Proof. induction n as [|n IH]; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma Sum_scal_r n x f : Sum n (fun k => f k * x) = Sum n f * x.
Proof. induction n as [|n IH]; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma Sum_div n x f : Sum n (fun k => f k / x) = Sum n f / x.
Proof. unfold Rdiv. apply Sum_scal_r. Qed.

Lemma Sum_const n x : Sum n (fun _ => x) = INR n * x.
Proof. induction n as [|n IH]; [simpl; ring|]. rewrite S_INR. simpl. rewrite IH. ring. Qed.

Lemma Sum_exchange n m f : Sum n (fun i => Sum m (fun j => f i j)) = Sum m (fun j => Sum n (fun i => f i j)).
Proof.
  induction n as [|n IH]; simpl.
  - symmetry. apply Sum_zero. reflexivity.
  - rewrite IH, <- Sum_plus. reflexivity.
Qed.

(** sum_k f_k picks f_j when all other terms are zero *)
Lemma Sum_single n j f : (j < n)%nat -> (forall k, (k < n)%nat -> k <> j -> f k = 0) -> Sum n f = f j.
Proof.
  intros Hj H. induction n as [|n IH]; [lia|]. simpl. destruct (Nat.eq_dec j n) as [->|D].
  - rewrite Sum_zero; [ring|]. intros k Hk. apply H; lia.
  - rewrite IH, (H n) by (intros; try apply H; lia). ring.
Qed.

Lemma delta_same j : delta j j = 1.
Proof. unfold delta. now rewrite Nat.eqb_refl. Qed.

Lemma delta_other j k : j <> k -> delta j k = 0.
Proof. unfold delta. intro H. destruct (Nat.eqb_spec j k); [contradiction|reflexivity]. Qed.

Lemma delta_sym j k : delta j k = delta k j.
Proof. unfold delta. now rewrite Nat.eqb_sym. Qed.

Lemma Sum_delta n j f : (j < n)%nat -> Sum n (fun k => delta j k * f k) = f j.
Proof.
  intro Hj. rewrite (Sum_single n j); trivial.
  - rewrite delta_same. ring.
  - intros k _ H. rewrite delta_other by auto. ring.
Qed.

Lemma Sum_le n f g : (forall k, (k < n)%nat -> f k <= g k) -> Sum n f <= Sum n g.
Proof.
  intro H. induction n as [|n IH]; simpl; [lra|].
  pose proof (H n ltac:(lia)). pose proof (IH ltac:(auto)). lra.
Qed.

Lemma Sum_nonneg n f : (forall k, (k < n)%nat -> 0 <= f k) -> 0 <= Sum n f.
Proof. intro H. rewrite <- (Sum_zero n (fun _ => 0)) by reflexivity. now apply Sum_le. Qed.

Lemma Sum_ge_term n f j : (forall k, (k < n)%nat -> 0 <= f k) -> (j < n)%nat -> f j <= Sum n f.
Proof.
  intros H Hj. induction n as [|n IH]; [lia|]. simpl. destruct (Nat.eq_dec j n) as [->|D].
  - pose proof (Sum_nonneg n f ltac:(auto)). lra.
  - pose proof (H n ltac:(lia)). pose proof (IH ltac:(auto) ltac:(lia)). lra.
Qed.

Lemma Sum_pos n f j : (forall k, (k < n)%nat -> 0 <= f k) -> (j < n)%nat -> 0 < f j -> 0 < Sum n f.
Proof. intros H Hj Hf. pose proof (Sum_ge_term n f j H Hj). lra. Qed.

Lemma Sum_nonneg_zero n f :
  (forall k, (k < n)%nat -> 0 <= f k) -> Sum n f = 0 -> forall k, (k < n)%nat -> f k = 0.
Proof. intros H Z k Hk. pose proof (Sum_ge_term n f k H Hk). pose proof (H k Hk). lra. Qed.

(** a convex sum of numbers in an interval stays in it *)
Lemma Sum_abs n f g : (forall k, (k < n)%nat -> Rabs (f k) <= g k) -> Rabs (Sum n f) <= Sum n g.
Proof.
  intro H. induction n as [|n IH]; simpl.
  - rewrite Rabs_R0. lra.
  - pose proof (H n ltac:(lia)). pose proof (IH ltac:(auto)).
    eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma Sum_square n f : Sum n f * Sum n f = Sum n (fun j => Sum n (fun k => f j * f k)).
Proof.
  rewrite (Sum_ext n (fun j => Sum n (fun k => f j * f k)) (fun j => f j * Sum n f)).
  - now rewrite Sum_scal_r.
  - intros. apply Sum_scal_l.
Qed.

Lemma is_derive_Sum n (f : R -> nat -> R) (t : R) (rate : nat -> R) :
  (forall k, (k < n)%nat -> is_derive (fun x => f x k) t (rate k)) ->
  is_derive (fun x => Sum n (f x)) t (Sum n rate).
Proof.
  intro H. induction n as [|n IH]; simpl.
  - apply (is_derive_const (V := R_NormedModule)).
  - apply (is_derive_plus (V := R_NormedModule)); [apply IH|apply H]; auto.
Qed.

(** a derivative may be restated in any equal form *)
Lemma is_derive_eq (f : R -> R) (t l l' : R) : is_derive f t l -> l = l' -> is_derive f t l'.
Proof. intros H <-. exact H. Qed.

Lemma is_derive_ext_R (f g : R -> R) (t l : R) : (forall x, f x = g x) -> is_derive f t l -> is_derive g t l.
Proof. intro H. apply is_derive_ext. exact H. Qed.

Lemma is_derive_R_mult (f g : R -> R) (t df dg : R) :
  is_derive f t df -> is_derive g t dg -> is_derive (fun x => f x * g x) t (df * g t + f t * dg).
Proof. intros Hf Hg. apply (is_derive_mult f g t df dg Hf Hg). intros. apply Rmult_comm. Qed.

(** the entries of an array with one entry replaced by t, as curves in t *)
Lemma put1_same s j : put1 s j (s j) = s.
Proof.
  apply FunctionalExtensionality.functional_extensionality. intro k. unfold put1.
  destruct (Nat.eqb_spec k j) as [->|]; reflexivity.
Qed.

Lemma put1_ext s j k : put1 s j (s j) k = s k.
Proof. unfold put1. destruct (Nat.eqb_spec k j) as [->|]; reflexivity. Qed.

Lemma put_ext s i j i' j' : put s i j (s i j) i' j' = s i' j'.
Proof.
  unfold put. destruct (Nat.eqb_spec i' i) as [->|]; [|reflexivity].
  destruct (Nat.eqb_spec j' j) as [->|]; reflexivity.
Qed.

Lemma is_derive_put1 s j k (t : R) : is_derive (fun x => put1 s j x k) t (delta k j).
Proof.
  unfold put1, delta. destruct (Nat.eqb k j); [apply (is_derive_id (K := R_AbsRing))|].
  apply (is_derive_const (V := R_NormedModule)).
Qed.

Lemma is_derive_put s i j i' j' (t : R) : is_derive (fun x => put s i j x i' j') t (delta i' i * delta j' j).
Proof.
  unfold put, delta. destruct (Nat.eqb i' i), (Nat.eqb j' j); simpl.
  - eapply is_derive_eq; [apply (is_derive_id (K := R_AbsRing))|]. unfold one; simpl. ring.
  - eapply is_derive_eq; [apply (is_derive_const (V := R_NormedModule))|]. unfold zero; simpl. ring.
  - eapply is_derive_eq; [apply (is_derive_const (V := R_NormedModule))|]. unfold zero; simpl. ring.
  - eapply is_derive_eq; [apply (is_derive_const (V := R_NormedModule))|]. unfold zero; simpl. ring.
Qed.

(** sum_ic G_ic delta_ii' delta_cc' = G_i'c' *)
Lemma Sum_put n d (G : nat -> nat -> R) i c : (i < n)%nat -> (c < d)%nat ->
  Sum n (fun i' => dot d (G i') (fun c' => delta i' i * delta c' c)) = G i c.
Proof.
  intros Hi Hc. rewrite (Sum_single n i); trivial.
  - unfold dot. rewrite (Sum_single d c); trivial.
    + rewrite !delta_same. ring.
    + intros k _ H. rewrite (delta_other k c) by auto. ring.
  - intros k _ H. apply Sum_zero. intros. rewrite delta_other by auto. ring.
Qed.
