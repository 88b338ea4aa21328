(** Softmax over the visible keys: distribution, derivative along a curve of scores, Fisher matrix. *)

From Bayesgrad Require Export Sums.

(** Sum of the visible exponentials. *)
Lemma mass_pos vis m (s : nat -> R) : nonempty vis m -> 0 < visible_sum vis m (fun j => exp (s j)).
Proof.
  intros (j & Hj & Hv). unfold visible_sum. apply (Sum_pos m _ j); trivial.
  - intros k _. destruct (vis k); [left; apply exp_pos|lra].
  - rewrite Hv. apply exp_pos.
Qed.

Lemma softmax_masked vis m s j : vis j = false -> softmax vis m s j = 0.
Proof. unfold softmax, normalise. now intros ->. Qed.

Lemma softmax_visible vis m s j : vis j = true ->
  softmax vis m s j = exp (s j) / visible_sum vis m (fun k => exp (s k)).
Proof. unfold softmax, normalise. now intros ->. Qed.

Lemma visible_nonempty vis m j : (j < m)%nat -> vis j = true -> nonempty vis m.
Proof. intros. exists j. auto. Qed.

Lemma softmax_pos vis m s j : (j < m)%nat -> vis j = true -> 0 < softmax vis m s j.
Proof.
  intros Hj Hv. rewrite softmax_visible by trivial.
  apply Rdiv_lt_0_compat; [apply exp_pos|apply mass_pos; eapply visible_nonempty; eauto].
Qed.

Lemma softmax_nonneg vis m s j : (j < m)%nat -> 0 <= softmax vis m s j.
Proof.
  intro Hj. destruct (vis j) eqn:E; [left; now apply softmax_pos|]. rewrite softmax_masked by trivial. lra.
Qed.

Lemma softmax_sum vis m s : nonempty vis m -> Sum m (softmax vis m s) = 1.
Proof.
  intro H. pose proof (mass_pos vis m s H) as P.
  rewrite (Sum_ext m _ (fun j => (if vis j then exp (s j) else 0) / visible_sum vis m (fun k => exp (s k)))).
  - rewrite Sum_div. unfold visible_sum in *. field. lra.
  - intros k _. unfold softmax, normalise. destruct (vis k); lra.
Qed.

Lemma softmax_distribution vis m s : nonempty vis m -> distribution m (softmax vis m s).
Proof. intro H. split; [intros; now apply softmax_nonneg|now apply softmax_sum]. Qed.

(** Every row is either a distribution or empty, and then all its weights are zero. *)
Lemma nonempty_or_not vis m : nonempty vis m \/ forall j, (j < m)%nat -> vis j = false.
Proof.
  induction m as [|m [(j & Hj & Hv)|IH]].
  - right. lia.
  - left. exists j. split; [lia|trivial].
  - destruct (vis m) eqn:E.
    + left. exists m. split; [lia|trivial].
    + right. intros j Hj. destruct (Nat.eq_dec j m) as [->|]; [trivial|apply IH; lia].
Qed.

Theorem softmax_shift_invariance_distribution : forall vis m s, nonempty vis m ->
  distribution m (softmax vis m s) /\ forall j, (j < m)%nat -> (0 < softmax vis m s j <-> vis j = true).
Proof.
  intros vis m s H. split; [now apply softmax_distribution|]. intros j Hj. split.
  - intro P. destruct (vis j) eqn:E; [reflexivity|]. rewrite softmax_masked in P by trivial. lra.
  - now apply softmax_pos.
Qed.

Theorem softmax_shift_invariance : forall vis m s s' shift j, (j < m)%nat ->
  (forall k, (k < m)%nat -> vis k = true -> s' k = s k + shift) -> softmax vis m s' j = softmax vis m s j.
Proof.
  intros vis m s s' shift j Hj H. destruct (vis j) eqn:E; [|now rewrite !softmax_masked].
  rewrite !softmax_visible by trivial.
  pose proof (mass_pos vis m s (visible_nonempty _ _ _ Hj E)) as P.
  assert (visible_sum vis m (fun k => exp (s' k)) = exp shift * visible_sum vis m (fun k => exp (s k))) as ->.
  { unfold visible_sum. rewrite <- Sum_scal_l. apply Sum_ext. intros k Hk. destruct (vis k) eqn:V; [|ring].
    rewrite H, exp_plus by trivial. ring. }
  rewrite H, exp_plus by trivial. field. split; [lra|]. apply Rgt_not_eq, exp_pos.
Qed.

Lemma softmax_ext vis m s s' j : (j < m)%nat ->
  (forall k, (k < m)%nat -> vis k = true -> s' k = s k) -> softmax vis m s' j = softmax vis m s j.
Proof. intros Hj H. apply (softmax_shift_invariance vis m s s' 0 j Hj). intros. rewrite H by trivial. ring. Qed.

Lemma mean_ext m a a' h h' : (forall j, (j < m)%nat -> a j = a' j) -> (forall j, (j < m)%nat -> h j = h' j) ->
  mean m a h = mean m a' h'.
Proof. intros Ha Hh. apply Sum_ext. intros. now rewrite Ha, Hh. Qed.

(** Z' = sum over the visible k of exp s_k s_k' *)
Lemma is_derive_mass vis m (S : R -> nat -> R) (t : R) (rate : nat -> R) :
  (forall k, (k < m)%nat -> vis k = true -> is_derive (fun x => S x k) t (rate k)) ->
  is_derive (fun x => visible_sum vis m (fun k => exp (S x k))) t
            (visible_sum vis m (fun k => exp (S t k) * rate k)).
Proof.
  intro H. unfold visible_sum.
  apply (is_derive_Sum m (fun x k => if vis k then exp (S x k) else 0)).
  intros k Hk. destruct (vis k) eqn:E.
  - eapply is_derive_eq; [apply (is_derive_comp exp (fun x => S x k)); [apply is_derive_exp|now apply H]|].
    unfold scal; simpl; unfold mult; simpl. ring.
  - apply (is_derive_const (V := R_NormedModule)).
Qed.

Lemma mean_softmax vis m s h : nonempty vis m ->
  mean m (softmax vis m s) h =
  visible_sum vis m (fun k => exp (s k) * h k) / visible_sum vis m (fun k => exp (s k)).
Proof.
  intro H. pose proof (mass_pos vis m s H) as P. unfold mean, visible_sum. rewrite <- Sum_div.
  apply Sum_ext. intros k _. unfold softmax, normalise. destruct (vis k); [|lra].
  unfold visible_sum in *. field. lra.
Qed.

(** Along any curve of scores: a_j' = a_j (s_j' - sum_k a_k s_k') *)
Lemma is_derive_softmax vis m (S : R -> nat -> R) (t : R) (rate : nat -> R) j : (j < m)%nat ->
  (forall k, (k < m)%nat -> vis k = true -> is_derive (fun x => S x k) t (rate k)) ->
  is_derive (fun x => softmax vis m (S x) j) t
            (softmax vis m (S t) j * (rate j - mean m (softmax vis m (S t)) rate)).
Proof.
  intros Hj H. destruct (vis j) eqn:E.
  - pose proof (visible_nonempty _ _ _ Hj E) as NE. pose proof (mass_pos vis m (S t) NE) as P.
    apply (is_derive_ext (fun x => exp (S x j) / visible_sum vis m (fun k => exp (S x k)))).
    { intro x. now rewrite softmax_visible. }
    eapply is_derive_eq.
    + apply is_derive_div; [|apply (is_derive_mass vis m S t rate H)|lra].
      apply (is_derive_comp exp (fun x => S x j)); [apply is_derive_exp|now apply H].
    + rewrite mean_softmax, softmax_visible by trivial. unfold scal; simpl; unfold mult; simpl. field. lra.
  - apply (is_derive_ext (fun _ => 0)).
    { intro x. now rewrite softmax_masked. }
    rewrite softmax_masked by trivial.
    eapply is_derive_eq; [apply (is_derive_const (V := R_NormedModule))|]. unfold zero; simpl. ring.
Qed.

Theorem softmax_jacobian : forall vis m s j k, (j < m)%nat -> (k < m)%nat ->
  is_derive (fun x => softmax vis m (put1 s k x) j) (s k)
            (softmax vis m s j * (delta j k - softmax vis m s k)).
Proof.
  intros vis m s j k Hj Hk. eapply is_derive_eq.
  - apply (is_derive_softmax vis m (fun x => put1 s k x) (s k) (fun j => delta j k)); trivial.
    intros. apply is_derive_put1.
  - rewrite put1_same. unfold mean. rewrite (Sum_ext m _ (fun i => delta k i * softmax vis m s i)).
    + now rewrite Sum_delta.
    + intros i _. rewrite (delta_sym i k). ring.
Qed.

Theorem softmax_jacobian_rows : forall vis m s i l j k, i <> l ->
  is_derive (fun x => weights vis m (put s l k x) i j) (s l k) 0.
Proof.
  intros vis m s i l j k H. apply (is_derive_ext (fun _ => weights vis m s i j)).
  - intro x. unfold weights. assert (put s l k x i = s i) as ->; [|reflexivity].
    apply FunctionalExtensionality.functional_extensionality. intro j'. unfold put.
    destruct (Nat.eqb_spec i l); [contradiction|reflexivity].
  - apply (is_derive_const (V := R_NormedModule)).
Qed.

(** ** Variance and the Fisher matrix *)

Theorem lemma_variance_form : forall m a h, Sum m a = 1 ->
  variance m a h = 1 / 2 * Sum m (fun j => Sum m (fun k => a j * a k * ((h j - h k) * (h j - h k)))).
Proof.
  intros m a h H.
  rewrite (Sum_ext m _ (fun j => a j * (h j * h j) + a j * mean m a (fun k => h k * h k)
                                 - 2 * (a j * h j * mean m a h))).
  - rewrite Sum_minus, Sum_plus, !Sum_scal_l, !Sum_scal_r, H. unfold variance.
    fold (mean m a (fun j => h j * h j)). fold (mean m a h). lra.
  - intros j _. rewrite (Sum_ext m _ (fun k => a j * (h j * h j) * a k + a j * (a k * (h k * h k))
                                              - 2 * (a j * h j) * (a k * h k))).
    + rewrite Sum_minus, Sum_plus, !Sum_scal_l, H. unfold mean. ring.
    + intros k _. ring.
Qed.

Lemma variance_nonneg m a h : distribution m a -> 0 <= variance m a h.
Proof.
  intros [N S]. rewrite lemma_variance_form by trivial.
  apply Rmult_le_pos; [lra|]. apply Sum_nonneg. intros j Hj. apply Sum_nonneg. intros k Hk.
  apply Rmult_le_pos; [apply Rmult_le_pos; auto|apply Rle_0_sqr].
Qed.

(** zero variance: h is constant where a is positive *)
Lemma variance_zero m a h : distribution m a -> variance m a h = 0 ->
  forall j k, (j < m)%nat -> (k < m)%nat -> 0 < a j -> 0 < a k -> h j = h k.
Proof.
  intros [N S] Z j k Hj Hk Pj Pk. rewrite lemma_variance_form in Z by trivial.
  set (f := fun j => Sum m (fun k => a j * a k * ((h j - h k) * (h j - h k)))) in Z.
  assert (forall j k, (j < m)%nat -> (k < m)%nat -> 0 <= a j * a k * ((h j - h k) * (h j - h k))) as T.
  { intros j' k' Hj' Hk'. apply Rmult_le_pos; [apply Rmult_le_pos; auto|apply Rle_0_sqr]. }
  assert (f j = 0) as F.
  { apply (Sum_nonneg_zero m f); trivial; [|lra]. intros. apply Sum_nonneg. auto. }
  assert (a j * a k * ((h j - h k) * (h j - h k)) = 0) as G.
  { apply (Sum_nonneg_zero m (fun k => a j * a k * ((h j - h k) * (h j - h k)))); trivial. auto. }
  assert (0 < a j * a k) by (apply Rmult_lt_0_compat; trivial).
  apply Rmult_integral in G. destruct G as [G|G]; [lra|]. apply Rmult_integral in G. lra.
Qed.

Lemma fisher_row m a x j : (j < m)%nat -> Sum m (fun k => fisher a j k * x k) = a j * (x j - mean m a x).
Proof.
  intro Hj. unfold fisher.
  rewrite (Sum_ext m _ (fun k => delta j k * (a j * x k) - a j * (a k * x k))) by (intros; ring).
  rewrite Sum_minus, Sum_delta, Sum_scal_l by trivial. unfold mean. ring.
Qed.

Lemma fisher_form m a x :
  Sum m (fun j => Sum m (fun k => x j * fisher a j k * x k)) = variance m a x.
Proof.
  rewrite (Sum_ext m _ (fun j => a j * (x j * x j) - a j * x j * mean m a x)).
  - rewrite Sum_minus, Sum_scal_r. reflexivity.
  - intros j Hj. rewrite (Sum_ext m _ (fun k => x j * (fisher a j k * x k))) by (intros; ring).
    rewrite Sum_scal_l, fisher_row by trivial. ring.
Qed.

(** the mean of a function that is constant on the visible keys *)
Lemma mean_constant vis m s x c : nonempty vis m -> (forall j, (j < m)%nat -> vis j = true -> x j = c) ->
  mean m (softmax vis m s) x = c.
Proof.
  intros NE H. unfold mean. rewrite (Sum_ext m _ (fun j => softmax vis m s j * c)).
  - rewrite Sum_scal_r, softmax_sum by trivial. ring.
  - intros j Hj. destruct (vis j) eqn:E; [now rewrite H|]. rewrite softmax_masked by trivial. ring.
Qed.

Theorem softmax_fisher : forall vis m s x, nonempty vis m ->
  let a := softmax vis m s in
  let form := Sum m (fun j => Sum m (fun k => x j * fisher a j k * x k)) in
  form = variance m a x /\ 0 <= form /\
  (form = 0 <-> exists c, forall j, (j < m)%nat -> vis j = true -> x j = c).
Proof.
  intros vis m s x NE a form. pose proof (softmax_distribution vis m s NE) as D.
  assert (form = variance m a x) as F by apply fisher_form. rewrite F.
  split; [reflexivity|]. split; [now apply variance_nonneg|]. split.
  - intro Z. destruct NE as (k & Hk & Vk). exists (x k). intros j Hj Vj.
    apply (variance_zero m a x D Z); trivial; now apply softmax_pos.
  - intros (c & Hc). unfold variance, a.
    rewrite (mean_constant vis m s x c), (mean_constant vis m s _ (c * c)); trivial; [ring|].
    intros j Hj V. now rewrite Hc.
Qed.

Theorem softmax_fisher_information : forall vis m s (D : nat -> nat -> R) k l, nonempty vis m ->
  (k < m)%nat -> (l < m)%nat ->
  (forall j k', (j < m)%nat -> (k' < m)%nat -> vis j = true ->
    is_derive (fun x => ln (softmax vis m (put1 s k' x) j)) (s k') (D j k')) ->
  Sum m (fun j => softmax vis m s j * (D j k * D j l)) = fisher (softmax vis m s) k l.
Proof.
  intros vis m s D k l NE Hk Hl H. set (a := softmax vis m s).
  assert (forall j k', (j < m)%nat -> (k' < m)%nat -> vis j = true -> D j k' = delta j k' - a k') as E.
  { intros j k' Hj Hk' V. pose proof (softmax_pos vis m s j Hj V) as P.
    assert (is_derive (fun x => ln (softmax vis m (put1 s k' x) j)) (s k') (delta j k' - a k')) as G.
    { eapply is_derive_eq.
      - apply (is_derive_comp ln (fun x => softmax vis m (put1 s k' x) j)).
        + apply is_derive_ln. now rewrite put1_same.
        + now apply softmax_jacobian.
      - rewrite put1_same. unfold scal; simpl; unfold mult; simpl. unfold a. field. lra. }
    rewrite <- (is_derive_unique _ _ _ (H j k' Hj Hk' V)). now apply is_derive_unique. }
  rewrite (Sum_ext m _ (fun j => delta k j * (delta j l * a j) - a l * (delta k j * a j)
                                 - a k * (delta l j * a j) + a k * a l * a j)).
  - rewrite Sum_plus, !Sum_minus, !Sum_scal_l, !Sum_delta by trivial.
    unfold a. rewrite softmax_sum by trivial. unfold fisher. ring.
  - intros j Hj. destruct (vis j) eqn:V.
    + rewrite !E by trivial. rewrite (delta_sym k j), (delta_sym l j). unfold a. ring.
    + unfold a. rewrite (softmax_masked vis m s j V). ring.
Qed.
