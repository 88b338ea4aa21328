(** The gradients of the statements are Frechet derivatives: derivatives along every curve against epsilon and delta.

    From Frechet to curves nothing is needed. The other way round a curve is laid through a sequence of points, one of
    each of countably many sets; picking them is the axiom of countable choice, which is no axiom here but a premise. *)

From Coq Require Import Classical.
From Bayesgrad Require Export Attention.

(** ** From Frechet to curves *)

(** near t the properties of all i < n hold together *)
Lemma locally_below n (P : nat -> R -> Prop) t :
  (forall i, (i < n)%nat -> locally t (P i)) -> locally t (fun z => forall i, (i < n)%nat -> P i z).
Proof.
  induction n as [|n IH]; intro H.
  - apply filter_forall. intros z i Hi. lia.
  - generalize (filter_and _ _ (IH (fun i Hi => H i (Nat.lt_lt_succ_r _ _ Hi))) (H n (Nat.lt_succ_diag_r n))).
    apply filter_imp. intros z [A B] i Hi. destruct (Nat.eq_dec i n) as [->|]; [exact B|apply A; lia].
Qed.

(** a derivative in epsilon and delta *)
Lemma is_derive_epsilon (f : R -> R) t l : is_derive f t l <->
  forall eps, 0 < eps -> locally t (fun z => Rabs (f z - f t - (z - t) * l) <= eps * Rabs (z - t)).
Proof.
  split.
  - intros [_ H] eps Heps. specialize (H t (fun P Q => Q) (mkposreal eps Heps)). revert H. apply filter_imp.
    intros z H. unfold minus, plus, opp, scal, norm in H; simpl in H. unfold mult, abs in H; simpl in H. exact H.
  - intro H. split; [apply (is_linear_scal_l (K := R_AbsRing))|]. intros y Hy.
    apply (is_filter_lim_locally_unique t y) in Hy. subst y. intro eps.
    generalize (H eps (cond_pos eps)). apply filter_imp. intros z B.
    unfold minus, plus, opp, scal, norm; simpl. unfold mult, abs; simpl. exact B.
Qed.

Lemma derive_bound (f : R -> R) t l : is_derive f t l ->
  locally t (fun z => Rabs (f z - f t) <= (Rabs l + 1) * Rabs (z - t)).
Proof.
  intro H. apply is_derive_epsilon with (eps := 1) in H; [|lra]. revert H. apply filter_imp. intros z H.
  replace (f z - f t) with ((f z - f t - (z - t) * l) + (z - t) * l) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. lra.
Qed.

Lemma norm1_ext n d y y' : (forall i c, (i < n)%nat -> (c < d)%nat -> y i c = y' i c) -> norm1 n d y = norm1 n d y'.
Proof. intro H. apply Sum_ext. intros i Hi. apply Sum_ext. intros c Hc. now rewrite H. Qed.

Lemma norm1_nonneg n d y : 0 <= norm1 n d y.
Proof. apply Sum_nonneg. intros. apply Sum_nonneg. intros. apply Rabs_pos. Qed.

Lemma norm1_entry n d y i c : (i < n)%nat -> (c < d)%nat -> Rabs (y i c) <= norm1 n d y.
Proof.
  intros Hi Hc. eapply Rle_trans; [|apply (Sum_ge_term n _ i); trivial].
  - apply (Sum_ge_term d (fun c => Rabs (y i c)) c); trivial. intros. apply Rabs_pos.
  - intros. apply Sum_nonneg. intros. apply Rabs_pos.
Qed.

Lemma norm1_le n d y (B : nat -> nat -> R) : (forall i c, (i < n)%nat -> (c < d)%nat -> Rabs (y i c) <= B i c) ->
  norm1 n d y <= Sum n (fun i => Sum d (B i)).
Proof. intro H. apply Sum_le. intros i Hi. apply Sum_le. intros c Hc. now apply H. Qed.

(** what is linear in the way from x has the derivative that a gradient promises *)
Lemma linear_curve n d (G x : nat -> nat -> R) (curve : R -> nat -> nat -> R) t rate :
  (forall i c, (i < n)%nat -> (c < d)%nat -> is_derive (fun z => curve z i c) t (rate i c)) ->
  is_derive (fun z => Sum n (fun i => dot d (G i) (fun c => curve z i c - x i c))) t
            (Sum n (fun i => dot d (G i) (rate i))).
Proof.
  intro Hr. apply (is_derive_Sum n (fun z i => dot d (G i) (fun c => curve z i c - x i c))). intros i Hi.
  apply (is_derive_Sum d (fun z c => G i c * (curve z i c - x i c)) t (fun c => G i c * rate i c)). intros c Hc.
  apply is_derive_scal_R. apply (is_derive_ext_R (fun z => curve z i c + - x i c)); [reflexivity|].
  eapply is_derive_eq; [apply is_derive_plus_R; [now apply Hr|apply is_derive_constant]|]. ring.
Qed.

Theorem dynamics_loss_decrease_frechet : forall n d F x G, frechet_at n d F x G -> gradient_at n d F x G.
Proof.
  intros n d F x G H curve t rate Hx Hr.
  set (far := fun z => norm1 n d (fun i c => curve z i c - x i c)).
  set (K := Sum n (fun i => Sum d (fun c => Rabs (rate i c) + 1))).
  assert (0 <= K) as HK.
  { apply Sum_nonneg. intros. apply Sum_nonneg. intros. pose proof (Rabs_pos (rate k k0)). lra. }
  assert (locally t (fun z => far z <= K * Rabs (z - t))) as HN.
  { assert (locally t (fun z => forall i, (i < n)%nat -> forall c, (c < d)%nat ->
      Rabs (curve z i c - curve t i c) <= (Rabs (rate i c) + 1) * Rabs (z - t))) as A.
    { apply locally_below. intros i Hi. apply locally_below. intros c Hc.
      now apply (derive_bound (fun z => curve z i c)), Hr. }
    revert A. apply filter_imp. intros z A. unfold far, K. rewrite <- Sum_scal_r.
    rewrite (Sum_ext n (fun i => Sum d _ * Rabs (z - t)) (fun i => Sum d (fun c => (Rabs (rate i c) + 1) * Rabs (z - t))))
      by (intros; now rewrite Sum_scal_r).
    apply norm1_le. intros i c Hi Hc. rewrite <- Hx by trivial. now apply A. }
  assert (F (curve t) = F x) as F0.
  { assert (far t = 0) as Z.
    { apply Sum_zero. intros i Hi. apply Sum_zero. intros c Hc. rewrite Hx, Rminus_diag_eq by trivial. apply Rabs_R0. }
    destruct (H 1 Rlt_0_1) as (del & Hd & B). specialize (B (curve t)). fold (far t) in B. rewrite Z in B.
    specialize (B (Rlt_le _ _ Hd)). rewrite Rmult_0_r in B.
    rewrite (Sum_zero n (fun i => dot d (G i) _)) in B.
    - pose proof (Rabs_pos (F (curve t) - F x - 0)). apply Rminus_diag_uniq.
      rewrite <- (Rminus_0_r (F (curve t) - F x)). apply Rabs_eq_0. lra.
    - intros i Hi. apply dot_zero_r. intros c Hc. rewrite Hx by trivial. ring. }
  set (lin := fun z => Sum n (fun i => dot d (G i) (fun c => curve z i c - x i c))).
  assert (lin t = 0) as L0.
  { apply Sum_zero. intros i Hi. apply dot_zero_r. intros c Hc. rewrite Hx by trivial. ring. }
  assert (is_derive lin t (Sum n (fun i => dot d (G i) (rate i)))) as HL by now apply linear_curve.
  apply is_derive_epsilon. intros eps Heps.
  destruct (H (eps / 2 / (K + 1))) as (del & Hd & B).
  { apply Rdiv_lt_0_compat; lra. }
  assert (locally t (fun z => Rabs (z - t) <= del / (K + 1))) as HD.
  { assert (0 < del / (K + 1)) as P by (apply Rdiv_lt_0_compat; lra).
    exists (mkposreal _ P). intros z Hz. left. exact Hz. }
  apply is_derive_epsilon with (eps := eps / 2) in HL; [|lra].
  generalize (filter_and _ _ HL (filter_and _ _ HN HD)). apply filter_imp. intros z (L & N & D).
  assert (far z <= del) as ND.
  { eapply Rle_trans; [exact N|]. apply Rle_trans with ((K + 1) * (del / (K + 1))); [|right; field; lra].
    apply Rmult_le_compat; trivial; [apply Rabs_pos|lra]. }
  specialize (B (curve z) ND). fold (lin z) in B. fold (far z) in B. rewrite L0 in L. rewrite F0.
  assert (eps / 2 / (K + 1) * far z <= eps / 2 * Rabs (z - t)) as C.
  { apply Rle_trans with (eps / 2 / (K + 1) * ((K + 1) * Rabs (z - t))); [|right; field; lra].
    apply Rmult_le_compat_l; [left; apply Rdiv_lt_0_compat; lra|]. eapply Rle_trans; [exact N|].
    apply Rmult_le_compat_r; [apply Rabs_pos|lra]. }
  set (S := Sum n (fun i => dot d (G i) (rate i))) in *.
  replace (F (curve z) - F x - (z - t) * S) with ((F (curve z) - F x - lin z) + (lin z - 0 - (z - t) * S)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

(** ** From curves to Frechet *)

Section Converse.
Variables (n d : nat) (F : (nat -> nat -> R) -> R) (x G : nat -> nat -> R).
Hypothesis gradient : gradient_at n d F x G.

Definition far (y : nat -> nat -> R) : R := norm1 n d (fun i c => y i c - x i c).
Definition remainder (y : nat -> nat -> R) : R :=
  F y - F x - Sum n (fun i => dot d (G i) (fun c => y i c - x i c)).

Lemma far_entry y i c : (i < n)%nat -> (c < d)%nat -> Rabs (y i c - x i c) <= far y.
Proof. intros. now apply (norm1_entry n d (fun i c => y i c - x i c)). Qed.

Lemma near_entry y i c : far y = 0 -> (i < n)%nat -> (c < d)%nat -> y i c = x i c.
Proof.
  intros Z Hi Hc. pose proof (far_entry y i c Hi Hc). pose proof (Rabs_pos (y i c - x i c)).
  apply Rminus_diag_uniq, Rabs_eq_0. lra.
Qed.

(** F does not look at entries outside (n, d): a curve may jump there *)
Lemma inside_only y : far y = 0 -> F y = F x.
Proof.
  intro Z. set (jump := fun z : R => if Rle_dec z 0 then x else y).
  assert (is_derive (fun z => F (jump z)) 0 (Sum n (fun i => dot d (G i) (fun _ => 0)))) as D.
  { apply (gradient jump 0 (fun _ _ => 0)).
    - intros i c Hi Hc. unfold jump. destruct (Rle_dec 0 0); [reflexivity|lra].
    - intros i c Hi Hc. apply (is_derive_ext_R (fun _ => x i c)); [|apply is_derive_constant].
      intro z. unfold jump. destruct (Rle_dec z 0); [reflexivity|]. symmetry. now apply near_entry. }
  rewrite Sum_constant_rates in D. apply is_derive_epsilon with (eps := 1) in D; [|lra]. destruct D as [del D].
  destruct (Req_dec (F y) (F x)) as [E|E]; [exact E|exfalso].
  set (z := Rmin (del / 2) (Rabs (F y - F x) / 2)).
  assert (0 < Rabs (F y - F x)) as P by (apply Rabs_pos_lt; lra). pose proof (cond_pos del) as Q.
  assert (0 < z) as Pz by (apply Rmin_pos; lra).
  assert (z <= del / 2 /\ z <= Rabs (F y - F x) / 2) as [A B] by (split; [apply Rmin_l|apply Rmin_r]).
  specialize (D z). unfold jump in D. destruct (Rle_dec z 0); [lra|]. destruct (Rle_dec 0 0); [|lra].
  assert (ball 0 del z) as Hball.
  { unfold ball; simpl. unfold AbsRing_ball, abs, minus, plus, opp; simpl. rewrite Ropp_0, Rplus_0_r, Rabs_pos_eq; lra. }
  specialize (D Hball). rewrite Rmult_0_r, !Rminus_0_r, (Rabs_pos_eq z) in D by lra. lra.
Qed.

(** points with the property lie as near to x as one likes, and are not x *)
Definition frequent (P : (nat -> nat -> R) -> Prop) : Prop :=
  forall del, 0 < del -> exists y, 0 < far y <= del /\ P y.

Definition shrinking (P : R -> (nat -> nat -> R) -> Prop) : Prop := forall e e' y, e <= e' -> P e y -> P e' y.

(** a bounded quantity has a value near which it is found again and again *)
Lemma cluster P (phi : (nat -> nat -> R) -> R) : shrinking P -> (forall y, 0 < far y -> -1 <= phi y <= 1) ->
  (forall e, 0 < e -> frequent (P e)) ->
  exists l, forall e, 0 < e -> frequent (fun y => P e y /\ Rabs (phi y - l) <= e).
Proof.
  intros M B H. set (E := fun a => forall e, 0 < e -> frequent (fun y => P e y /\ a <= phi y)).
  destruct (completeness E) as [l [Upper Least]].
  - exists 1. intros a Ha. destruct (Ha 1 Rlt_0_1 1 Rlt_0_1) as (y & Hy & _ & L). pose proof (B y (proj1 Hy)). lra.
  - exists (-1). intros e He del Hdel. destruct (H e He del Hdel) as (y & Hy & Py). exists y.
    repeat split; trivial; try apply Hy. apply B, Hy.
  - exists l. intros e He del Hdel.
    assert (exists a, E a /\ l - e < a) as (a & Ea & La).
    { apply NNPP. intro N. enough (l <= l - e) by lra. apply Least. intros a Ea. apply Rnot_lt_le. intro L.
      apply N. now exists a. }
    assert (exists e0 del0, 0 < e0 /\ 0 < del0 /\
      forall y, 0 < far y <= del0 -> P e0 y -> phi y < l + e) as (e0 & del0 & He0 & Hd0 & Above).
    { apply NNPP. intro N. enough (E (l + e)) as X by (specialize (Upper _ X); lra). intros e0 He0 del0 Hd0.
      apply NNPP. intro N'. apply N. exists e0, del0. repeat split; trivial. intros y Hy Py. apply Rnot_le_lt.
      intro L. apply N'. exists y. auto. }
    destruct (Ea (Rmin e e0) (Rmin_pos _ _ He He0) (Rmin del del0) (Rmin_pos _ _ Hdel Hd0)) as (y & Hy & Py & Ly).
    pose proof (Rmin_l e e0). pose proof (Rmin_r e e0). pose proof (Rmin_l del del0). pose proof (Rmin_r del del0).
    exists y. split; [lra|]. split; [now apply (M (Rmin e e0))|].
    pose proof (Above y ltac:(lra) (M _ _ _ H1 Py)). apply Rabs_le. lra.
Qed.

Lemma cluster_all N P (phi : nat -> (nat -> nat -> R) -> R) : shrinking P ->
  (forall k y, (k < N)%nat -> 0 < far y -> -1 <= phi k y <= 1) -> (forall e, 0 < e -> frequent (P e)) ->
  exists l : nat -> R, forall e, 0 < e ->
    frequent (fun y => P e y /\ forall k, (k < N)%nat -> Rabs (phi k y - l k) <= e).
Proof.
  intros M B H. induction N as [|N IH].
  - exists (fun _ => 0). intros e He del Hdel. destruct (H e He del Hdel) as (y & Hy & Py). exists y.
    split; [exact Hy|]. split; [exact Py|]. intros k Hk. lia.
  - destruct IH as [l Hl]; [intros; apply B; trivial; lia|].
    destruct (cluster (fun e y => P e y /\ forall k, (k < N)%nat -> Rabs (phi k y - l k) <= e) (phi N)) as [l0 H0].
    + intros e e' y Le [Py A]. split; [now apply (M e)|]. intros k Hk. eapply Rle_trans; [now apply A|exact Le].
    + intros. apply B; trivial. lia.
    + exact Hl.
    + exists (fun k => if Nat.eqb k N then l0 else l k). intros e He del Hdel.
      destruct (H0 e He del Hdel) as (y & Hy & (Py & A) & A0). exists y. split; [exact Hy|]. split; [exact Py|].
      intros k Hk. destruct (Nat.eqb_spec k N) as [->|D]; [exact A0|]. apply A. lia.
Qed.

(** the direction from x to y, entry i d + c of a row of all entries *)
Definition direction (k : nat) (y : nat -> nat -> R) : R :=
  (y (k / d)%nat (k mod d)%nat - x (k / d)%nat (k mod d)%nat) / far y.

Lemma position i c : (i < n)%nat -> (c < d)%nat ->
  (i * d + c < n * d)%nat /\ ((i * d + c) / d = i)%nat /\ ((i * d + c) mod d = c)%nat.
Proof.
  intros Hi Hc. repeat split.
  - apply Nat.lt_le_trans with (i * d + d)%nat; [lia|]. replace (i * d + d)%nat with (S i * d)%nat by (simpl; lia).
    apply Nat.mul_le_mono_r. lia.
  - rewrite Nat.div_add_l, Nat.div_small by lia. lia.
  - rewrite Nat.add_comm, Nat.mod_add, Nat.mod_small by lia. reflexivity.
Qed.

Lemma direction_bounded k y : (k < n * d)%nat -> 0 < far y -> -1 <= direction k y <= 1.
Proof.
  intros Hk P. assert (0 < d)%nat as Hd by (destruct d; lia).
  assert (k / d < n)%nat as Hi by (apply Nat.div_lt_upper_bound; lia).
  pose proof (far_entry y (k / d) (k mod d) Hi (Nat.mod_upper_bound k d ltac:(lia))) as B.
  apply Rabs_le_between. unfold direction, Rdiv. rewrite Rabs_mult, (Rabs_pos_eq (/ far y))
    by (left; now apply Rinv_0_lt_compat).
  apply Rmult_le_reg_r with (far y); [exact P|]. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma below_all (Y : nat -> nat -> nat -> R) K : (forall k, 0 < far (Y k)) ->
  exists del, 0 < del /\ forall k, (k < K)%nat -> del <= far (Y k).
Proof.
  intro P. induction K as [|K (del & Hd & H)]; [exists 1; split; [lra|intros; lia]|].
  exists (Rmin del (far (Y K))). split; [now apply Rmin_pos|]. intros k Hk.
  destruct (Nat.eq_dec k K) as [->|D]; [apply Rmin_r|]. eapply Rle_trans; [apply Rmin_l|]. apply H. lia.
Qed.

Lemma converse : countable_choice -> frechet_at n d F x G.
Proof.
  intros choice eps Heps. apply NNPP. intro N. set (bad := fun y => eps * far y < Rabs (remainder y)).
  assert (frequent bad) as Bad.
  { intros del Hdel. apply NNPP. intro N'. apply N. exists del. split; trivial. intros y Hy.
    fold (far y) in *. fold (remainder y). apply Rnot_lt_le. intro L. apply N'. exists y. split; [|exact L].
    split; [|exact Hy]. destruct (Rle_lt_or_eq_dec 0 (far y) (norm1_nonneg _ _ _)) as [|Z]; [trivial|exfalso].
    symmetry in Z. unfold remainder in L. rewrite (inside_only y Z), (Sum_zero n), Z in L.
    - replace (F x - F x - 0) with 0 in L by ring. rewrite Rabs_R0 in L. lra.
    - intros i Hi. apply dot_zero_r. intros c Hc. rewrite near_entry by trivial. ring. }
  destruct (cluster_all (n * d) (fun _ => bad) direction) as [l Hl].
  { intros e e' y _ B. exact B. }
  { apply direction_bounded. }
  { intros e _. exact Bad. }
  destruct (choice (fun k y => 0 < far y <= / INR (S k) /\ bad y /\
    forall p, (p < n * d)%nat -> Rabs (direction p y - l p) <= / INR (S k))) as [Y HY].
  { intro k. assert (0 < / INR (S k)) as P by (apply Rinv_0_lt_compat, lt_0_INR; lia). apply (Hl _ P _ P). }
  set (h := fun i c => l (i * d + c)%nat).
  set (curve := fun z => match ClassicalDedekindReals.sig_forall_dec (fun k => far (Y k) <> z)
    (fun k => match Req_EM_T (far (Y k)) z with left e => right (fun f => f e) | right f => left f end) with
    | inleft (exist k _) => Y k | inright _ => fun i c => x i c + z * h i c end).
  assert (forall z, (exists k, far (Y k) = z /\ curve z = Y k) \/
                    (forall k, far (Y k) <> z) /\ curve z = (fun i c => x i c + z * h i c)) as Curve.
  { intro z. unfold curve. destruct ClassicalDedekindReals.sig_forall_dec as [[k Hk]|Hk]; [left|right; now split].
    exists k. split; [now apply NNPP|reflexivity]. }
  assert (far (curve 0) = 0) as At0.
  { destruct (Curve 0) as [(k & Z & _)|[_ ->]]; [pose proof (HY k); lra|].
    apply Sum_zero. intros i _. apply Sum_zero. intros c _.
    replace (x i c + 0 * h i c - x i c) with 0 by ring. apply Rabs_R0. }
  assert (forall i c, (i < n)%nat -> (c < d)%nat -> is_derive (fun z => curve z i c) 0 (h i c)) as Dh.
  { intros i c Hi Hc. apply is_derive_epsilon. intros e He.
    destruct (archimed_cor1 e He) as (K & HK & PK).
    destruct (below_all Y K (fun k => proj1 (proj1 (HY k)))) as (del & Hd & Hdel).
    exists (mkposreal del Hd). intros z Hz. unfold ball in Hz; simpl in Hz.
    unfold AbsRing_ball, abs, minus, plus, opp in Hz; simpl in Hz. rewrite Ropp_0, Rplus_0_r in Hz.
    rewrite (near_entry _ i c At0), Rminus_0_r by trivial. destruct (Curve z) as [(k & Z & ->)|[_ ->]].
    - destruct (HY k) as ((Pk & _) & _ & Hk). destruct (position i c Hi Hc) as (Hp & Ei & Ec).
      specialize (Hk _ Hp). unfold direction in Hk. rewrite Ei, Ec in Hk. fold (h i c) in Hk.
      assert (K <= k)%nat as Kk.
      { apply Nat.nlt_ge. intro L. specialize (Hdel k L). rewrite Rabs_pos_eq in Hz by lra. lra. }
      assert (/ INR (S k) <= e) as Hke.
      { left. eapply Rle_lt_trans; [|exact HK]. apply Rinv_le_contravar; [now apply lt_0_INR|apply le_INR; lia]. }
      rewrite <- Z, (Rabs_pos_eq (far (Y k))) by lra.
      replace (Y k i c - x i c - far (Y k) * h i c) with (far (Y k) * ((Y k i c - x i c) / far (Y k) - h i c))
        by (field; lra).
      rewrite Rabs_mult, (Rabs_pos_eq (far (Y k))), Rmult_comm by lra. apply Rmult_le_compat_r; lra.
    - replace (x i c + z * h i c - x i c - z * h i c) with 0 by ring. rewrite Rabs_R0.
      apply Rmult_le_pos; [lra|apply Rabs_pos]. }
  assert (forall i c, (i < n)%nat -> (c < d)%nat -> curve 0 i c = x i c) as Start by (intros; now apply near_entry).
  pose proof (gradient curve 0 h Start Dh) as DF. pose proof (linear_curve n d G x curve 0 h Dh) as DL.
  apply is_derive_epsilon with (eps := eps / 2) in DF; [|lra].
  apply is_derive_epsilon with (eps := eps / 2) in DL; [|lra].
  destruct (filter_and _ _ DF DL) as [del H]. destruct (archimed_cor1 del (cond_pos del)) as (K & HK & PK).
  set (z := far (Y K)). pose proof (HY K) as ((Pz & Lz) & _). fold z in Pz, Lz.
  assert (/ INR (S K) <= / INR K) as LK by (apply Rinv_le_contravar; [now apply lt_0_INR|apply le_INR; lia]).
  assert (ball 0 del z) as Hball.
  { unfold ball; simpl. unfold AbsRing_ball, abs, minus, plus, opp; simpl. rewrite Ropp_0, Rplus_0_r, Rabs_pos_eq; lra. }
  specialize (H z Hball). rewrite (inside_only _ At0) in H.
  destruct (Curve z) as [(k & Z & Ek)|[Never _]]; [|now apply (Never K)].
  rewrite Ek in H. destruct (HY k) as (_ & B & _). unfold bad, remainder in B. rewrite Z in B.
  rewrite (Sum_zero n (fun i => dot d (G i) (fun c => curve 0 i c - x i c))) in H
    by (intros; apply dot_zero_r; intros; rewrite Start by trivial; ring).
  rewrite !Rminus_0_r, (Rabs_pos_eq z) in H by lra. destruct H as [HF HL].
  set (S' := Sum n (fun i => dot d (G i) (h i))) in *.
  set (A := Sum n (fun i => dot d (G i) (fun c => Y k i c - x i c))) in *.
  replace (F (Y k) - F x - A) with ((F (Y k) - F x - z * S') - (A - z * S')) in B by ring.
  pose proof (Rabs_triang (F (Y k) - F x - z * S') (- (A - z * S'))) as T. rewrite Rabs_Ropp in T.
  fold (Rminus (F (Y k) - F x - z * S') (A - z * S')) in T. lra.
Qed.
End Converse.

Theorem dynamics_loss_decrease_frechet_equivalent : countable_choice ->
  forall n d F x G, gradient_at n d F x G <-> frechet_at n d F x G.
Proof.
  intros choice n d F x G. split; [|apply dynamics_loss_decrease_frechet]. intro H. now apply converse.
Qed.
