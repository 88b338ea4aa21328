(** Several heads, with key and value heads shared by groups of query heads. *)

From Bayesgrad Require Export Projections.

(** all heads' scores and values move at once *)
Lemma heads_differential H n m d vis (Phi : (nat -> nat -> nat -> R) -> R) (S V : R -> nat -> nat -> nat -> R)
  (t : R) (rs rv u : nat -> nat -> nat -> R) :
  (forall h i j, (h < H)%nat -> (i < n)%nat -> (j < m)%nat -> is_derive (fun x => S x h i j) t (rs h i j)) ->
  (forall h j c, (h < H)%nat -> (j < m)%nat -> (c < d)%nat -> is_derive (fun x => V x h j c) t (rv h j c)) ->
  gradients_at H n d Phi (fun h => contexts (vis h) m (S t h) (V t h)) u ->
  is_derive (fun x => Phi (fun h => contexts (vis h) m (S x h) (V x h))) t
    (Sum H (fun h =>
       Sum n (fun i => dot m (score_gradient m (weights (vis h) m (S t h) i)
                                (compatibility d (u h i) (V t h))) (rs h i)) +
       Sum m (fun j => dot d (value_gradient n (weights (vis h) m (S t h)) (u h) j) (rv h j)))).
Proof.
  intros HS HV HP. eapply is_derive_eq.
  - apply (HP (fun x h => contexts (vis h) m (S x h) (V x h)) t
      (fun h i => context_rate m (weights (vis h) m (S t h) i) (rs h i) (V t h) (rv h))).
    + reflexivity.
    + intros h i c Hh Hi Hc. apply (is_derive_context (vis h i) m (fun x => S x h i) (fun x => V x h)); auto.
  - apply Sum_ext. intros h _. apply context_rate_adjoint.
Qed.

Lemma heads_differential_qkv H n m dk d vis scale bias (Phi : (nat -> nat -> nat -> R) -> R)
  (Q K V : R -> nat -> nat -> nat -> R) (t : R) (rq rk rv u : nat -> nat -> nat -> R) :
  (forall h i c, (h < H)%nat -> (i < n)%nat -> (c < dk)%nat -> is_derive (fun x => Q x h i c) t (rq h i c)) ->
  (forall h j c, (h < H)%nat -> (j < m)%nat -> (c < dk)%nat -> is_derive (fun x => K x h j c) t (rk h j c)) ->
  (forall h j c, (h < H)%nat -> (j < m)%nat -> (c < d)%nat -> is_derive (fun x => V x h j c) t (rv h j c)) ->
  let s := fun x h => scores dk scale (Q x h) (K x h) (bias h) in
  let G := fun h i => score_gradient m (weights (vis h) m (s t h) i) (compatibility d (u h i) (V t h)) in
  gradients_at H n d Phi (fun h => contexts (vis h) m (s t h) (V t h)) u ->
  is_derive (fun x => Phi (fun h => contexts (vis h) m (s x h) (V x h))) t
    (Sum H (fun h =>
       Sum n (fun i => dot dk (query_gradient m scale (G h) (K t h) i) (rq h i)) +
       Sum m (fun j => dot dk (key_gradient n scale (G h) (Q t h) j) (rk h j)) +
       Sum m (fun j => dot d (value_gradient n (weights (vis h) m (s t h)) (u h) j) (rv h j)))).
Proof.
  intros HQ HK HV s G HP. eapply is_derive_eq.
  - apply (heads_differential H n m d vis Phi s V t
      (fun h => score_rate dk scale (Q t h) (K t h) (rq h) (rk h)) rv u); trivial.
    intros h i j Hh Hi Hj. apply (is_derive_scores n m dk scale (fun x => Q x h) (fun x => K x h)); auto.
  - apply Sum_ext. intros h _. f_equal. apply score_rate_adjoint.
Qed.

Lemma gradients_at_ext H n d F x x' G : gradients_at H n d F x G ->
  (forall h i c, (h < H)%nat -> (i < n)%nat -> (c < d)%nat -> x' h i c = x h i c) -> gradients_at H n d F x' G.
Proof. intros HG E curve t rate Hx Hr. apply HG; trivial. intros. rewrite Hx by trivial. auto. Qed.

(** what group e collects from the heads that read it *)
Lemma group_sum H groups m d (kv : nat -> nat) (G : nat -> nat -> nat -> R) (rate : nat -> nat -> nat -> R) :
  (forall h, (h < H)%nat -> (kv h < groups)%nat) ->
  Sum H (fun h => Sum m (fun j => dot d (G h j) (rate (kv h) j))) =
  Sum groups (fun e => Sum m (fun j => dot d
    (fun c => visible_sum (fun h => Nat.eqb (kv h) e) H (fun h => G h j c)) (rate e j))).
Proof.
  intro Hkv. symmetry.
  rewrite (Sum_ext groups _ (fun e => Sum H (fun h => if Nat.eqb (kv h) e
    then Sum m (fun j => dot d (G h j) (rate e j)) else 0))).
  - rewrite Sum_exchange. apply Sum_ext. intros h Hh. rewrite (Sum_single groups (kv h)).
    + now rewrite Nat.eqb_refl.
    + now apply Hkv.
    + intros e _ D. destruct (Nat.eqb_spec (kv h) e); [congruence|reflexivity].
  - intros e _.
    rewrite (Sum_ext m _ (fun j => Sum H (fun h => if Nat.eqb (kv h) e then dot d (G h j) (rate e j) else 0))).
    + rewrite Sum_exchange. apply Sum_ext. intros h _. destruct (Nat.eqb (kv h) e); [reflexivity|].
      now apply Sum_zero.
    + intros j _. rewrite dot_sym. unfold visible_sum. rewrite dot_Sum_r. apply Sum_ext. intros h _.
      destruct (Nat.eqb (kv h) e); [apply dot_sym|apply dot_constant].
Qed.

Theorem attention_multi_head :
  forall H groups n m dk d vis scale q k v bias kv (Phi : (nat -> nat -> nat -> R) -> R) u,
  (forall h, (h < H)%nat -> (kv h < groups)%nat) ->
  let g := fun q k v h => contexts (vis h) m (scores dk scale (q h) (k (kv h)) (bias h)) (v (kv h)) in
  let a := fun h => weights (vis h) m (scores dk scale (q h) (k (kv h)) (bias h)) in
  let G := fun h i => score_gradient m (a h i) (compatibility d (u h i) (v (kv h))) in
  let reads := fun e h => Nat.eqb (kv h) e in
  gradients_at H n d Phi (g q k v) u ->
  gradients_at H n dk (fun q => Phi (g q k v)) q (fun h => query_gradient m scale (G h) (k (kv h))) /\
  gradients_at groups m dk (fun k => Phi (g q k v)) k
    (fun e j c => visible_sum (reads e) H (fun h => key_gradient n scale (G h) (q h) j c)) /\
  gradients_at groups m d (fun v => Phi (g q k v)) v
    (fun e j c => visible_sum (reads e) H (fun h => value_gradient n (a h) (u h) j c)).
Proof.
  intros H groups n m dk d vis scale q k v bias kv Phi u Hkv g a G reads HP.
  split; [|split]; intros curve t rate Hx Hr.
  - assert (forall h i j, (h < H)%nat -> (i < n)%nat ->
      scores dk scale (curve t h) (k (kv h)) (bias h) i j = scores dk scale (q h) (k (kv h)) (bias h) i j) as E.
    { intros. apply scores_ext; auto. }
    eapply is_derive_eq.
    + apply (heads_differential_qkv H n m dk d vis scale bias Phi curve (fun _ h => k (kv h)) (fun _ h => v (kv h)) t
        rate (fun _ _ _ => 0) (fun _ _ _ => 0) u); trivial.
      * intros. apply is_derive_constant.
      * intros. apply is_derive_constant.
      * apply (gradients_at_ext _ _ _ _ _ _ _ HP). intros. apply contexts_ext; auto.
    + apply Sum_ext. intros h Hh. rewrite !Sum_constant_rates, !Rplus_0_r. apply Sum_ext. intros i Hi.
      apply dot_ext; [|reflexivity]. intros c Hc. apply query_gradient_ext; [|reflexivity]. intros j Hj.
      apply score_gradient_ext; trivial. intros. apply weights_ext; auto.
  - assert (forall h i j, (h < H)%nat -> (j < m)%nat ->
      scores dk scale (q h) (curve t (kv h)) (bias h) i j = scores dk scale (q h) (k (kv h)) (bias h) i j) as E.
    { intros. apply scores_ext; auto. }
    eapply is_derive_eq.
    + apply (heads_differential_qkv H n m dk d vis scale bias Phi (fun _ => q) (fun x h => curve x (kv h))
        (fun _ h => v (kv h)) t (fun _ _ _ => 0) (fun h => rate (kv h)) (fun _ _ _ => 0) u); trivial.
      * intros. apply is_derive_constant.
      * auto.
      * intros. apply is_derive_constant.
      * apply (gradients_at_ext _ _ _ _ _ _ _ HP). intros. apply contexts_ext; auto.
    + rewrite (Sum_ext H _ (fun h => Sum m (fun j => dot dk (key_gradient n scale (G h) (q h) j) (rate (kv h) j)))).
      * now apply group_sum.
      * intros h Hh. rewrite !Sum_constant_rates, Rplus_0_r, Rplus_0_l. apply Sum_ext. intros j Hj.
        apply dot_ext; [|reflexivity]. intros c Hc. apply key_gradient_ext; [|reflexivity]. intros i Hi.
        apply score_gradient_ext; trivial. intros. apply weights_ext; auto.
  - eapply is_derive_eq.
    + apply (heads_differential_qkv H n m dk d vis scale bias Phi (fun _ => q) (fun _ h => k (kv h))
        (fun x h => curve x (kv h)) t (fun _ _ _ => 0) (fun _ _ _ => 0) (fun h => rate (kv h)) u); trivial.
      * intros. apply is_derive_constant.
      * intros. apply is_derive_constant.
      * auto.
      * apply (gradients_at_ext _ _ _ _ _ _ _ HP). intros. apply contexts_ext; auto.
    + rewrite (Sum_ext H _ (fun h => Sum m (fun j => dot d (value_gradient n (a h) (u h) j) (rate (kv h) j)))).
      * now apply group_sum.
      * intros h Hh. rewrite !Sum_constant_rates, !Rplus_0_l. reflexivity.
Qed.

Theorem attention_multi_head_upstream : forall H n d C t (g W_O : nat -> nat -> nat -> R) c_O,
  let z := fun g i c => Sum H (fun h => Sum d (fun r => g h i r * W_O h r c)) + c_O c in
  gradients_at H n d (fun g => total_loss n C t (z g)) g
    (fun h i => back_through C (residual C t (z g) i) (W_O h)).
Proof.
  intros H n d C t g W_O c_O z curve x rate Hx Hr. eapply is_derive_eq.
  - apply (total_loss_gradient n C t (z g) (fun x => z (curve x)) x
      (fun i c => Sum H (fun h => Sum d (fun r => rate h i r * W_O h r c)))).
    + intros i c Hi Hc. unfold z. f_equal. apply Sum_ext. intros h Hh. apply Sum_ext. intros r Hr'. now rewrite Hx.
    + intros i c Hi Hc. unfold z. eapply is_derive_eq.
      * apply is_derive_plus_R; [|apply is_derive_constant].
        apply (is_derive_Sum H (fun x h => Sum d (fun r => curve x h i r * W_O h r c))). intros h Hh.
        apply (is_derive_Sum d (fun x r => curve x h i r * W_O h r c)). intros r Hr'.
        apply is_derive_R_mult; [now apply Hr|apply is_derive_constant].
      * cbv beta. rewrite Rplus_0_r. apply Sum_ext. intros. apply Sum_ext. intros. ring.
  - rewrite Sum_exchange. apply Sum_ext. intros i _. rewrite dot_Sum_r. apply Sum_ext. intros h _.
    apply back_through_adjoint.
Qed.
