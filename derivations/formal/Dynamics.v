(** Gradient steps to first order: values, scores, feedback, the replicator flow. *)

From Bayesgrad Require Export Attention.

(** ** Loss along a step *)

Lemma is_derive_line (x D : R) (t : R) : is_derive (fun eta => x + eta * D) t D.
Proof.
  eapply is_derive_eq.
  - apply is_derive_plus_R; [apply is_derive_constant|].
    apply is_derive_R_mult; [apply (is_derive_id (K := R_AbsRing))|apply is_derive_constant].
  - unfold one; simpl. ring.
Qed.

Theorem dynamics_loss_decrease_any_step : forall n d (F : (nat -> nat -> R) -> R) x G D, gradient_at n d F x G ->
  is_derive (fun eta => F (fun i c => x i c + eta * D i c)) 0 (Sum n (fun i => dot d (G i) (D i))).
Proof.
  intros n d F x G D H. apply (H (fun eta i c => x i c + eta * D i c) 0 D).
  - intros. cbv beta. ring.
  - intros. apply is_derive_line.
Qed.

Lemma is_derive_descent (x G t : R) : is_derive (fun eta => x - eta * G) t (- G).
Proof.
  apply (is_derive_ext_R (fun eta => x + eta * - G)); [intro; ring|]. apply is_derive_line.
Qed.

Lemma dot_opp_r d x y : dot d x (fun c => - y c) = - dot d x y.
Proof. unfold dot. rewrite <- Sum_opp. apply Sum_ext. intros. ring. Qed.

Theorem dynamics_loss_decrease : forall n d (F : (nat -> nat -> R) -> R) x G, gradient_at n d F x G ->
  is_derive (fun eta => F (fun i c => x i c - eta * G i c)) 0 (- Sum n (fun i => dot d (G i) (G i))).
Proof.
  intros n d F x G H. eapply is_derive_eq.
  - apply (H (fun eta i c => x i c - eta * G i c) 0 (fun i c => - G i c)).
    + intros. cbv beta. ring.
    + intros. apply is_derive_descent.
  - rewrite <- Sum_opp. apply Sum_ext. intros. apply dot_opp_r.
Qed.

Theorem dynamics_loss_decrease_blocks :
  forall H n d (F : (nat -> nat -> nat -> R) -> R) x G (rate : nat -> R), gradients_at H n d F x G ->
  is_derive (fun eta => F (fun h i c => x h i c - eta * rate h * G h i c)) 0
            (- Sum H (fun h => rate h * Sum n (fun i => dot d (G h i) (G h i)))).
Proof.
  intros H n d F x G rate HG. eapply is_derive_eq.
  - apply (HG (fun eta h i c => x h i c - eta * rate h * G h i c) 0 (fun h i c => - (rate h * G h i c))).
    + intros. cbv beta. ring.
    + intros. apply (is_derive_ext_R (fun eta => x h i c - eta * (rate h * G h i c))); [intro; ring|].
      apply is_derive_descent.
  - rewrite <- Sum_opp. apply Sum_ext. intros h _. rewrite <- Sum_scal_l, <- Sum_opp. apply Sum_ext. intros i _.
    now rewrite dot_opp_r, dot_scal_r.
Qed.

(** ** The value step *)

Lemma context_descent m a v D eta c :
  context m a (fun j c => v j c - eta * D j c) c = context m a v c - eta * context m a D c.
Proof. unfold context. rewrite <- Sum_scal_l, <- Sum_minus. apply Sum_ext. intros. ring. Qed.

Theorem dynamics_value_step : forall n m d vis s v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m s in
  let stepped := fun eta j c => v j c - eta * value_gradient n a u j c in
  (forall eta i c, contexts vis m s (stepped eta) i c =
                   contexts vis m s v i c - eta * value_step_context n m a u i c) /\
  (gradient_at n d Phi (contexts vis m s v) u ->
   is_derive (fun eta => Phi (contexts vis m s (stepped eta))) 0
             (- Sum m (fun j => dot d (value_gradient n a u j) (value_gradient n a u j)))).
Proof.
  intros n m d vis s v Phi u a stepped. split.
  - intros eta i c. unfold contexts, stepped. rewrite context_descent. do 2 f_equal.
    unfold context, value_gradient, value_step_context, dot.
    rewrite (Sum_ext m _ (fun j => Sum n (fun l => a i j * a l j * u l c))).
    + rewrite Sum_exchange. apply Sum_ext. intros l _. now rewrite Sum_scal_r.
    + intros j _. rewrite <- Sum_scal_l. apply Sum_ext. intros. unfold a. ring.
  - intro H. apply (dynamics_loss_decrease m d (fun v => Phi (contexts vis m s v)) v (value_gradient n a u)).
    now apply value_law_gradient.
Qed.

(** ** The score step *)

Theorem dynamics_score_step : forall n m d vis s v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m s in
  let A := fun i => advantage m (a i) (compatibility d (u i) v) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  let ds := fun i j => a i j * A i j in
  let stepped := fun eta i j => s i j - eta * G i j in
  (forall eta i j, stepped eta i j = s i j + eta * ds i j) /\
  (forall i c, is_derive (fun eta => contexts vis m (stepped eta) v i c) 0
                         (Sum m (fun j => a i j * (ds i j - mean m (a i) (ds i)) * v j c))) /\
  (gradient_at n d Phi (contexts vis m s v) u ->
   is_derive (fun eta => Phi (contexts vis m (stepped eta) v)) 0
             (- Sum n (fun i => Sum m (fun j => a i j * a i j * (A i j * A i j))))).
Proof.
  intros n m d vis s v Phi u a A G ds stepped.
  assert (forall i j, G i j = - ds i j) as E by (intros; apply attention_routing_law_advantage).
  split; [|split].
  - intros. unfold stepped. rewrite E. ring.
  - intros i c. eapply is_derive_eq.
    + apply (is_derive_context (vis i) m (fun eta => stepped eta i) (fun _ => v) 0 (ds i) (fun _ _ => 0)).
      * intros j _ _. unfold stepped. eapply is_derive_eq; [apply is_derive_descent|]. rewrite E. ring.
      * intros. apply is_derive_constant.
    + assert (forall j, (j < m)%nat -> softmax (vis i) m (stepped 0 i) j = a i j) as W.
      { intros j Hj. apply softmax_ext; trivial. intros. unfold stepped. ring. }
      unfold context_rate, context. rewrite (Sum_zero m (fun j => _ * 0)) by (intros; ring). rewrite Rplus_0_r.
      apply Sum_ext. intros j Hj. rewrite (mean_ext m _ (a i) (ds i) (ds i)), W by auto. reflexivity.
  - intro H. eapply is_derive_eq.
    + apply (dynamics_loss_decrease n m (fun s => Phi (contexts vis m s v)) s G).
      now apply attention_routing_law_gradient.
    + f_equal. apply Sum_ext. intros i _. apply Sum_ext. intros j _. rewrite E. unfold ds. ring.
Qed.

(** ** Feedback: weights and upstream gradients frozen, values stepped *)

Lemma compatibility_step n d eta a u v i j :
  compatibility d (u i) (fun j c => v j c - eta * value_gradient n a u j c) j =
  compatibility d (u i) v j - eta * feedback n d a u i j.
Proof.
  unfold compatibility. rewrite dot_minus_r, dot_scal_r. do 2 f_equal.
  unfold value_gradient. rewrite dot_Sum_r. apply Sum_ext. intros. apply dot_scal_r.
Qed.

Lemma advantage_step n m d eta a u v i j :
  advantage m (a i) (compatibility d (u i) (fun j c => v j c - eta * value_gradient n a u j c)) j -
  advantage m (a i) (compatibility d (u i) v) j =
  eta * (feedback n d a u i j - mean m (a i) (feedback n d a u i)).
Proof.
  unfold advantage. rewrite compatibility_step.
  rewrite (mean_ext m (a i) (a i) _ (fun j => compatibility d (u i) v j - eta * feedback n d a u i j))
    by (intros; trivial; apply compatibility_step).
  unfold mean. rewrite (Sum_ext m _ (fun j => a i j * compatibility d (u i) v j
    - eta * (a i j * feedback n d a u i j))) by (intros; ring).
  rewrite Sum_minus, Sum_scal_l. ring.
Qed.

Theorem dynamics_feedback : forall n m d eta a u v i j,
  let stepped := fun j c => v j c - eta * value_gradient n a u j c in
  let b := compatibility d (u i) v in
  let b' := compatibility d (u i) stepped in
  let dA := advantage m (a i) b' j - advantage m (a i) b j in
  b' j - b j = - eta * feedback n d a u i j /\
  dA = eta * (feedback n d a u i j - mean m (a i) (feedback n d a u i)) /\
  (0 < eta -> (0 < dA <-> mean m (a i) (feedback n d a u i) < feedback n d a u i j)).
Proof.
  intros n m d eta a u v i j stepped b b' dA. split.
  - unfold b', b, stepped. rewrite compatibility_step. ring.
  - assert (dA = eta * (feedback n d a u i j - mean m (a i) (feedback n d a u i))) as E
      by apply advantage_step.
    split; [exact E|]. intro P. rewrite E. split; intro L.
    + apply (Rmult_lt_reg_l eta); [trivial|]. lra.
    + apply Rmult_lt_0_compat; lra.
Qed.

Theorem dynamics_feedback_orthogonal : forall n m d eta a u v i j, (i < n)%nat ->
  (forall l, (l < n)%nat -> l <> i -> dot d (u i) (u l) = 0) ->
  let stepped := fun j c => v j c - eta * value_gradient n a u j c in
  let b := compatibility d (u i) v in
  let b' := compatibility d (u i) stepped in
  advantage m (a i) b' j - advantage m (a i) b j =
  - (eta * dot d (u i) (u i) * (dot m (a i) (a i) - a i j)).
Proof.
  intros n m d eta a u v i j Hi H stepped b b'. unfold b', b, stepped. rewrite advantage_step.
  assert (forall j, feedback n d a u i j = a i j * dot d (u i) (u i)) as E.
  { intro j'. unfold feedback. rewrite (Sum_single n i); trivial. intros l Hl D. rewrite H by trivial. ring. }
  rewrite E. rewrite (mean_ext m (a i) (a i) _ (fun j => a i j * dot d (u i) (u i))) by auto.
  unfold mean. rewrite (Sum_ext m _ (fun j => a i j * a i j * dot d (u i) (u i))) by (intros; ring).
  rewrite Sum_scal_r. fold (dot m (a i) (a i)). ring.
Qed.

Theorem dynamics_feedback_uniform : forall n m d eta a u v i j, (i < n)%nat -> (j < m)%nat ->
  (forall l k, (l < n)%nat -> (k < m)%nat -> a l k = / INR m) ->
  let stepped := fun j c => v j c - eta * value_gradient n a u j c in
  let b := compatibility d (u i) v in
  let b' := compatibility d (u i) stepped in
  advantage m (a i) b' j = advantage m (a i) b j.
Proof.
  intros n m d eta a u v i j Hi Hj H stepped b b'. apply Rminus_diag_uniq.
  unfold b', b, stepped. rewrite advantage_step.
  set (w := Sum n (fun l => / INR m * dot d (u i) (u l))).
  assert (forall k, (k < m)%nat -> feedback n d a u i k = w) as E.
  { intros k Hk. apply Sum_ext. intros l Hl. now rewrite H. }
  rewrite E by trivial.
  rewrite (mean_ext m (a i) (fun _ => / INR m) _ (fun _ => w)) by auto.
  unfold mean. rewrite Sum_const. field. apply not_0_INR. lia.
Qed.

Theorem dynamics_feedback_causal :
  let vis := fun i j => Nat.leb j i in
  let a := weights vis 2 (fun _ _ => 0) in
  let u := fun _ _ : nat => 1 in
  forall eta v,
  let stepped := fun j c => v j c - eta * value_gradient 2 a u j c in
  let b := compatibility 1 (u 1%nat) v in
  let b' := compatibility 1 (u 1%nat) stepped in
  advantage 2 (a 1%nat) b' 0%nat - advantage 2 (a 1%nat) b 0%nat = eta / 2.
Proof.
  intros vis a u eta v stepped b b'. unfold b', b, stepped. rewrite advantage_step.
  unfold mean, feedback, dot. simpl. unfold a, weights, softmax, normalise, visible_sum, vis, u; simpl.
  rewrite exp_0. field.
Qed.

(** ** The replicator flow *)

Theorem dynamics_natural_routing : forall m (a : R -> nat -> R) b t,
  (forall j, (j < m)%nat -> is_derive (fun x => a x j) t (- score_gradient m (a t) b j)) ->
  is_derive (fun x => mean m (a x) b) t (- variance m (a t) b) /\
  (distribution m (a t) -> 0 <= variance m (a t) b).
Proof.
  intros m a b t H. split; [|apply variance_nonneg]. eapply is_derive_eq.
  - apply (is_derive_Sum m (fun x j => a x j * b j)). intros j Hj.
    apply is_derive_R_mult; [now apply H|apply is_derive_constant].
  - cbv beta. unfold score_gradient.
    rewrite (Sum_ext m _ (fun j => mean m (a t) b * (a t j * b j) - a t j * (b j * b j))) by (intros; ring).
    rewrite Sum_minus, Sum_scal_l. unfold variance, mean. ring.
Qed.

Theorem dynamics_natural_routing_solutions : forall vis m s b x, nonempty vis m ->
  let a := softmax vis m s in
  (forall j, (j < m)%nat -> Sum m (fun k => fisher a j k * x k) = score_gradient m a b j) <->
  (exists c, forall j, (j < m)%nat -> vis j = true -> x j = b j + c).
Proof.
  intros vis m s b x NE a. split.
  - intro H. exists (mean m a x - mean m a b). intros j Hj V. specialize (H j Hj).
    rewrite fisher_row in H by trivial. unfold score_gradient in H.
    pose proof (softmax_pos vis m s j Hj V) as P. fold a in P.
    apply Rmult_eq_reg_l in H; lra.
  - intros (c & H) j Hj. rewrite fisher_row by trivial. unfold score_gradient.
    destruct (vis j) eqn:V.
    + f_equal. rewrite H by trivial.
      assert (mean m a x = mean m a b + c) as ->; [|ring].
      unfold mean. rewrite (Sum_ext m _ (fun k => a k * b k + a k * c)).
      * rewrite Sum_plus, Sum_scal_r. unfold a. rewrite softmax_sum by trivial. ring.
      * intros k Hk. destruct (vis k) eqn:Vk; [rewrite H by trivial; ring|].
        unfold a. rewrite softmax_masked by trivial. ring.
    + unfold a. rewrite softmax_masked by trivial. ring.
Qed.

Lemma tilt_mass_pos m a e : distribution m a -> (forall j, 0 < e j) -> 0 < mean m a e.
Proof.
  intros [N S] H.
  assert (exists j, (j < m)%nat /\ 0 < a j) as (j & Hj & P).
  { clear H. revert N S. induction m as [|m IH]; intros N S; [simpl in S; lra|].
    destruct (Rlt_or_le 0 (a m)) as [L|L]; [exists m; auto|].
    simpl in S. pose proof (N m ltac:(lia)).
    destruct IH as (j & Hj & P); [auto|lra|]. exists j. auto. }
  apply (Sum_pos m _ j); trivial.
  - intros k Hk. apply Rmult_le_pos; [auto|left; apply H].
  - apply Rmult_lt_0_compat; trivial.
Qed.

Lemma bayes_rule_distribution m a e : distribution m a -> (forall j, 0 < e j) -> distribution m (bayes_rule m a e).
Proof.
  intros D H. pose proof (tilt_mass_pos m a e D H) as P. destruct D as [N S]. split.
  - intros j Hj. apply Rmult_le_pos; [apply Rmult_le_pos; [auto|left; apply H]|].
    left. now apply Rinv_0_lt_compat.
  - unfold bayes_rule. rewrite Sum_div. fold (mean m a e). field. lra.
Qed.

Theorem dynamics_natural_routing_flow : forall m a0 b, distribution m a0 ->
  let a := fun t => bayes_rule m a0 (fun j => exp (- t * b j)) in
  (forall j, (j < m)%nat -> a 0 j = a0 j) /\
  (forall t, distribution m (a t)) /\
  (forall t j, is_derive (fun x => a x j) t (- score_gradient m (a t) b j)).
Proof.
  intros m a0 b D a. split; [|split].
  - intros j Hj. unfold a, bayes_rule.
    assert (forall k, exp (- 0 * b k) = 1) as E by (intro; rewrite <- exp_0; f_equal; ring).
    rewrite E. rewrite (mean_ext m a0 a0 _ (fun _ => 1)) by auto. unfold mean.
    rewrite Sum_scal_r. destruct D as [_ ->]. field.
  - intro t. apply bayes_rule_distribution; trivial. intro. apply exp_pos.
  - intros t j. pose proof (tilt_mass_pos m a0 (fun j => exp (- t * b j)) D ltac:(intro; apply exp_pos)) as P.
    assert (forall k, is_derive (fun x => exp (- x * b k)) t (- b k * exp (- t * b k))) as X.
    { intro k. auto_derive; [trivial|]. ring. }
    unfold a, bayes_rule. eapply is_derive_eq.
    + apply is_derive_div.
      * apply is_derive_scal_R. apply X.
      * apply (is_derive_Sum m (fun x k => a0 k * exp (- x * b k))). intros k _. apply is_derive_scal_R. apply X.
      * lra.
    + rewrite (Sum_ext m (fun k => a0 k * (- b k * exp (- t * b k))) (fun k => - (a0 k * exp (- t * b k) * b k)))
        by (intros; ring).
      rewrite Sum_opp. unfold score_gradient, mean at 4.
      rewrite (Sum_ext m (fun k => a0 k * exp (- t * b k) / _ * b k)
        (fun k => a0 k * exp (- t * b k) * b k / mean m a0 (fun j => exp (- t * b j)))) by (intros; field; lra).
      rewrite Sum_div. unfold mean in *. field. lra.
Qed.

Theorem dynamics_natural_routing_scores : forall vis m s b eta j, nonempty vis m -> (j < m)%nat ->
  softmax vis m (fun k => s k - eta * b k) j = bayes_rule m (softmax vis m s) (fun k => exp (- eta * b k)) j.
Proof.
  intros vis m s b eta j NE Hj. pose proof (mass_pos vis m s NE) as P.
  pose proof (tilt_mass_pos m _ (fun k => exp (- eta * b k)) (softmax_distribution vis m s NE)
    ltac:(intro; apply exp_pos)) as Q.
  unfold bayes_rule. rewrite mean_softmax in Q |- * by trivial.
  assert (forall k, exp (s k - eta * b k) = exp (s k) * exp (- eta * b k)) as E.
  { intro k. rewrite <- exp_plus. f_equal. ring. }
  assert (visible_sum vis m (fun k => exp (s k - eta * b k)) =
          visible_sum vis m (fun k => exp (s k) * exp (- eta * b k))) as Z.
  { apply Sum_ext. intros k _. destruct (vis k); [apply E|reflexivity]. }
  destruct (vis j) eqn:V.
  - rewrite !softmax_visible by trivial. rewrite Z, E. field. split; [lra|].
    intro N. rewrite N in Q. unfold Rdiv in Q. rewrite Rmult_0_l in Q. lra.
  - rewrite !softmax_masked by trivial. unfold Rdiv. ring.
Qed.

(** ** Training W_V instead of the values *)

Theorem dynamics_weight_space : forall m dx eta x W bias G j c,
  affine dx x (fun r c => W r c - eta * weight_matrix_gradient m x G r c) bias j c =
  affine dx x W bias j c - eta * Sum m (fun l => dot dx (x j) (x l) * G l c).
Proof.
  intros. unfold affine.
  rewrite (Sum_ext dx _ (fun r => x j r * W r c - eta * (x j r * weight_matrix_gradient m x G r c)))
    by (intros; ring).
  rewrite Sum_minus, Sum_scal_l.
  assert (Sum dx (fun r => x j r * weight_matrix_gradient m x G r c) =
          Sum m (fun l => dot dx (x j) (x l) * G l c)) as ->; [|ring].
  unfold weight_matrix_gradient, dot.
  rewrite (Sum_ext dx _ (fun r => Sum m (fun l => x j r * x l r * G l c))).
  - rewrite Sum_exchange. apply Sum_ext. intros. now rewrite Sum_scal_r.
  - intros r _. rewrite <- Sum_scal_l. apply Sum_ext. intros. ring.
Qed.

Theorem dynamics_weight_space_orthonormal : forall m dx x,
  (forall (G : nat -> nat -> R) j c, (j < m)%nat -> Sum m (fun l => dot dx (x j) (x l) * G l c) = G j c) <->
  (forall j l, (j < m)%nat -> (l < m)%nat -> dot dx (x j) (x l) = delta j l).
Proof.
  intros m dx x. split.
  - intros H j l Hj Hl. rewrite (delta_sym j l). rewrite <- (H (fun k c => delta l k) j 0%nat Hj).
    rewrite (Sum_ext m _ (fun k => delta l k * dot dx (x j) (x k))) by (intros; ring).
    now rewrite Sum_delta.
  - intros H G j c Hj. rewrite (Sum_ext m _ (fun l => delta j l * G l c)).
    + now rewrite (Sum_delta m j (fun l => G l c)).
    + intros. now rewrite H.
Qed.
