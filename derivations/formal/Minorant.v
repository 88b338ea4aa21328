(** Cross-entropy is convex in the logits, so its first-order surrogate at a frozen residual lies below it: a minorant,
    where EM needs a majorant. *)

From Bayesgrad Require Export Projections.

(** e^y's tangent lies below the exponential *)
Lemma exp_tangent x y : exp y * (1 + (x - y)) <= exp x.
Proof.
  replace x with (y + (x - y)) at 2 by ring. rewrite exp_plus. apply Rmult_le_compat_l; [left; apply exp_pos|].
  destruct (Req_dec (x - y) 0) as [->|N]; [rewrite exp_0; lra|left; now apply exp_ineq1].
Qed.

(** Jensen for the exponential: the tangent at the mean *)
Lemma exp_mean m p h : distribution m p -> exp (mean m p h) <= mean m p (fun j => exp (h j)).
Proof.
  intros [N S]. set (D := mean m p h).
  apply Rle_trans with (mean m p (fun j => exp D * (1 + (h j - D)))).
  - right. unfold mean. rewrite (Sum_ext m _ (fun j => exp D * (p j * h j) + exp D * (1 - D) * p j)) by (intros; ring).
    rewrite Sum_plus, !Sum_scal_l, S. fold (mean m p h). fold D. ring.
  - apply Sum_le. intros j Hj. apply Rmult_le_compat_l; [auto|apply exp_tangent].
Qed.

Definition partition (C : nat) (z : nat -> R) : R := Sum C (fun c => exp (z c)).

Lemma partition_pos C z : (0 < C)%nat -> 0 < partition C z.
Proof. intro H. apply (Sum_pos C _ 0%nat); trivial; intros; [left|]; apply exp_pos. Qed.

Lemma cross_entropy_partition C t z : (0 < C)%nat ->
  cross_entropy C t z = Sum C t * ln (partition C z) - dot C t z.
Proof.
  intro HC. pose proof (partition_pos C z HC) as P. unfold cross_entropy, dot.
  rewrite <- Sum_scal_r, <- Sum_minus. apply Sum_ext. intros c _.
  assert (softmax every C z c = exp (z c) / partition C z) as -> by reflexivity.
  unfold Rdiv. rewrite ln_mult, ln_exp, ln_Rinv; trivial; [ring|apply exp_pos|now apply Rinv_0_lt_compat].
Qed.

(** the log-partition lies above its tangent *)
Lemma log_partition_tangent C z z' : (0 < C)%nat ->
  mean C (softmax every C z) (fun c => z' c - z c) <= ln (partition C z') - ln (partition C z).
Proof.
  intro HC. pose proof (partition_pos C z HC) as P. pose proof (partition_pos C z' HC) as P'.
  apply Rnot_lt_le. intro X. apply exp_increasing in X. revert X. apply Rle_not_lt. unfold Rminus at 2.
  rewrite exp_plus, exp_Ropp, !exp_ln by trivial.
  eapply Rle_trans; [now apply exp_mean, softmax_distribution, (every_nonempty C 0)|].
  right. unfold mean, partition at 1. rewrite <- Sum_scal_r. apply Sum_ext. intros c _.
  assert (softmax every C z c = exp (z c) / partition C z) as -> by reflexivity.
  unfold Rminus. rewrite exp_plus, exp_Ropp. field. split; [lra|apply Rgt_not_eq, exp_pos].
Qed.

Lemma cross_entropy_minorant C t z z' : 0 <= Sum C t ->
  cross_entropy C t z + dot C (logit_gradient C (softmax every C z) t) (fun c => z' c - z c) <=
  cross_entropy C t z'.
Proof.
  intros T. destruct (Nat.eq_dec C 0) as [->|N]; [unfold cross_entropy, dot; simpl; lra|].
  assert (0 < C)%nat as HC by lia. rewrite !cross_entropy_partition by trivial.
  pose proof (Rmult_le_compat_l _ _ _ T (log_partition_tangent C z z' HC)) as J.
  assert (dot C (logit_gradient C (softmax every C z) t) (fun c => z' c - z c) =
          Sum C t * mean C (softmax every C z) (fun c => z' c - z c) - (dot C t z' - dot C t z)) as ->; [|lra].
  unfold dot, mean, logit_gradient. rewrite <- Sum_scal_l, <- !Sum_minus. apply Sum_ext. intros. ring.
Qed.

Theorem em_not_variational_minorant : forall n C t z z', (forall i, (i < n)%nat -> 0 <= Sum C (t i)) ->
  total_loss n C t z + Sum n (fun i => dot C (residual C t z i) (fun c => z' i c - z i c)) <= total_loss n C t z'.
Proof.
  intros n C t z z' T. unfold total_loss. rewrite <- Sum_plus. apply Sum_le. intros i Hi.
  now apply cross_entropy_minorant, T.
Qed.

Theorem em_not_variational_surrogate : forall n d C t g g' W_O c_O, (forall i, (i < n)%nat -> 0 <= Sum C (t i)) ->
  let u := fun i => back_through C (residual C t (affine d g W_O c_O) i) W_O in
  total_loss n C t (affine d g W_O c_O) + Sum n (fun i => dot d (u i) (fun c => g' i c - g i c)) <=
  total_loss n C t (affine d g' W_O c_O).
Proof.
  intros n d C t g g' W_O c_O T u. eapply Rle_trans; [|now apply (em_not_variational_minorant n C t (affine d g W_O c_O))].
  right. f_equal. apply Sum_ext. intros i _. unfold u. rewrite <- back_through_adjoint. apply dot_ext; [reflexivity|].
  intros c _. unfold affine. rewrite (Sum_ext d (fun e => (g' i e - g i e) * W_O e c)
    (fun e => g' i e * W_O e c - g i e * W_O e c)) by (intros; ring). rewrite Sum_minus. ring.
Qed.
