(** Wrong variants of the laws, refuted: each negation is proved by one small instance. *)

From Bayesgrad Require Export Projections Bounds Dynamics.

Lemma derivative_unique f (t l l' : R) : is_derive f t l -> is_derive f t l' -> l = l'.
Proof. intros H H'. rewrite <- (is_derive_unique f t l H). now apply is_derive_unique. Qed.

(** the instance: all scores zero, values 0 and 1, and the loss is the context of the first query *)
Definition zeros (i j : nat) : R := 0.
Definition seen (i : nat) : nat -> bool := every.
Definition first (g : nat -> nat -> R) : R := g 0%nat 0%nat.
Definition values (j c : nat) : R := if Nat.eqb j 1 then 1 else 0.
Definition unit_upstream (i c : nat) : R := if Nat.eqb i 0 then 1 else 0.

Lemma first_gradient n g : (1 <= n)%nat -> gradient_at n 1 first g unit_upstream.
Proof.
  intros Hn curve t rate Hx Hr. eapply is_derive_eq; [apply Hr; lia|].
  rewrite (Sum_single n 0); [|lia|].
  - unfold dot, unit_upstream; simpl. ring.
  - intros k _ D. unfold dot, unit_upstream. destruct (Nat.eqb_spec k 0); [contradiction|]. simpl. ring.
Qed.

Lemma half j : softmax every 2 (fun _ => 0) j = 1 / 2.
Proof. unfold softmax, normalise, visible_sum, every; simpl. rewrite exp_0. field. Qed.

Lemma quarter : score_gradient 2 (softmax every 2 (fun _ => 0)) (compatibility 1 (unit_upstream 0) values) 1 = 1 / 4.
Proof.
  unfold score_gradient, mean, compatibility, dot, unit_upstream, values. cbn [Sum]. rewrite !half. simpl. field.
Qed.

(** if the routing law had right-hand side X at the instance, X would be 1/4 *)
Lemma routing_value X : is_derive (fun x => first (contexts seen 2 (put zeros 0 1 x) values)) (zeros 0 1) X -> X = 1 / 4.
Proof.
  intro H. rewrite <- quarter. refine (derivative_unique _ _ _ _ H _).
  apply (attention_routing_law 1 2 1 seen first zeros values unit_upstream 0 1); [lia|lia|].
  apply first_gradient. lia.
Qed.

Theorem wrong_attention_routing_law_sign :
  ~ (forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u i j, (i < n)%nat -> (j < m)%nat ->
     gradient_at n d Phi (contexts vis m s v) u ->
     is_derive (fun x => Phi (contexts vis m (put s i j x) v)) (s i j)
               (- score_gradient m (weights vis m s i) (compatibility d (u i) v) j)).
Proof.
  intro H. pose proof (routing_value _ (H 1%nat 2%nat 1%nat seen first zeros values unit_upstream 0%nat 1%nat
    ltac:(lia) ltac:(lia) (first_gradient 1 _ ltac:(lia)))) as E.
  change (- score_gradient 2 (softmax every 2 (fun _ => 0)) (compatibility 1 (unit_upstream 0) values) 1 = 1 / 4) in E.
  rewrite quarter in E. lra.
Qed.

Theorem wrong_attention_routing_law_mean :
  ~ (forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u i j, (i < n)%nat -> (j < m)%nat ->
     gradient_at n d Phi (contexts vis m s v) u ->
     is_derive (fun x => Phi (contexts vis m (put s i j x) v)) (s i j)
               (weights vis m s i j * compatibility d (u i) v j)).
Proof.
  intro H. pose proof (routing_value _ (H 1%nat 2%nat 1%nat seen first zeros values unit_upstream 0%nat 1%nat
    ltac:(lia) ltac:(lia) (first_gradient 1 _ ltac:(lia)))) as E.
  change (softmax every 2 (fun _ => 0) 1 * compatibility 1 (unit_upstream 0) values 1 = 1 / 4) in E.
  rewrite half in E. unfold compatibility, dot, unit_upstream, values in E. simpl in E. lra.
Qed.

Theorem wrong_attention_value_law_swapped :
  ~ (forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u j c, (j < m)%nat -> (c < d)%nat ->
     gradient_at n d Phi (contexts vis m s v) u ->
     is_derive (fun x => Phi (contexts vis m s (put v j c x))) (v j c)
               (value_gradient n (fun i j => weights vis m s j i) u j c)).
Proof.
  intro H. set (causal := fun i j => Nat.leb j i).
  pose proof (H 2%nat 2%nat 1%nat causal first zeros values unit_upstream 1%nat 0%nat
    ltac:(lia) ltac:(lia) (first_gradient 2 _ ltac:(lia))) as W.
  pose proof (attention_value_law 2 2 1 causal first zeros values unit_upstream 1%nat 0%nat
    ltac:(lia) ltac:(lia) (first_gradient 2 _ ltac:(lia))) as T.
  pose proof (derivative_unique _ _ _ _ W T) as E.
  unfold value_gradient, unit_upstream in E. cbn [Sum Nat.eqb] in E.
  unfold weights, softmax, normalise, visible_sum, causal, zeros in E. simpl in E. rewrite exp_0 in E. lra.
Qed.

Theorem wrong_attention_query_law_scale :
  ~ (forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u i c, (i < n)%nat -> (c < dk)%nat ->
     let a := weights vis m (scores dk scale q k bias) in
     let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
     gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
     is_derive (fun x => Phi (contexts vis m (scores dk scale (put q i c x) k bias) v)) (q i c)
               (query_gradient m 1 G k i c)).
Proof.
  intro H.
  pose proof (H 1%nat 2%nat 1%nat 1%nat seen 2 zeros values zeros values first unit_upstream 0%nat 0%nat
    ltac:(lia) ltac:(lia) (first_gradient 1 _ ltac:(lia))) as W.
  pose proof (attention_query_law 1 2 1 1 seen 2 zeros values zeros values first unit_upstream 0%nat 0%nat
    ltac:(lia) ltac:(lia) (first_gradient 1 _ ltac:(lia))) as T.
  pose proof (derivative_unique _ _ _ _ W T) as E. unfold query_gradient in E.
  set (G := fun i => score_gradient 2 (weights seen 2 (scores 1 2 zeros values zeros) i)
    (compatibility 1 (unit_upstream i) values)).
  change (1 * Sum 2 (fun j => G 0%nat j * values j 0%nat) = 2 * Sum 2 (fun j => G 0%nat j * values j 0%nat)) in E.
  assert (G 0%nat 1%nat = 1 / 4) as Q.
  { rewrite <- quarter. unfold G. apply score_gradient_ext; [|reflexivity|lia].
    intros k Hk. apply softmax_ext; trivial. intros. unfold scores, dot, zeros; simpl. ring. }
  cbn [Sum] in E. rewrite Q in E. unfold values in E. simpl in E. lra.
Qed.

Definition ramp (j : nat) : R := if Nat.eqb j 1 then 1 else 0.

Lemma quarter_ramp : score_gradient 2 (softmax every 2 (fun _ => 0)) ramp 1 = 1 / 4.
Proof. unfold score_gradient, mean, ramp. cbn [Sum]. rewrite !half. simpl. field. Qed.

Theorem wrong_attention_saturation_bound_factor :
  ~ (forall vis m s b j l, (j < m)%nat -> (l < m)%nat -> j <> l ->
     (forall k, (k < m)%nat -> (vis k = true <-> k = j \/ k = l)) ->
     let a := softmax vis m s in
     Rabs (score_gradient m a b j) = a j * Rabs (b j - b l)).
Proof.
  intro H. specialize (H every 2%nat (fun _ => 0) ramp 1%nat 0%nat ltac:(lia) ltac:(lia) ltac:(lia)).
  assert (forall k, (k < 2)%nat -> (every k = true <-> k = 1%nat \/ k = 0%nat)) as A.
  { intros k Hk. split; [lia|reflexivity]. }
  specialize (H A). cbv zeta in H. rewrite quarter_ramp, half in H. unfold ramp in H. simpl in H.
  rewrite !Rabs_pos_eq in H; lra.
Qed.

Theorem wrong_attention_saturation_bound_square :
  ~ (forall vis m s b lo hi j, (j < m)%nat ->
     (forall k, (k < m)%nat -> vis k = true -> lo <= b k <= hi) ->
     let a := softmax vis m s in
     Rabs (score_gradient m a b j) <= a j * a j * (1 - a j) * (hi - lo)).
Proof.
  intro H. specialize (H every 2%nat (fun _ => 0) ramp 0 1 1%nat ltac:(lia)).
  assert (forall k, (k < 2)%nat -> every k = true -> 0 <= ramp k <= 1) as A.
  { intros k _ _. unfold ramp. destruct (Nat.eqb k 1); lra. }
  specialize (H A). cbv zeta in H. rewrite quarter_ramp, half in H. rewrite Rabs_pos_eq in H; lra.
Qed.

Theorem wrong_softmax_jacobian_diagonal :
  ~ (forall vis m s j k, (j < m)%nat -> (k < m)%nat ->
     is_derive (fun x => softmax vis m (put1 s k x) j) (s k) (- (softmax vis m s j * softmax vis m s k))).
Proof.
  intro H.
  pose proof (H every 2%nat (fun _ => 0) 0%nat 0%nat ltac:(lia) ltac:(lia)) as W.
  pose proof (softmax_jacobian every 2 (fun _ => 0) 0%nat 0%nat ltac:(lia) ltac:(lia)) as T.
  pose proof (derivative_unique _ _ _ _ W T) as E. rewrite !half, delta_same in E. lra.
Qed.

Theorem wrong_loss_logit_gradient_total :
  ~ (forall C t z c, (c < C)%nat ->
     is_derive (fun x => cross_entropy C t (put1 z c x)) (z c) (softmax every C z c - t c)).
Proof.
  intro H.
  pose proof (H 2%nat (fun _ => 1) (fun _ => 0) 0%nat ltac:(lia)) as W.
  pose proof (loss_logit_gradient 2 (fun _ => 1) (fun _ => 0) 0%nat ltac:(lia)) as T.
  pose proof (derivative_unique _ _ _ _ W T) as E. unfold logit_gradient in E. rewrite half in E.
  cbn [Sum] in E. lra.
Qed.

(** ** Feedback: the published claim without its condition *)

Theorem wrong_dynamics_feedback_unconditional :
  ~ (forall n m d eta vis s u v i j, (i < n)%nat -> (j < m)%nat -> 0 < eta -> nonempty (vis i) m ->
     let a := weights vis m s in
     let stepped := fun j c => v j c - eta * value_gradient n a u j c in
     let b := compatibility d (u i) v in
     let b' := compatibility d (u i) stepped in
     dot m (a i) (a i) < a i j -> 0 < dot d (u i) (u i) ->
     advantage m (a i) b j < advantage m (a i) b' j).
Proof.
  intro H.
  set (s := fun i j => if Nat.eqb j 0 then ln (if Nat.eqb i 0 then 2 else 3) else 0).
  set (u := fun i _ : nat => if Nat.eqb i 0 then 1 else -1).
  set (v := fun _ _ : nat => 0). set (vis := fun _ : nat => every).
  specialize (H 2%nat 2%nat 1%nat 1 vis s u v 0%nat 0%nat ltac:(lia) ltac:(lia) ltac:(lra)).
  cbv zeta in H. set (a := weights vis 2 s) in H.
  assert (a 0%nat 0%nat = 2 / 3 /\ a 0%nat 1%nat = 1 / 3 /\ a 1%nat 0%nat = 3 / 4 /\ a 1%nat 1%nat = 1 / 4)
    as (a00 & a01 & a10 & a11).
  { unfold a, weights, softmax, normalise, visible_sum, vis, every, s; simpl. rewrite !exp_ln, exp_0 by lra.
    repeat split; field. }
  assert (nonempty (vis 0%nat) 2) as NE by (exists 0%nat; split; [lia|reflexivity]).
  assert (dot 2 (a 0%nat) (a 0%nat) < a 0%nat 0%nat) as A by (unfold dot; cbn [Sum]; rewrite a00, a01; lra).
  assert (0 < dot 1 (u 0%nat) (u 0%nat)) as U by (unfold dot, u; simpl; lra).
  assert (forall P Q F, P - Q = F -> Q < P -> 0 < F) as Positive by (intros; lra).
  pose proof (Positive _ _ _ (advantage_step 2 2 1 1 a u v 0 0) (H NE A U)) as E.
  unfold feedback, mean, dot in E. cbn [Sum] in E. rewrite a00, a01, a10, a11 in E. unfold u in E. simpl in E. lra.
Qed.
