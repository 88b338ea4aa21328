(** What EM means exactly: Fisher's identity, the proximal steps, the Gaussian mixture. *)

From Bayesgrad Require Export Information.

Theorem em_fisher_identity : forall m pi (c : R -> nat -> R) rate t,
  (forall j, (j < m)%nat -> 0 <= pi j) -> (exists j, (j < m)%nat /\ 0 < pi j) ->
  (forall j, (j < m)%nat -> is_derive (fun x => c x j) t (rate j)) ->
  is_derive (fun x => mixture_loss m pi (c x)) t (mean m (posterior m pi (c t)) rate).
Proof.
  intros m pi c rate t N E H.
  pose proof (mixture_mass_pos m pi (fun j => exp (- c t j)) N E ltac:(intro; apply exp_pos)) as P.
  eapply is_derive_eq.
  - unfold mixture_loss. apply (is_derive_opp (V := R_NormedModule)).
    apply (is_derive_comp ln (fun x => mean m pi (fun j => exp (- c x j)))); [now apply is_derive_ln|].
    apply (is_derive_Sum m (fun x j => pi j * exp (- c x j)) t (fun j => - (pi j * exp (- c t j) * rate j))).
    intros j Hj. eapply is_derive_eq.
    + apply is_derive_scal_R. apply (is_derive_comp exp (fun x => - c x j)); [apply is_derive_exp|].
      apply (is_derive_opp (V := R_NormedModule)). now apply H.
    + unfold opp, scal; simpl; unfold mult; simpl. ring.
  - unfold opp, scal; simpl; unfold mult; simpl. rewrite Sum_opp. unfold posterior, bayes_rule.
    unfold mean at 2.
    rewrite (Sum_ext m (fun j => pi j * exp (- c t j) / _ * rate j)
      (fun j => pi j * exp (- c t j) * rate j / mean m pi (fun j => exp (- c t j)))) by (intros; field; lra).
    rewrite Sum_div. field. lra.
Qed.

(** ** The E-step *)

(** KL(a || best) = sum_j a_j (eta b_j + log Z) + KL(a || a0), infinite together *)
Lemma divergence_tilt m eta b a0 a : distribution m a0 -> distribution m a ->
  let Z := mean m a0 (fun j => exp (- eta * b j)) in
  divergence m a (bayes_rule m a0 (fun j => exp (- eta * b j))) =
  Rbar_plus (Finite (eta * mean m a b + ln Z)) (divergence m a a0).
Proof.
  intros D0 [N S] Z.
  pose proof (tilt_mass_pos m a0 (fun j => exp (- eta * b j)) D0 ltac:(intro; apply exp_pos)) as P. fold Z in P.
  destruct D0 as [N0 S0].
  assert (eta * mean m a b + ln Z = Sum m (fun j => a j * (eta * b j + ln Z))) as ->.
  { rewrite (Sum_ext m _ (fun j => eta * (a j * b j) + a j * ln Z)) by (intros; ring).
    rewrite Sum_plus, Sum_scal_l, Sum_scal_r, S. unfold mean. ring. }
  unfold divergence. rewrite <- extended_sum_plus by (intros; apply log_ratio_cost_proper).
  apply extended_sum_ext. intros j Hj. unfold bayes_rule. fold Z.
  destruct (N j Hj) as [A|A]; [destruct (N0 j Hj) as [B|B]|].
  - rewrite !log_ratio_cost_finite; trivial.
    + simpl. f_equal.
      replace (a j / (a0 j * exp (- eta * b j) / Z)) with (a j / a0 j * (exp (eta * b j) * Z)).
      * rewrite ln_mult, (ln_mult (exp _)), ln_exp; trivial; [ring|apply exp_pos|now apply Rdiv_lt_0_compat|].
        apply Rmult_lt_0_compat; [apply exp_pos|trivial].
      * replace (- eta * b j) with (- (eta * b j)) by ring. rewrite exp_Ropp. pose proof (exp_pos (eta * b j)).
        field. lra.
    + apply Rdiv_lt_0_compat; trivial. apply Rmult_lt_0_compat; [trivial|apply exp_pos].
  - rewrite <- B. rewrite (log_ratio_cost_infinite (a j) 0) by lra.
    rewrite log_ratio_cost_infinite; [reflexivity|trivial|unfold Rdiv; rewrite !Rmult_0_l; lra].
  - rewrite <- A. rewrite !log_ratio_cost_zero by lra. simpl. f_equal. ring.
Qed.

Theorem em_proximal_e_step : forall m eta b a0, 0 < eta -> distribution m a0 ->
  let best := bayes_rule m a0 (fun j => exp (- eta * b j)) in
  distribution m best /\
  forall a, distribution m a ->
  Rbar_le (e_step_objective m eta b a0 best) (e_step_objective m eta b a0 a) /\
  (e_step_objective m eta b a0 a = e_step_objective m eta b a0 best <->
   forall j, (j < m)%nat -> a j = best j).
Proof.
  intros m eta b a0 He D0 best.
  assert (distribution m best) as Db by (apply bayes_rule_distribution; trivial; intro; apply exp_pos).
  split; [trivial|].
  set (Z := mean m a0 (fun j => exp (- eta * b j))).
  assert (forall a, distribution m a -> e_step_objective m eta b a0 a =
    Rbar_plus (Finite (- ln Z / eta)) (Rbar_mult (Finite (/ eta)) (divergence m a best))) as Obj.
  { intros a Da. unfold e_step_objective, best. rewrite divergence_tilt by trivial. fold Z.
    pose proof (extended_sum_proper m (fun y => log_ratio_cost (a y) (a0 y))
      ltac:(intros; apply log_ratio_cost_proper)) as Proper. fold (divergence m a a0) in Proper.
    destruct (divergence m a a0) as [x| |]; [| |congruence].
    2: { change (Rbar_plus (Finite (eta * mean m a b + ln Z)) p_infty) with p_infty.
         rewrite scale_infinite by now apply Rinv_0_lt_compat. reflexivity. }
    simpl. f_equal. field. lra. }
  assert (e_step_objective m eta b a0 best = Finite (- ln Z / eta)) as Ob.
  { rewrite Obj, divergence_self by trivial. simpl. f_equal. ring. }
  intros a Da. rewrite Ob, Obj by trivial.
  destruct (lemma_gibbs m a best Da Db) as [G U].
  assert (0 < / eta) as Hi by now apply Rinv_0_lt_compat.
  destruct (divergence m a best) as [x| |]; [| |contradiction].
  - simpl in *. assert (0 <= / eta * x) by (apply Rmult_le_pos; lra). split; [lra|]. rewrite <- U.
    split; intro E; injection E as E; f_equal.
    + assert (/ eta * x = 0) as F by lra. apply Rmult_integral in F. lra.
    + subst. ring.
  - rewrite scale_infinite by trivial. split; [exact I|]. rewrite <- U. split; discriminate.
Qed.

(** ** The M-step *)

Lemma m_step_surrogate n m d a u v :
  Sum n (fun i => Sum m (fun j => a i j * dot d (u i) (v j))) =
  Sum m (fun j => dot d (value_gradient n a u j) (v j)).
Proof. apply value_adjoint. Qed.

(** the objective exceeds its minimum by |v - best|^2 / (2 eta) *)
Lemma m_step_excess n m d eta a u v0 v : 0 < eta ->
  let best := fun j c => v0 j c - eta * value_gradient n a u j c in
  m_step_objective n m d eta a u v0 v =
  m_step_objective n m d eta a u v0 best +
  Sum m (fun j => Sum d (fun c => (v j c - best j c) * (v j c - best j c))) / (2 * eta).
Proof.
  intros He best. unfold m_step_objective. rewrite !m_step_surrogate. unfold dot.
  rewrite <- !Sum_div, <- !Sum_plus. apply Sum_ext. intros j _.
  rewrite <- !Sum_div, <- !Sum_plus. apply Sum_ext. intros c _. unfold best. field. lra.
Qed.

Theorem em_proximal_m_step : forall n m d eta a u v0 v, 0 < eta ->
  let best := fun j c => v0 j c - eta * value_gradient n a u j c in
  m_step_objective n m d eta a u v0 best <= m_step_objective n m d eta a u v0 v /\
  (m_step_objective n m d eta a u v0 v = m_step_objective n m d eta a u v0 best <->
   forall j c, (j < m)%nat -> (c < d)%nat -> v j c = best j c).
Proof.
  intros n m d eta a u v0 v He best. 
  assert (m_step_objective n m d eta a u v0 v = m_step_objective n m d eta a u v0 best +
    Sum m (fun j => Sum d (fun c => (v j c - best j c) * (v j c - best j c))) / (2 * eta)) as ->
    by now apply m_step_excess.
  assert (forall j, (j < m)%nat -> 0 <= Sum d (fun c => (v j c - best j c) * (v j c - best j c))) as Pos.
  { intros j _. apply Sum_nonneg. intros. apply Rle_0_sqr. }
  pose proof (Sum_nonneg m _ Pos) as T. cbv beta in T.
  assert (0 < / (2 * eta)) as Hi by (apply Rinv_0_lt_compat; lra).
  set (X := Sum m (fun j => Sum d (fun c => (v j c - best j c) * (v j c - best j c)))) in *.
  assert (0 <= X / (2 * eta)) by (apply Rmult_le_pos; lra).
  split; [lra|]. split.
  - intros E j c Hj Hc. assert (X / (2 * eta) = 0) as F by lra.
    apply Rmult_integral in F. destruct F as [F|F]; [|lra].
    pose proof (Sum_nonneg_zero m _ Pos F j Hj) as G. cbv beta in G.
    pose proof (Sum_nonneg_zero d (fun c => (v j c - best j c) * (v j c - best j c))
      ltac:(intros; apply Rle_0_sqr) G c Hc) as K. cbv beta in K.
    apply Rmult_integral in K. lra.
  - intro E. assert (X = 0) as ->; [|unfold Rdiv; ring].
    apply Sum_zero. intros j Hj. apply Sum_zero. intros c Hc. rewrite E by trivial. ring.
Qed.

(** ** The Gaussian mixture *)

(** Bayes' rule sees the product of prior and likelihood only up to a constant *)
Lemma bayes_rule_proportional m a e f k j : k <> 0 -> Sum m f <> 0 ->
  (forall j, (j < m)%nat -> a j * e j = k * f j) -> (j < m)%nat -> bayes_rule m a e j = f j / Sum m f.
Proof.
  intros Hk Hf H Hj. unfold bayes_rule, mean. rewrite (Sum_ext m _ (fun j => k * f j)) by trivial.
  rewrite Sum_scal_l, H by trivial. field. auto.
Qed.

Lemma gaussian_expand d k q :
  dot d (fun c => q c - k c) (fun c => q c - k c) = dot d q q - 2 * dot d q k + dot d k k.
Proof.
  unfold dot. rewrite <- Sum_scal_l, <- Sum_minus, <- Sum_plus. apply Sum_ext. intros. ring.
Qed.

Theorem em_gaussian_mixture : forall vis m d scale q k pi, 0 < scale ->
  (forall j, (j < m)%nat -> 0 <= pi j) -> (forall j, (j < m)%nat -> (vis j = true <-> 0 < pi j)) ->
  nonempty vis m ->
  let prior := normalise every m (fun j => pi j * exp (scale * dot d (k j) (k j) / 2)) in
  distribution m prior /\
  forall j, (j < m)%nat ->
  softmax vis m (fun j => scale * dot d q (k j) + ln (pi j)) j =
  bayes_rule m prior (fun j => gaussian d scale (k j) q) j.
Proof.
  intros vis m d scale q k pi Hs N V (j0 & Hj0 & V0) prior.
  set (w := fun j => pi j * exp (scale * dot d (k j) (k j) / 2)) in *.
  assert (forall j, (j < m)%nat -> 0 <= w j) as Nw.
  { intros j Hj. apply Rmult_le_pos; [auto|left; apply exp_pos]. }
  assert (0 < Sum m w) as Pw.
  { apply (Sum_pos m w j0); trivial. apply Rmult_lt_0_compat; [now apply V|apply exp_pos]. }
  assert (forall j, prior j = w j / Sum m w) as Pr by reflexivity.
  split.
  - split.
    + intros j Hj. rewrite Pr. apply Rmult_le_pos; [auto|left; now apply Rinv_0_lt_compat].
    + rewrite (Sum_ext m prior (fun j => w j / Sum m w)) by auto. rewrite Sum_div. field. lra.
  - set (f := fun j => if vis j then exp (scale * dot d q (k j) + ln (pi j)) else 0).
    assert (forall j, (j < m)%nat -> f j = pi j * exp (scale * dot d q (k j))) as F.
    { intros j Hj. unfold f. destruct (vis j) eqn:E.
      - rewrite exp_plus, exp_ln by now apply V. ring.
      - destruct (N j Hj) as [L|Z]; [apply V in L; [congruence|trivial]|]. rewrite <- Z. ring. }
    assert (0 < Sum m f) as Pf.
    { apply (Sum_pos m f j0); trivial.
      - intros j Hj. rewrite F by trivial. apply Rmult_le_pos; [auto|left; apply exp_pos].
      - rewrite F by trivial. apply Rmult_lt_0_compat; [now apply V|apply exp_pos]. }
    intros j Hj.
    rewrite (bayes_rule_proportional m prior _ f
      (Rpower (scale / (2 * PI)) (INR d / 2) * exp (- scale * dot d q q / 2) / Sum m w)).
    + unfold softmax, normalise, visible_sum. fold f.
      change (f j) with (if vis j then exp (scale * dot d q (k j) + ln (pi j)) else 0).
      destruct (vis j); [reflexivity|]. unfold Rdiv. ring.
    + apply Rgt_not_eq. apply Rdiv_lt_0_compat; [|trivial].
      apply Rmult_lt_0_compat; [apply exp_pos|apply exp_pos].
    + lra.
    + intros i Hi. rewrite Pr, F by trivial. unfold gaussian, w. rewrite gaussian_expand.
      replace (- scale * (dot d q q - 2 * dot d q (k i) + dot d (k i) (k i)) / 2) with
        (- scale * dot d q q / 2 + scale * dot d q (k i) + - (scale * dot d (k i) (k i) / 2)) by field.
      rewrite !exp_plus, exp_Ropp. pose proof (exp_pos (scale * dot d (k i) (k i) / 2)). field.
      split; [|lra]. fold w. lra.
    + trivial.
Qed.
