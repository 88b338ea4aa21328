(** Logarithms, divergences and extended sums: Gibbs' inequality and the EM identity. *)

From Bayesgrad Require Export Dynamics.

Theorem lemma_log_bound : forall t, 0 < t -> ln t <= t - 1 /\ (ln t = t - 1 <-> t = 1).
Proof.
  intros t Ht. destruct (Req_dec (ln t) 0) as [Z|Z].
  - assert (t = 1) as -> by (rewrite <- (exp_ln t Ht), Z; apply exp_0).
    rewrite ln_1. split; [lra|split; intro; lra].
  - pose proof (exp_ineq1 (ln t) Z) as E. rewrite exp_ln in E by trivial. split; [lra|]. split; intro H.
    + lra.
    + subst. rewrite ln_1 in Z. contradiction.
Qed.

(** ** Extended sums *)

Lemma extended_sum_ext n f g : (forall k, (k < n)%nat -> f k = g k) -> extended_sum n f = extended_sum n g.
Proof. intro H. induction n as [|n IH]; simpl; [reflexivity|]. rewrite IH, H by auto. reflexivity. Qed.

Lemma extended_sum_finite n f g : (forall k, (k < n)%nat -> f k = Finite (g k)) ->
  extended_sum n f = Finite (Sum n g).
Proof. intro H. induction n as [|n IH]; simpl; [reflexivity|]. rewrite IH, H by auto. reflexivity. Qed.

Lemma extended_sum_proper n f : (forall k, (k < n)%nat -> f k <> m_infty) -> extended_sum n f <> m_infty.
Proof.
  intro H. induction n as [|n IH]; simpl; [discriminate|].
  pose proof (H n ltac:(lia)) as Hn. specialize (IH ltac:(auto)).
  destruct (extended_sum n f), (f n); simpl; congruence.
Qed.

Lemma extended_sum_infinite n f j : (forall k, (k < n)%nat -> f k <> m_infty) -> (j < n)%nat ->
  f j = p_infty -> extended_sum n f = p_infty.
Proof.
  intros H Hj E. induction n as [|n IH]; [lia|]. simpl.
  pose proof (extended_sum_proper n f ltac:(auto)) as P. pose proof (H n ltac:(lia)) as Hn.
  destruct (Nat.eq_dec j n) as [->|D].
  - rewrite E. destruct (extended_sum n f); simpl; congruence.
  - rewrite IH by (auto; lia). destruct (f n); simpl; congruence.
Qed.

Lemma extended_sum_plus n f g : (forall k, (k < n)%nat -> g k <> m_infty) ->
  extended_sum n (fun k => Rbar_plus (Finite (f k)) (g k)) = Rbar_plus (Finite (Sum n f)) (extended_sum n g).
Proof.
  intro H. induction n as [|n IH]; simpl; [f_equal; ring|].
  pose proof (extended_sum_proper n g ltac:(auto)) as P. pose proof (H n ltac:(lia)) as Hn.
  rewrite IH by auto. destruct (extended_sum n g), (g n); simpl; try congruence. f_equal. ring.
Qed.

Lemma scale_infinite w : 0 < w -> Rbar_mult (Finite w) p_infty = p_infty.
Proof.
  intro H. unfold Rbar_mult, Rbar_mult'. destruct (Rle_dec 0 w) as [L|L]; [|lra].
  destruct (Rle_lt_or_eq_dec 0 w L) as [M|M]; [reflexivity|lra].
Qed.

Lemma scale_zero x : Rbar_mult (Finite 0) x = Finite 0.
Proof. apply Rbar_mult_0_l. Qed.

Lemma scale_proper w x : 0 <= w -> x <> m_infty -> Rbar_mult (Finite w) x <> m_infty.
Proof.
  intros [H|<-] P; [|rewrite scale_zero; discriminate].
  destruct x; [discriminate|rewrite scale_infinite by trivial; discriminate|congruence].
Qed.

Lemma extended_sum_scal n w g : 0 <= w -> (forall k, (k < n)%nat -> g k <> m_infty) ->
  extended_sum n (fun k => Rbar_mult (Finite w) (g k)) = Rbar_mult (Finite w) (extended_sum n g).
Proof.
  intros [Hw|<-] H.
  - induction n as [|n IH]; simpl; [f_equal; ring|].
    pose proof (extended_sum_proper n g ltac:(auto)) as P. pose proof (H n ltac:(lia)) as Hn.
    rewrite IH by auto.
    destruct (extended_sum n g), (g n); try congruence; rewrite ?scale_infinite by trivial;
      simpl; rewrite ?scale_infinite by trivial; try reflexivity.
    f_equal. ring.
  - rewrite scale_zero. rewrite (extended_sum_finite n _ (fun _ => 0)).
    + now rewrite Sum_zero.
    + intros. apply scale_zero.
Qed.

Lemma extended_sum_nonneg n f : (forall k, (k < n)%nat -> Rbar_le 0 (f k)) -> Rbar_le 0 (extended_sum n f).
Proof.
  intro H. induction n as [|n IH]; simpl; [lra|].
  pose proof (H n ltac:(lia)) as Hn. specialize (IH ltac:(auto)).
  destruct (extended_sum n f), (f n); simpl in *; trivial; lra.
Qed.

Lemma extended_sum_zero n f : (forall k, (k < n)%nat -> Rbar_le 0 (f k)) ->
  (extended_sum n f = Finite 0 <-> forall k, (k < n)%nat -> f k = Finite 0).
Proof.
  intro H. split.
  - induction n as [|n IH]; simpl; [lia|]. intro E.
    pose proof (H n ltac:(lia)) as Hn. pose proof (extended_sum_nonneg n f ltac:(auto)) as P.
    destruct (extended_sum n f) as [x| |] eqn:Ex, (f n) as [y| |] eqn:Ey;
      try rewrite Ex in P; try rewrite Ey in Hn; simpl in P, Hn, E; try discriminate; try contradiction.
    injection E as E. assert (x = 0) by lra. assert (y = 0) by lra. subst.
    intros k Hk. destruct (Nat.eq_dec k n) as [->|D]; [trivial|]. apply IH; auto; lia.
  - intro E. rewrite (extended_sum_finite n f (fun _ => 0)) by trivial. now rewrite Sum_zero.
Qed.

(** ** Gibbs *)

Lemma log_ratio_cost_proper p q : log_ratio_cost p q <> m_infty.
Proof. unfold log_ratio_cost. destruct (Rle_dec p 0), (Rle_dec q 0); discriminate. Qed.

Lemma log_ratio_cost_zero p q : p <= 0 -> log_ratio_cost p q = Finite 0.
Proof. intro H. unfold log_ratio_cost. destruct (Rle_dec p 0); [reflexivity|lra]. Qed.

Lemma log_ratio_cost_infinite p q : 0 < p -> q <= 0 -> log_ratio_cost p q = p_infty.
Proof. intros. unfold log_ratio_cost. destruct (Rle_dec p 0), (Rle_dec q 0); try lra. reflexivity. Qed.

Lemma log_ratio_cost_finite p q : 0 < p -> 0 < q -> log_ratio_cost p q = Finite (p * ln (p / q)).
Proof. intros. unfold log_ratio_cost. destruct (Rle_dec p 0), (Rle_dec q 0); try lra. reflexivity. Qed.

(** p log (p/q) >= p - q, with equality only at p = q *)
Lemma log_ratio_bound p q : 0 <= p -> 0 <= q ->
  log_ratio_cost p q = p_infty \/
  exists x, log_ratio_cost p q = Finite x /\ p - q <= x /\ (x = p - q -> p = q).
Proof.
  intros Hp Hq. destruct (Rle_lt_dec p 0) as [P|P]; [right|destruct (Rle_lt_dec q 0) as [Q|Q]; [left|right]].
  - exists 0. rewrite log_ratio_cost_zero by trivial. repeat split; lra.
  - now apply log_ratio_cost_infinite.
  - exists (p * ln (p / q)). rewrite log_ratio_cost_finite by trivial.
    destruct (lemma_log_bound (q / p) ltac:(now apply Rdiv_lt_0_compat)) as [B U].
    assert (ln (p / q) = - ln (q / p)) as E.
    { replace (p / q) with (/ (q / p)) by (field; lra). apply ln_Rinv. now apply Rdiv_lt_0_compat. }
    assert (p * (q / p - 1) = q - p) as F by (field; lra).
    rewrite E. split; [reflexivity|]. split.
    + assert (p * ln (q / p) <= p * (q / p - 1)) by (apply Rmult_le_compat_l; lra). lra.
    + intro X. assert (ln (q / p) = q / p - 1) as Y.
      { apply (Rmult_eq_reg_l p); lra. }
      apply U in Y. assert (q = p) by (rewrite <- (Rmult_1_r p), <- Y; field; lra). lra.
Qed.

Lemma divergence_self n p : divergence n p p = Finite 0.
Proof.
  unfold divergence. rewrite (extended_sum_finite n _ (fun _ => 0)); [now rewrite Sum_zero|].
  intros y _. destruct (Rle_lt_dec (p y) 0) as [P|P].
  - now apply log_ratio_cost_zero.
  - rewrite log_ratio_cost_finite by trivial. replace (p y / p y) with 1 by (field; lra). rewrite ln_1. f_equal. ring.
Qed.

Lemma some_infinite n f : (exists k, (k < n)%nat /\ f k = p_infty) \/ (forall k, (k < n)%nat -> f k <> p_infty).
Proof.
  induction n as [|n [(k & Hk & E)|IH]]; [right; lia|left; exists k; split; [lia|trivial]|].
  destruct (f n) as [x| |] eqn:E.
  - right. intros k Hk. destruct (Nat.eq_dec k n) as [->|D]; [congruence|]. apply IH. lia.
  - left. exists n. split; [lia|trivial].
  - right. intros k Hk. destruct (Nat.eq_dec k n) as [->|D]; [congruence|]. apply IH. lia.
Qed.

Theorem lemma_gibbs : forall n p q, distribution n p -> distribution n q ->
  Rbar_le 0 (divergence n p q) /\
  (divergence n p q = Finite 0 <-> forall y, (y < n)%nat -> p y = q y).
Proof.
  intros n p q [Np Sp] [Nq Sq]. unfold divergence. set (f := fun y => log_ratio_cost (p y) (q y)).
  assert (forall y, (y < n)%nat -> f y <> m_infty) as Proper by (intros; apply log_ratio_cost_proper).
  destruct (some_infinite n f) as [(y & Hy & E)|Fin].
  - rewrite (extended_sum_infinite n f y) by trivial. split; [exact I|]. split; [discriminate|].
    intro H. exfalso. unfold f in E. rewrite (H y Hy) in E. unfold log_ratio_cost in E.
    destruct (Rle_dec (q y) 0); discriminate.
  - assert (forall y, (y < n)%nat -> f y = Finite (real (f y)) /\ p y - q y <= real (f y) /\
      (real (f y) = p y - q y -> p y = q y)) as T.
    { intros y Hy. destruct (log_ratio_bound (p y) (q y) (Np y Hy) (Nq y Hy)) as [E|(x & E & B & U)].
      - exfalso. exact (Fin y Hy E).
      - unfold f. rewrite E. simpl. auto. }
    rewrite (extended_sum_finite n f (fun y => real (f y))) by (intros; now apply T).
    assert (Sum n (fun y => p y - q y) = 0) as D by (rewrite Sum_minus; lra).
    assert (Sum n (fun y => real (f y)) = Sum n (fun y => real (f y) - (p y - q y))) as R
      by (rewrite (Sum_minus n (fun y => real (f y))), D; ring).
    assert (forall y, (y < n)%nat -> 0 <= real (f y) - (p y - q y)) as Pos.
    { intros y Hy. destruct (T y Hy) as (_ & B & _). lra. }
    rewrite R. split; [apply Sum_nonneg; trivial|]. split.
    + intro Z. injection Z as Z. intros y Hy. apply (T y Hy).
      pose proof (Sum_nonneg_zero n _ Pos Z y Hy) as V. cbv beta in V. lra.
    + intro H. f_equal. rewrite <- R. apply Sum_zero. intros y Hy. unfold f. rewrite (H y Hy).
      destruct (Rle_lt_dec (q y) 0) as [Q|Q].
      * now rewrite log_ratio_cost_zero.
      * rewrite log_ratio_cost_finite by trivial. simpl. replace (q y / q y) with 1 by (field; lra).
        rewrite ln_1. ring.
Qed.

(** ** Mixtures *)

Lemma mixture_mass_pos m pi e : (forall j, (j < m)%nat -> 0 <= pi j) -> (exists j, (j < m)%nat /\ 0 < pi j) ->
  (forall j, 0 < e j) -> 0 < mean m pi e.
Proof.
  intros N (j & Hj & P) H. apply (Sum_pos m _ j); trivial.
  - intros k Hk. apply Rmult_le_pos; [auto|left; apply H].
  - apply Rmult_lt_0_compat; trivial.
Qed.

Lemma posterior_distribution m pi c : (forall j, (j < m)%nat -> 0 <= pi j) ->
  (exists j, (j < m)%nat /\ 0 < pi j) -> distribution m (posterior m pi c).
Proof.
  intros N E. pose proof (mixture_mass_pos m pi (fun j => exp (- c j)) N E ltac:(intro; apply exp_pos)) as P. split.
  - intros j Hj. apply Rmult_le_pos; [apply Rmult_le_pos; [auto|left; apply exp_pos]|].
    left. now apply Rinv_0_lt_compat.
  - unfold posterior, bayes_rule. rewrite Sum_div. fold (mean m pi (fun j => exp (- c j))). field. lra.
Qed.

Theorem lemma_em_identity : forall m pi c0 c1,
  (forall j, (j < m)%nat -> 0 <= pi j) -> (exists j, (j < m)%nat /\ 0 < pi j) ->
  let r0 := posterior m pi c0 in
  let r1 := posterior m pi c1 in
  divergence m r0 r1 =
  Finite (mean m r0 c1 - mean m r0 c0 - (mixture_loss m pi c1 - mixture_loss m pi c0)).
Proof.
  intros m pi c0 c1 N E r0 r1.
  pose proof (mixture_mass_pos m pi (fun j => exp (- c0 j)) N E ltac:(intro; apply exp_pos)) as P0.
  pose proof (mixture_mass_pos m pi (fun j => exp (- c1 j)) N E ltac:(intro; apply exp_pos)) as P1.
  destruct (posterior_distribution m pi c0 N E) as [_ S0]. fold r0 in S0.
  unfold divergence.
  rewrite (extended_sum_finite m _ (fun j => r0 j * c1 j - r0 j * c0 j
    + r0 j * (mixture_loss m pi c0 - mixture_loss m pi c1))).
  - f_equal. rewrite Sum_plus, Sum_minus, Sum_scal_r, S0. unfold mean. ring.
  - intros j Hj. unfold r0, r1, posterior, bayes_rule.
    destruct (N j Hj) as [L|Z].
    + rewrite log_ratio_cost_finite.
      * f_equal. set (Z0 := mean m pi (fun j => exp (- c0 j))) in *. set (Z1 := mean m pi (fun j => exp (- c1 j))) in *.
        assert (ln (pi j * exp (- c0 j) / Z0 / (pi j * exp (- c1 j) / Z1)) = c1 j - c0 j + (ln Z1 - ln Z0)) as ->.
        { replace (pi j * exp (- c0 j) / Z0 / (pi j * exp (- c1 j) / Z1)) with (exp (c1 j - c0 j) * (Z1 / Z0)).
          - rewrite ln_mult, ln_exp; [|apply exp_pos|now apply Rdiv_lt_0_compat].
            unfold Rdiv. rewrite ln_mult, ln_Rinv by (trivial; now apply Rinv_0_lt_compat). ring.
          - unfold Rminus. rewrite exp_plus, (exp_Ropp (c1 j)). pose proof (exp_pos (c1 j)). field.
            repeat split; try lra; apply Rgt_not_eq, exp_pos. }
        unfold mixture_loss. fold Z0 Z1. field. lra.
      * apply Rdiv_lt_0_compat; trivial. apply Rmult_lt_0_compat; [trivial|apply exp_pos].
      * apply Rdiv_lt_0_compat; trivial. apply Rmult_lt_0_compat; [trivial|apply exp_pos].
    + rewrite <- Z. rewrite log_ratio_cost_zero; [f_equal|]; unfold Rdiv; rewrite ?Rmult_0_l; lra.
Qed.

Theorem lemma_em_identity_monotone : forall m pi c0 c1,
  (forall j, (j < m)%nat -> 0 <= pi j) -> (exists j, (j < m)%nat /\ 0 < pi j) ->
  mean m (posterior m pi c0) c1 <= mean m (posterior m pi c0) c0 ->
  mixture_loss m pi c1 <= mixture_loss m pi c0.
Proof.
  intros m pi c0 c1 N E Q.
  destruct (lemma_gibbs m _ _ (posterior_distribution m pi c0 N E) (posterior_distribution m pi c1 N E)) as [G _].
  rewrite lemma_em_identity in G by trivial. simpl in G. lra.
Qed.
