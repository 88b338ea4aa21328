(** Gradients of whole arrays, blocks of different shapes, and two exact identities. *)

From Bayesgrad Require Export Projections Dynamics.

(** ** Whole arrays *)

Theorem loss_logit_gradient_full : forall n C t z, gradient_at n C (total_loss n C t) z (residual C t z).
Proof. intros. apply total_loss_gradient. Qed.

Theorem softmax_jacobian_curve : forall vis m (S : R -> nat -> R) t rate j, (j < m)%nat ->
  (forall k, (k < m)%nat -> vis k = true -> is_derive (fun x => S x k) t (rate k)) ->
  is_derive (fun x => softmax vis m (S x) j) t
            (softmax vis m (S t) j * (rate j - mean m (softmax vis m (S t)) rate)).
Proof. intros. now apply is_derive_softmax. Qed.

Theorem attention_weight_gradient_full : forall n m d (Phi : (nat -> nat -> R) -> R) a v u,
  gradient_at n d Phi (fun i => context m (a i) v) u ->
  gradient_at n m (fun a => Phi (fun i => context m (a i) v)) a (fun i => compatibility d (u i) v).
Proof.
  intros n m d Phi a v u H curve t rate Hx Hr. eapply is_derive_eq.
  - apply (H (fun z i => context m (curve z i) v) t (fun i => context m (rate i) v)).
    + intros i c Hi _. apply Sum_ext. intros j Hj. now rewrite Hx.
    + intros i c Hi _. apply (is_derive_Sum m (fun z j => curve z i j * v j c)). intros j Hj.
      eapply is_derive_eq; [apply is_derive_R_mult; [now apply Hr|apply is_derive_constant]|]. cbv beta; ring.
  - apply Sum_ext. intros i _. rewrite <- attention_delta_identity, dot_sym. reflexivity.
Qed.

Theorem attention_value_law_gradient : forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u,
  gradient_at n d Phi (contexts vis m s v) u ->
  gradient_at m d (fun v => Phi (contexts vis m s v)) v (value_gradient n (weights vis m s) u).
Proof. intros. now apply value_law_gradient. Qed.

Theorem attention_query_law_gradient :
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  gradient_at n dk (fun q => Phi (contexts vis m (scores dk scale q k bias) v)) q (query_gradient m scale G k).
Proof. intros n m dk d vis scale q k bias v Phi u a G H. now apply query_law_gradient. Qed.

Theorem attention_key_law_gradient :
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  gradient_at m dk (fun k => Phi (contexts vis m (scores dk scale q k bias) v)) k (key_gradient n scale G q).
Proof. intros n m dk d vis scale q k bias v Phi u a G H. now apply key_law_gradient. Qed.

Theorem attention_routing_law_bias_gradient :
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u,
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  gradient_at n m (fun bias => Phi (contexts vis m (scores dk scale q k bias) v)) bias
    (fun i => score_gradient m (weights vis m (scores dk scale q k bias) i) (compatibility d (u i) v)).
Proof.
  intros n m dk d vis scale q k bias v Phi u H curve t rate Hx Hr.
  apply (attention_routing_law_gradient n m d vis Phi _ v u H (fun z => scores dk scale q k (curve z)) t rate).
  - intros. unfold scores. now rewrite Hx.
  - intros i j Hi Hj. unfold scores.
    eapply is_derive_eq; [apply is_derive_plus_R; [apply is_derive_constant|now apply Hr]|]. ring.
Qed.

(** ** Blocks of different shapes *)

Theorem dynamics_loss_decrease_shapes :
  forall H rows columns (F : (nat -> nat -> nat -> R) -> R) x G (rate : nat -> R),
  block_gradients_at H rows columns F x G ->
  is_derive (fun eta => F (fun h i c => x h i c - eta * rate h * G h i c)) 0
            (- Sum H (fun h => rate h * Sum (rows h) (fun i => dot (columns h) (G h i) (G h i)))).
Proof.
  intros H rows columns F x G rate HG. eapply is_derive_eq.
  - apply (HG (fun eta h i c => x h i c - eta * rate h * G h i c) 0 (fun h i c => - (rate h * G h i c))).
    + intros. cbv beta. ring.
    + intros. apply (is_derive_ext_R (fun eta => x h i c - eta * (rate h * G h i c))); [intro; ring|].
      apply is_derive_descent.
  - rewrite <- Sum_opp. apply Sum_ext. intros h _. rewrite <- Sum_scal_l, <- Sum_opp. apply Sum_ext. intros i _.
    now rewrite dot_opp_r, dot_scal_r.
Qed.

(** queries, keys and values as one block of three shapes *)
Theorem attention_input_law_block :
  forall n m dk d vis scale q k v bias (Phi : (nat -> nat -> R) -> R) u,
  let rows := fun h => if Nat.eqb h 0 then n else m in
  let columns := fun h => if Nat.eqb h 2 then d else dk in
  let three := fun x y z (h : nat) => if Nat.eqb h 0 then x else if Nat.eqb h 1 then y else z in
  let g := fun (w : nat -> nat -> nat -> R) => contexts vis m (scores dk scale (w 0%nat) (w 1%nat) bias) (w 2%nat) in
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (g (three q k v)) u ->
  block_gradients_at 3 rows columns (fun w => Phi (g w)) (three q k v)
    (three (query_gradient m scale G k) (key_gradient n scale G q) (value_gradient n a u)).
Proof.
  intros n m dk d vis scale q k v bias Phi u rows columns three g a G H curve t rate Hx Hr.
  assert (forall i c, (i < n)%nat -> (c < dk)%nat -> curve t 0%nat i c = q i c) as Eq by (intros; now apply (Hx 0%nat); [lia| |]).
  assert (forall j c, (j < m)%nat -> (c < dk)%nat -> curve t 1%nat j c = k j c) as Ek by (intros; now apply (Hx 1%nat); [lia| |]).
  assert (forall j c, (j < m)%nat -> (c < d)%nat -> curve t 2%nat j c = v j c) as Ev by (intros; now apply (Hx 2%nat); [lia| |]).
  assert (forall i j, (i < n)%nat -> (j < m)%nat ->
    scores dk scale (curve t 0%nat) (curve t 1%nat) bias i j = scores dk scale q k bias i j) as Es.
  { intros. apply scores_ext; auto. }
  set (G' := fun i => score_gradient m (weights vis m (scores dk scale (curve t 0%nat) (curve t 1%nat) bias) i)
                                     (compatibility d (u i) (curve t 2%nat))).
  assert (forall i j, (i < n)%nat -> (j < m)%nat -> weights vis m (scores dk scale (curve t 0%nat) (curve t 1%nat) bias) i j = a i j) as Ea.
  { intros. apply weights_ext; auto. }
  assert (forall i j, (i < n)%nat -> (j < m)%nat -> G' i j = G i j) as EG.
  { intros. apply score_gradient_ext; trivial; intros; [now apply Ea|]. apply dot_ext; auto. }
  eapply is_derive_eq.
  - apply (attention_differential_qkv n m dk d vis scale Phi (fun z => curve z 0%nat) (fun z => curve z 1%nat)
      (fun z => curve z 2%nat) bias t (rate 0%nat) (rate 1%nat) (rate 2%nat) u).
    + intros. now apply (Hr 0%nat); [lia| |].
    + intros. now apply (Hr 1%nat); [lia| |].
    + intros. now apply (Hr 2%nat); [lia| |].
    + apply (gradient_at_ext _ _ _ _ _ _ H). intros. apply contexts_ext; auto.
  - fold G'. simpl Sum. rewrite Rplus_0_l. f_equal; [f_equal|].
    + apply Sum_ext. intros i Hi. apply dot_ext; [|reflexivity]. intros c Hc. unfold three; simpl.
      unfold query_gradient. f_equal. apply Sum_ext. intros j Hj. now rewrite EG, Ek.
    + apply Sum_ext. intros j Hj. apply dot_ext; [|reflexivity]. intros c Hc. unfold three; simpl.
      unfold key_gradient. f_equal. apply Sum_ext. intros i Hi. now rewrite EG, Eq.
    + apply Sum_ext. intros j Hj. apply dot_ext; [|reflexivity]. intros c Hc. unfold three; simpl.
      unfold value_gradient. apply Sum_ext. intros i Hi. now rewrite Ea.
Qed.

(** ** Orthonormal inputs need as many dimensions as there are inputs *)

(** Bessel's inequality for the coordinate vector f *)
Lemma bessel m d (x : nat -> nat -> R) f : (f < d)%nat ->
  (forall j l, (j < m)%nat -> (l < m)%nat -> dot d (x j) (x l) = delta j l) ->
  Sum m (fun j => x j f * x j f) <= 1.
Proof.
  intros Hf H. set (w := fun c => delta f c - Sum m (fun j => x j f * x j c)).
  assert (0 <= dot d w w) as P by (apply Sum_nonneg; intros; apply Rle_0_sqr).
  assert (forall l, (l < m)%nat -> dot d (x l) w = 0) as B.
  { intros l Hl. unfold w. rewrite dot_minus_r, dot_Sum_r, (Sum_ext m _ (fun j => delta l j * x j f)).
    - rewrite Sum_delta, dot_sym by trivial. unfold dot. rewrite Sum_delta by trivial. ring.
    - intros j Hj. rewrite dot_scal_r, H by trivial. ring. }
  assert (dot d w w = w f) as E.
  { transitivity (dot d w (fun c => delta f c - Sum m (fun j => x j f * x j c))); [reflexivity|].
    rewrite dot_minus_r, dot_Sum_r, (dot_sym d w (delta f)). unfold dot at 1.
    rewrite Sum_delta, (Sum_zero m) by (trivial; intros; rewrite dot_scal_r, dot_sym, B by trivial; ring). ring. }
  rewrite E in P. unfold w in P. rewrite delta_same in P. lra.
Qed.

Theorem dynamics_weight_space_rank : forall m dx,
  (exists x, forall j l, (j < m)%nat -> (l < m)%nat -> dot dx (x j) (x l) = delta j l) <-> (m <= dx)%nat.
Proof.
  intros m dx. split.
  - intros [x H]. apply INR_le.
    replace (INR m) with (Sum m (fun j => dot dx (x j) (x j))).
    + unfold dot. rewrite Sum_exchange. apply Rle_trans with (Sum dx (fun _ => 1)).
      * apply Sum_le. intros f Hf. now apply (bessel m dx x).
      * rewrite Sum_const. lra.
    + rewrite (Sum_ext m _ (fun _ => 1)) by (intros; rewrite H by trivial; apply delta_same). rewrite Sum_const. ring.
  - intro L. exists delta. intros j l Hj _. unfold dot. rewrite Sum_delta by lia. apply delta_sym.
Qed.

(** ** The value gradient, exactly *)

Theorem dynamics_frame_precision_values_exact :
  forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u i, (i < n)%nat ->
  let a := weights vis m s in
  gradient_at n d Phi (contexts vis m s v) u ->
  gradient_at m d (fun v => Phi (contexts vis m s v)) v
    (fun j c => u i c + Sum n (fun l => (1 - delta l i) * a l j * u l c) - (1 - a i j) * u i c).
Proof.
  intros n m d vis Phi s v u i Hi a H curve t rate Hx Hr. eapply is_derive_eq.
  - exact (value_law_gradient n m d vis Phi s v u H curve t rate Hx Hr).
  - apply Sum_ext. intros j _. apply dot_ext; [|reflexivity]. intros c _. unfold value_gradient. fold a.
    rewrite (Sum_ext n (fun l => (1 - delta l i) * a l j * u l c)
      (fun l => a l j * u l c - delta i l * (a l j * u l c))) by (intros; rewrite (delta_sym k i); ring).
    rewrite Sum_minus, Sum_delta by trivial. ring.
Qed.
