(** Steps of both blocks at once, steps that are small enough, the least natural step, and pulls that cancel. *)

From Bayesgrad Require Export Arrays.

Theorem loss_logit_gradient_smoothed : forall C w omega eps y z c, (y < C)%nat -> (c < C)%nat ->
  let t := fun c => w * omega c * ((1 - eps) * delta c y + eps / INR C) in
  let tau := w * ((1 - eps) * omega y + eps / INR C * Sum C omega) in
  is_derive (fun x => cross_entropy C t (put1 z c x)) (z c) (tau * softmax every C z c - t c).
Proof.
  intros C w omega eps y z c Hy Hc t tau. eapply is_derive_eq; [now apply loss_logit_gradient|].
  unfold logit_gradient. do 2 f_equal. unfold t, tau.
  rewrite (Sum_ext C _ (fun c => w * (1 - eps) * (delta y c * omega c) + w * (eps / INR C) * omega c))
    by (intros; rewrite (delta_sym k y); ring).
  rewrite Sum_plus, !Sum_scal_l, Sum_delta by trivial. ring.
Qed.

(** ** Values and scores stepped at once *)

Theorem dynamics_feedback_simultaneous : forall n m d vis s v u i j,
  let a := weights vis m s in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  let A := advantage m (a i) (compatibility d (u i) v) in
  let moved := fun eta => weights vis m (fun i j => s i j - eta * G i j) i in
  let stepped := fun eta j c => v j c - eta * value_gradient n a u j c in
  is_derive (fun eta => advantage m (moved eta) (compatibility d (u i) (stepped eta)) j) 0
            (feedback n d a u i j - mean m (a i) (feedback n d a u i) - Sum m (fun k => a i k * a i k * (A k * A k))).
Proof.
  intros n m d vis s v u i j a G A moved stepped.
  set (b := compatibility d (u i) v). set (f := feedback n d a u i).
  assert (forall eta k, compatibility d (u i) (stepped eta) k = b k - eta * f k) as Eb.
  { intros. unfold compatibility, stepped, b, f. rewrite dot_minus_r, dot_scal_r. do 2 f_equal.
    unfold value_gradient, feedback. rewrite dot_Sum_r. apply Sum_ext. intros. apply dot_scal_r. }
  assert (forall k, is_derive (fun eta => b k - eta * f k) 0 (- f k)) as Db by (intro; apply is_derive_descent).
  assert (forall k, moved 0 k = a i k) as M0.
  { intro k. unfold moved, a, weights. f_equal. apply FunctionalExtensionality.functional_extensionality. intro. ring. }
  apply (is_derive_ext_R (fun eta => Sum m (fun k => moved eta k * (b k - eta * f k)) - (b j - eta * f j))).
  { intro eta. unfold advantage. rewrite Eb. f_equal. apply Sum_ext. intros. now rewrite Eb. }
  eapply is_derive_eq.
  - apply (is_derive_minus (V := R_NormedModule)); [|apply Db].
    apply (is_derive_Sum m (fun eta k => moved eta k * (b k - eta * f k))). intros k Hk.
    apply is_derive_R_mult; [|apply Db].
    apply (is_derive_softmax (vis i) m (fun eta j => s i j - eta * G i j) 0 (fun j => - G i j)); trivial.
    intros. apply is_derive_descent.
  - unfold minus, plus, opp; simpl. fold (moved 0).
    rewrite (Sum_ext m _ (fun k => a i k * (- G i k - mean m (a i) (fun j => - G i j)) * b k - a i k * f k)).
    + rewrite Sum_minus, (score_adjoint m (a i) b (fun k => - G i k)).
      assert (dot m (score_gradient m (a i) b) (fun k => - G i k) = - Sum m (fun k => a i k * a i k * (A k * A k))) as ->.
      { rewrite <- Sum_opp. apply Sum_ext. intros k _. unfold G, A, score_gradient, advantage, b. ring. }
      fold (mean m (a i) f). unfold b, f. ring.
    + intros k _. change (softmax (vis i) m (fun j0 => s i j0 - 0 * G i j0)) with (moved 0).
      rewrite M0, (mean_ext m (moved 0) (a i) _ (fun j => - G i j)) by auto. ring.
Qed.

(** ** Small steps *)

Theorem dynamics_loss_decrease_small_step : forall n d (F : (nat -> nat -> R) -> R) x G, gradient_at n d F x G ->
  0 < Sum n (fun i => dot d (G i) (G i)) ->
  exists bound, 0 < bound /\ forall eta, 0 < eta < bound -> F (fun i c => x i c - eta * G i c) < F x.
Proof.
  intros n d F x G H P. pose proof (dynamics_loss_decrease n d F x G H) as D.
  set (S := Sum n (fun i => dot d (G i) (G i))) in *. destruct D as [_ D]. specialize (D 0 (fun P Q => Q)).
  destruct (D (mkposreal (S / 2) ltac:(lra))) as [del B]. exists del. split; [apply cond_pos|]. intros eta He.
  specialize (B eta). unfold minus, plus, opp, scal, norm in B; simpl in B. unfold mult, abs in B; simpl in B.
  assert (ball 0 del eta) as Hb.
  { unfold ball; simpl. unfold AbsRing_ball, abs, minus, plus, opp; simpl. rewrite Ropp_0, Rplus_0_r, Rabs_pos_eq; lra. }
  specialize (B Hb). replace (eta + - 0) with eta in B by ring. rewrite (Rabs_pos_eq eta) in B by lra.
  assert ((fun i c => x i c - 0 * G i c) = x) as E.
  { apply FunctionalExtensionality.functional_extensionality. intro i.
    apply FunctionalExtensionality.functional_extensionality. intro c. ring. }
  rewrite E in B. apply Rabs_le_between in B. destruct B as [_ B].
  assert (0 < eta * S) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

(** ** The least natural step *)

Theorem dynamics_natural_routing_least : forall vis m s b, nonempty vis m ->
  let a := softmax vis m s in
  let count := visible_sum vis m (fun _ => 1) in
  let least := fun j => if vis j then b j - visible_sum vis m b / count else 0 in
  (forall j, (j < m)%nat -> Sum m (fun k => fisher a j k * least k) = score_gradient m a b j) /\
  forall x, (forall j, (j < m)%nat -> Sum m (fun k => fisher a j k * x k) = score_gradient m a b j) ->
  dot m least least <= dot m x x.
Proof.
  intros vis m s b NE a count least.
  assert (0 < count) as PC.
  { destruct NE as (j & Hj & V). apply (Sum_pos m _ j); trivial; [|rewrite V; lra].
    intros k _. destruct (vis k); lra. }
  split.
  - refine (proj2 (dynamics_natural_routing_solutions vis m s b least NE) _). exists (- (visible_sum vis m b / count)).
    intros j _ V. unfold least. rewrite V. ring.
  - intros x Hx. destruct (proj1 (dynamics_natural_routing_solutions vis m s b x NE) Hx) as [c Hc].
    set (k := c + visible_sum vis m b / count).
    assert (Sum m least = 0) as Z.
    { transitivity (visible_sum vis m b - visible_sum vis m b / count * count); [|field; lra].
      unfold count at 2. unfold visible_sum at 1 3. rewrite <- Sum_scal_l, <- Sum_minus. apply Sum_ext. intros j _.
      unfold least. destruct (vis j); ring. }
    apply Rle_trans with (dot m least least + 2 * k * Sum m least + k * k * count).
    + rewrite Z. pose proof (Rmult_le_pos _ _ (Rle_0_sqr k) (Rlt_le _ _ PC)). unfold Rsqr in H. lra.
    + unfold dot, count, visible_sum. rewrite <- !Sum_scal_l, <- !Sum_plus. apply Sum_le. intros j Hj.
      destruct (vis j) eqn:V.
      * rewrite (Hc j Hj V). unfold least, k. rewrite V. right. ring.
      * unfold least. rewrite V. pose proof (Rle_0_sqr (x j)). unfold Rsqr in H. lra.
Qed.

(** ** Pulls that cancel *)

Theorem dynamics_frame_precision_cancel : forall a u j c, a 0%nat j = a 1%nat j -> u 1%nat c = - u 0%nat c ->
  value_gradient 2 a u j c = 0.
Proof. intros a u j c Ha Hu. unfold value_gradient. simpl. rewrite Ha, Hu. ring. Qed.
