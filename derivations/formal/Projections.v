(** Cross-entropy behind a linear read-out, projections, inputs, several heads. *)

From Bayesgrad Require Export Attention.

(** ** Logits *)

Lemma every_nonempty C c : (c < C)%nat -> nonempty every C.
Proof. intro H. exists c. split; [trivial|reflexivity]. Qed.

(** along a curve of logits: (-log p_c)' = sum_k p_k z_k' - z_c' *)
Lemma is_derive_neg_log_softmax C (Z : R -> nat -> R) (t : R) (rate : nat -> R) c : (c < C)%nat ->
  (forall k, (k < C)%nat -> is_derive (fun x => Z x k) t (rate k)) ->
  is_derive (fun x => - ln (softmax every C (Z x) c)) t (mean C (softmax every C (Z t)) rate - rate c).
Proof.
  intros Hc H. pose proof (softmax_pos every C (Z t) c Hc eq_refl) as P.
  eapply is_derive_eq.
  - apply (is_derive_opp (V := R_NormedModule)).
    apply (is_derive_comp ln (fun x => softmax every C (Z x) c)); [now apply is_derive_ln|].
    apply is_derive_softmax; auto.
  - unfold opp, scal; simpl; unfold mult; simpl. field. lra.
Qed.

Lemma is_derive_cross_entropy C t (Z : R -> nat -> R) (x : R) (rate : nat -> R) :
  (forall k, (k < C)%nat -> is_derive (fun x => Z x k) x (rate k)) ->
  is_derive (fun x => cross_entropy C t (Z x)) x (dot C (logit_gradient C (softmax every C (Z x)) t) rate).
Proof.
  intro H. eapply is_derive_eq.
  - apply (is_derive_Sum C (fun x c => t c * - ln (softmax every C (Z x) c))). intros c Hc.
    apply is_derive_scal_R. apply (is_derive_neg_log_softmax C Z x rate); trivial.
  - cbv beta. rewrite (Sum_ext C _ (fun c => t c * mean C (softmax every C (Z x)) rate - t c * rate c))
      by (intros; ring).
    rewrite Sum_minus, Sum_scal_r. unfold dot, logit_gradient.
    rewrite (Sum_ext C (fun c => (Sum C t * softmax every C (Z x) c - t c) * rate c)
      (fun c => Sum C t * (softmax every C (Z x) c * rate c) - t c * rate c)) by (intros; ring).
    rewrite Sum_minus, Sum_scal_l. reflexivity.
Qed.

Theorem loss_logit_gradient : forall C t z c, (c < C)%nat ->
  is_derive (fun x => cross_entropy C t (put1 z c x)) (z c) (logit_gradient C (softmax every C z) t c).
Proof.
  intros C t z c Hc. eapply is_derive_eq.
  - apply (is_derive_cross_entropy C t (put1 z c) (z c) (fun k => delta k c)). intros. apply is_derive_put1.
  - rewrite put1_same. rewrite dot_sym. unfold dot. rewrite (Sum_single C c); trivial.
    + rewrite delta_same. ring.
    + intros k _ D. rewrite delta_other by trivial. ring.
Qed.

Theorem loss_logit_gradient_hard : forall C w y z c, (y < C)%nat -> (c < C)%nat ->
  is_derive (fun x => w * - ln (softmax every C (put1 z c x) y)) (z c)
            (w * (softmax every C z c - delta c y)).
Proof.
  intros C w y z c Hy Hc. eapply is_derive_eq.
  - apply is_derive_scal_R.
    apply (is_derive_neg_log_softmax C (put1 z c) (z c) (fun k => delta k c) y Hy). intros. apply is_derive_put1.
  - rewrite put1_same, (delta_sym c y). do 2 f_equal. unfold mean. rewrite (Sum_single C c); trivial.
    + rewrite delta_same. ring.
    + intros k _ D. rewrite delta_other by trivial. ring.
Qed.

Lemma softmax_every_ext C z z' c : (forall k, (k < C)%nat -> z' k = z k) -> (c < C)%nat ->
  softmax every C z' c = softmax every C z c.
Proof. intros. apply softmax_ext; auto. Qed.

Lemma logit_gradient_ext C z z' t c : (forall k, (k < C)%nat -> z' k = z k) -> (c < C)%nat ->
  logit_gradient C (softmax every C z') t c = logit_gradient C (softmax every C z) t c.
Proof. intros. unfold logit_gradient. now rewrite (softmax_every_ext C z z'). Qed.

(** the residual is the gradient of the loss in the logits *)
Lemma total_loss_gradient n C t z : gradient_at n C (total_loss n C t) z (residual C t z).
Proof.
  intros curve x rate Hx Hr. eapply is_derive_eq.
  - apply (is_derive_Sum n (fun x i => cross_entropy C (t i) (curve x i))). intros i Hi.
    apply (is_derive_cross_entropy C (t i) (fun x => curve x i)). intros. now apply Hr.
  - cbv beta. apply Sum_ext. intros i Hi. apply dot_ext; [|reflexivity]. intros c Hc. apply logit_gradient_ext; auto.
Qed.

(** ** A linear layer *)

Lemma is_derive_affine d (X W : R -> nat -> nat -> R) (B : R -> nat -> R) (t : R) (rx rw : nat -> nat -> R)
  (rb : nat -> R) i c :
  (forall r, (r < d)%nat -> is_derive (fun z => X z i r) t (rx i r)) ->
  (forall r, (r < d)%nat -> is_derive (fun z => W z r c) t (rw r c)) ->
  is_derive (fun z => B z c) t (rb c) ->
  is_derive (fun z => affine d (X z) (W z) (B z) i c) t
            (Sum d (fun r => rx i r * W t r c) + Sum d (fun r => X t i r * rw r c) + rb c).
Proof.
  intros HX HW HB. unfold affine. apply is_derive_plus_R; [|exact HB]. rewrite <- Sum_plus.
  apply (is_derive_Sum d (fun z r => X z i r * W z r c)). intros r Hr.
  apply is_derive_R_mult; [now apply HX|now apply HW].
Qed.

Lemma affine_ext d x x' W W' bias bias' i c : (forall r, (r < d)%nat -> x' i r = x i r) ->
  (forall r, (r < d)%nat -> W' r c = W r c) -> bias' c = bias c -> affine d x' W' bias' i c = affine d x W bias i c.
Proof. intros Hx HW Hb. unfold affine. rewrite Hb. f_equal. apply Sum_ext. intros. now rewrite Hx, HW. Qed.

Lemma back_through_adjoint d C (r : nat -> R) W (rate : nat -> R) :
  dot C r (fun c => Sum d (fun e => rate e * W e c)) = dot d (back_through C r W) rate.
Proof.
  rewrite dot_Sum_r, (dot_sym d). unfold dot, back_through. apply Sum_ext. intros e _.
  rewrite <- Sum_scal_l. apply Sum_ext. intros. ring.
Qed.

Lemma weight_matrix_adjoint n d C x G rate :
  Sum n (fun i => dot C (G i) (fun c => Sum d (fun r => x i r * rate r c))) =
  Sum d (fun r => dot C (weight_matrix_gradient n x G r) (rate r)).
Proof.
  rewrite (Sum_ext n _ (fun i => Sum d (fun r => x i r * dot C (G i) (rate r)))).
  - rewrite Sum_exchange. apply Sum_ext. intros r _.
    rewrite (dot_sym C (weight_matrix_gradient n x G r)). unfold weight_matrix_gradient. rewrite dot_Sum_r.
    apply Sum_ext. intros i _. rewrite dot_scal_r. f_equal. apply dot_sym.
  - intros i _. rewrite dot_Sum_r. apply Sum_ext. intros r _. apply dot_scal_r.
Qed.

(** gradient in the inputs of a linear layer *)
Lemma affine_input_gradient n d C F x W bias G : gradient_at n C F (affine d x W bias) G ->
  gradient_at n d (fun x => F (affine d x W bias)) x (fun i => back_through C (G i) W).
Proof.
  intros H curve t rate Hx Hr. eapply is_derive_eq.
  - apply (H (fun z => affine d (curve z) W bias) t (fun i c => Sum d (fun r => rate i r * W r c))).
    + intros. apply affine_ext; auto.
    + intros i c Hi Hc. eapply is_derive_eq.
      * apply (is_derive_affine d curve (fun _ => W) (fun _ => bias) t rate (fun _ _ => 0) (fun _ => 0)); auto.
        -- intros. apply is_derive_constant.
        -- apply is_derive_constant.
      * rewrite (Sum_zero d (fun r => curve t i r * 0)) by (intros; ring). ring.
  - apply Sum_ext. intros i _. apply back_through_adjoint.
Qed.

(** gradient in its weights *)
Lemma affine_weight_gradient n d C F x W bias G : gradient_at n C F (affine d x W bias) G ->
  gradient_at d C (fun W => F (affine d x W bias)) W (weight_matrix_gradient n x G).
Proof.
  intros H curve t rate Hx Hr. eapply is_derive_eq.
  - apply (H (fun z => affine d x (curve z) bias) t (fun i c => Sum d (fun r => x i r * rate r c))).
    + intros. apply affine_ext; auto.
    + intros i c Hi Hc. eapply is_derive_eq.
      * apply (is_derive_affine d (fun _ => x) curve (fun _ => bias) t (fun _ _ => 0) rate (fun _ => 0)); auto.
        -- intros. apply is_derive_constant.
        -- apply is_derive_constant.
      * cbv beta. rewrite (Sum_zero d (fun r => 0 * curve t r c)) by (intros; ring). ring.
  - apply weight_matrix_adjoint.
Qed.

(** and in an entry of its bias *)
Lemma affine_bias_gradient n d C F x W bias G c : gradient_at n C F (affine d x W bias) G -> (c < C)%nat ->
  is_derive (fun z => F (affine d x W (put1 bias c z))) (bias c) (Sum n (fun i => G i c)).
Proof.
  intros H Hc. eapply is_derive_eq.
  - apply (H (fun z => affine d x W (put1 bias c z)) (bias c) (fun _ c' => delta c' c)).
    + intros. now rewrite put1_same.
    + intros i c' Hi Hc'. unfold affine. eapply is_derive_eq.
      * apply is_derive_plus_R; [apply is_derive_constant|apply is_derive_put1].
      * ring.
  - apply Sum_ext. intros i _. rewrite dot_sym. unfold dot. rewrite (Sum_single C c); trivial.
    + rewrite delta_same. ring.
    + intros k _ D. rewrite delta_other by trivial. ring.
Qed.

Theorem attention_upstream : forall n d C t g W_O c_O,
  gradient_at n d (fun g => total_loss n C t (affine d g W_O c_O)) g
              (fun i => back_through C (residual C t (affine d g W_O c_O) i) W_O).
Proof. intros. apply affine_input_gradient. apply total_loss_gradient. Qed.

(** ** Projections *)

Theorem attention_projection_laws :
  forall n m dx dk d C vis scale xq xk xv W_Q c_Q W_K c_K W_V c_V W_O c_O bias t (Phi : (nat -> nat -> R) -> R) u,
  let q := affine dx xq W_Q c_Q in
  let k := affine dx xk W_K c_K in
  let v := affine dx xv W_V c_V in
  let a := weights vis m (scores dk scale q k bias) in
  let g := contexts vis m (scores dk scale q k bias) v in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi g u ->
  gradient_at dx dk (fun W => Phi (contexts vis m (scores dk scale (affine dx xq W c_Q) k bias) v)) W_Q
              (weight_matrix_gradient n xq (query_gradient m scale G k)) /\
  gradient_at dx dk (fun W => Phi (contexts vis m (scores dk scale q (affine dx xk W c_K) bias) v)) W_K
              (weight_matrix_gradient m xk (key_gradient n scale G q)) /\
  gradient_at dx d (fun W => Phi (contexts vis m (scores dk scale q k bias) (affine dx xv W c_V))) W_V
              (weight_matrix_gradient m xv (value_gradient n a u)) /\
  gradient_at d C (fun W => total_loss n C t (affine d g W c_O)) W_O
              (weight_matrix_gradient n g (residual C t (affine d g W_O c_O))).
Proof.
  intros n m dx dk d C vis scale xq xk xv W_Q c_Q W_K c_K W_V c_V W_O c_O bias t Phi u q k v a g G H.
  split; [|split; [|split]].
  - apply (affine_weight_gradient n dx dk (fun q => Phi (contexts vis m (scores dk scale q k bias) v))).
    now apply query_law_gradient.
  - apply (affine_weight_gradient m dx dk (fun k => Phi (contexts vis m (scores dk scale q k bias) v))).
    now apply key_law_gradient.
  - apply (affine_weight_gradient m dx d (fun v => Phi (contexts vis m (scores dk scale q k bias) v))).
    now apply value_law_gradient.
  - apply (affine_weight_gradient n d C (total_loss n C t)). apply total_loss_gradient.
Qed.

Theorem attention_projection_laws_biases :
  forall n m dx d C vis s xv W_V c_V W_O c_O t (Phi : (nat -> nat -> R) -> R) u seen c,
  let g := contexts vis m s (affine dx xv W_V c_V) in
  gradient_at n d Phi g u -> (c < d)%nat ->
  (forall i, (i < n)%nat -> (seen i = true <-> nonempty (vis i) m)) ->
  is_derive (fun x => Phi (contexts vis m s (affine dx xv W_V (put1 c_V c x)))) (c_V c)
            (visible_sum seen n (fun i => u i c)) /\
  forall c', (c' < C)%nat ->
  is_derive (fun x => total_loss n C t (affine d g W_O (put1 c_O c' x))) (c_O c')
            (Sum n (fun i => residual C t (affine d g W_O c_O) i c')).
Proof.
  intros n m dx d C vis s xv W_V c_V W_O c_O t Phi u seen c g H Hc Hseen. split.
  - eapply is_derive_eq.
    + apply (affine_bias_gradient m dx d (fun v => Phi (contexts vis m s v)) xv W_V c_V
               (value_gradient n (weights vis m s) u) c); [|trivial].
      now apply value_law_gradient.
    + unfold value_gradient. rewrite Sum_exchange. unfold visible_sum. apply Sum_ext. intros i Hi.
      rewrite Sum_scal_r. unfold weights. destruct (nonempty_or_not (vis i) m) as [N|N].
      * rewrite softmax_sum by trivial. apply Hseen in N; [|trivial]. rewrite N. ring.
      * rewrite Sum_zero by (intros; apply softmax_masked; auto).
        destruct (seen i) eqn:E; [|ring]. apply Hseen in E; [|trivial]. destruct E as (j & Hj & V).
        rewrite N in V by trivial. discriminate.
  - intros c' Hc'. apply (affine_bias_gradient n d C (total_loss n C t)); [apply total_loss_gradient|trivial].
Qed.

(** ** Inputs *)

(** inputs x of the queries and y of the keys and values move at once *)
Lemma input_differential n m dx dy dk d vis scale (Phi : (nat -> nat -> R) -> R) (X Y : R -> nat -> nat -> R)
  W_Q c_Q W_K c_K W_V c_V bias (t : R) (rx ry u : nat -> nat -> R) :
  (forall i r, (i < n)%nat -> (r < dx)%nat -> is_derive (fun z => X z i r) t (rx i r)) ->
  (forall j r, (j < m)%nat -> (r < dy)%nat -> is_derive (fun z => Y z j r) t (ry j r)) ->
  let g := fun x y => contexts vis m (scores dk scale (affine dx x W_Q c_Q) (affine dy y W_K c_K) bias)
                               (affine dy y W_V c_V) in
  let a := weights vis m (scores dk scale (affine dx (X t) W_Q c_Q) (affine dy (Y t) W_K c_K) bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) (affine dy (Y t) W_V c_V)) in
  gradient_at n d Phi (g (X t) (Y t)) u ->
  is_derive (fun z => Phi (g (X z) (Y z))) t
    (Sum n (fun i => dot dx (back_through dk (query_gradient m scale G (affine dy (Y t) W_K c_K) i) W_Q) (rx i)) +
     Sum m (fun j => dot dy (back_through dk (key_gradient n scale G (affine dx (X t) W_Q c_Q) j) W_K) (ry j)) +
     Sum m (fun j => dot dy (back_through d (value_gradient n a u j) W_V) (ry j))).
Proof.
  intros HX HY g a G H.
  assert (forall p dz C (Z : R -> nat -> nat -> R) W b (rz : nat -> nat -> R),
    (forall i r, (i < p)%nat -> (r < dz)%nat -> is_derive (fun z => Z z i r) t (rz i r)) ->
    forall i c, (i < p)%nat -> (c < C)%nat ->
    is_derive (fun z => affine dz (Z z) W b i c) t (Sum dz (fun r => rz i r * W r c))) as A.
  { intros p dz C Z W b rz HZ i c Hi Hc. eapply is_derive_eq.
    - apply (is_derive_affine dz Z (fun _ => W) (fun _ => b) t rz (fun _ _ => 0) (fun _ => 0)); auto.
      + intros. apply is_derive_constant.
      + apply is_derive_constant.
    - rewrite (Sum_zero dz (fun r => Z t i r * 0)) by (intros; ring). ring. }
  eapply is_derive_eq.
  - apply (attention_differential_qkv n m dk d vis scale Phi (fun z => affine dx (X z) W_Q c_Q)
      (fun z => affine dy (Y z) W_K c_K) (fun z => affine dy (Y z) W_V c_V) bias t
      (fun i c => Sum dx (fun r => rx i r * W_Q r c)) (fun j c => Sum dy (fun r => ry j r * W_K r c))
      (fun j c => Sum dy (fun r => ry j r * W_V r c)) u); [apply (A n)|apply (A m)|apply (A m)|exact H]; trivial.
  - cbv beta zeta. repeat (f_equal; [|]); apply Sum_ext; intros; apply back_through_adjoint.
Qed.

Lemma back_through_plus3 dx dk d (x y z : nat -> R) U V W (rate : nat -> R) :
  dot dx (fun r => back_through dk x U r + back_through dk y V r + back_through d z W r) rate =
  dot dx (back_through dk x U) rate + dot dx (back_through dk y V) rate + dot dx (back_through d z W) rate.
Proof. unfold dot. rewrite <- !Sum_plus. apply Sum_ext. intros. ring. Qed.

(** the gradients see their arrays only inside the sizes *)
Lemma input_arrays_ext n m dx dy dk d vis scale x x' y y' W_Q c_Q W_K c_K W_V c_V bias u :
  (forall i r, (i < n)%nat -> (r < dx)%nat -> x' i r = x i r) ->
  (forall j r, (j < m)%nat -> (r < dy)%nat -> y' j r = y j r) ->
  let s := scores dk scale (affine dx x W_Q c_Q) (affine dy y W_K c_K) bias in
  let s' := scores dk scale (affine dx x' W_Q c_Q) (affine dy y' W_K c_K) bias in
  let G := fun i => score_gradient m (weights vis m s i) (compatibility d (u i) (affine dy y W_V c_V)) in
  let G' := fun i => score_gradient m (weights vis m s' i) (compatibility d (u i) (affine dy y' W_V c_V)) in
  (forall i c, (i < n)%nat -> contexts vis m s' (affine dy y' W_V c_V) i c =
                              contexts vis m s (affine dy y W_V c_V) i c) /\
  (forall i j, (i < n)%nat -> (j < m)%nat -> weights vis m s' i j = weights vis m s i j) /\
  (forall i j, (i < n)%nat -> (j < m)%nat -> G' i j = G i j).
Proof.
  intros Hx Hy s s' G G'.
  assert (forall i j, (i < n)%nat -> (j < m)%nat -> s' i j = s i j) as E.
  { intros. apply scores_ext; intros; apply affine_ext; auto. }
  split; [|split].
  - intros. apply contexts_ext; [auto|]. intros. apply affine_ext; auto.
  - intros. apply weights_ext; auto.
  - intros. apply score_gradient_ext; trivial.
    + intros. apply weights_ext; auto.
    + intros. apply dot_ext; [reflexivity|]. intros. apply affine_ext; auto.
Qed.

Lemma query_gradient_ext m scale G G' k k' i c : (forall j, (j < m)%nat -> G' i j = G i j) ->
  (forall j, (j < m)%nat -> k' j c = k j c) -> query_gradient m scale G' k' i c = query_gradient m scale G k i c.
Proof. intros HG Hk. unfold query_gradient. f_equal. apply Sum_ext. intros. now rewrite HG, Hk. Qed.

Lemma key_gradient_ext n scale G G' q q' j c : (forall i, (i < n)%nat -> G' i j = G i j) ->
  (forall i, (i < n)%nat -> q' i c = q i c) -> key_gradient n scale G' q' j c = key_gradient n scale G q j c.
Proof. intros HG Hq. unfold key_gradient. f_equal. apply Sum_ext. intros. now rewrite HG, Hq. Qed.

Lemma value_gradient_ext n a a' u j c : (forall i, (i < n)%nat -> a' i j = a i j) ->
  value_gradient n a' u j c = value_gradient n a u j c.
Proof. intro H. apply Sum_ext. intros. now rewrite H. Qed.

Lemma back_through_ext C r r' W c : (forall k, (k < C)%nat -> r' k = r k) ->
  back_through C r' W c = back_through C r W c.
Proof. intro H. apply Sum_ext. intros. now rewrite H. Qed.

Theorem attention_input_law :
  forall n dx dk d vis scale x W_Q c_Q W_K c_K W_V c_V bias (Phi : (nat -> nat -> R) -> R) u,
  let g := fun x => contexts vis n (scores dk scale (affine dx x W_Q c_Q) (affine dx x W_K c_K) bias)
                             (affine dx x W_V c_V) in
  let a := weights vis n (scores dk scale (affine dx x W_Q c_Q) (affine dx x W_K c_K) bias) in
  let G := fun i => score_gradient n (a i) (compatibility d (u i) (affine dx x W_V c_V)) in
  gradient_at n d Phi (g x) u ->
  gradient_at n dx (fun x => Phi (g x)) x
    (fun i r => back_through dk (query_gradient n scale G (affine dx x W_K c_K) i) W_Q r +
                back_through dk (key_gradient n scale G (affine dx x W_Q c_Q) i) W_K r +
                back_through d (value_gradient n a u i) W_V r).
Proof.
  intros n dx dk d vis scale x W_Q c_Q W_K c_K W_V c_V bias Phi u g a G H curve t rate Hx Hr.
  destruct (input_arrays_ext n n dx dx dk d vis scale x (curve t) x (curve t) W_Q c_Q W_K c_K W_V c_V bias u Hx Hx)
    as (Eg & Ea & EG).
  eapply is_derive_eq.
  - apply (input_differential n n dx dx dk d vis scale Phi curve curve W_Q c_Q W_K c_K W_V c_V bias t rate rate u
      Hr Hr). apply (gradient_at_ext _ _ _ _ _ _ H). intros i c Hi _. exact (Eg i c Hi).
  - symmetry. etransitivity; [apply Sum_ext; intros i Hi; apply back_through_plus3|]. rewrite !Sum_plus. symmetry.
    f_equal; [f_equal|]; apply Sum_ext; intros i Hi; apply dot_ext; trivial; intros r Hr'; apply back_through_ext;
      intros c Hc.
    + apply query_gradient_ext; [intros; now apply EG|intros; apply affine_ext; auto].
    + apply key_gradient_ext; [intros; now apply EG|intros; apply affine_ext; auto].
    + apply value_gradient_ext. intros; now apply Ea.
Qed.

Theorem attention_input_law_cross :
  forall n m dx dy dk d vis scale x y W_Q c_Q W_K c_K W_V c_V bias (Phi : (nat -> nat -> R) -> R) u,
  let g := fun x y => contexts vis m (scores dk scale (affine dx x W_Q c_Q) (affine dy y W_K c_K) bias)
                               (affine dy y W_V c_V) in
  let a := weights vis m (scores dk scale (affine dx x W_Q c_Q) (affine dy y W_K c_K) bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) (affine dy y W_V c_V)) in
  gradient_at n d Phi (g x y) u ->
  gradient_at n dx (fun x => Phi (g x y)) x
    (fun i r => back_through dk (query_gradient m scale G (affine dy y W_K c_K) i) W_Q r) /\
  gradient_at m dy (fun y => Phi (g x y)) y
    (fun j r => back_through dk (key_gradient n scale G (affine dx x W_Q c_Q) j) W_K r +
                back_through d (value_gradient n a u j) W_V r).
Proof.
  intros n m dx dy dk d vis scale x y W_Q c_Q W_K c_K W_V c_V bias Phi u g a G H. split.
  - apply (affine_input_gradient n dx dk
      (fun q => Phi (contexts vis m (scores dk scale q (affine dy y W_K c_K) bias) (affine dy y W_V c_V)))).
    now apply query_law_gradient.
  - intros curve t rate Hy Hr.
    destruct (input_arrays_ext n m dx dy dk d vis scale x x y (curve t) W_Q c_Q W_K c_K W_V c_V bias u
      ltac:(reflexivity) Hy) as (Eg & Ea & EG).
    eapply is_derive_eq.
    + apply (input_differential n m dx dy dk d vis scale Phi (fun _ => x) curve W_Q c_Q W_K c_K W_V c_V bias t
        (fun _ _ => 0) rate u).
      * intros. apply is_derive_constant.
      * exact Hr.
      * apply (gradient_at_ext _ _ _ _ _ _ H). intros i c Hi _. exact (Eg i c Hi).
    + rewrite Sum_constant_rates, Rplus_0_l, <- Sum_plus. apply Sum_ext. intros j Hj.
      rewrite <- (Rplus_0_l (dot dy (back_through dk _ _) _)). unfold dot. rewrite Rplus_0_l, <- Sum_plus.
      apply Sum_ext. intros r Hr'. rewrite <- Rmult_plus_distr_r. f_equal. f_equal.
      * apply back_through_ext. intros c Hc. apply key_gradient_ext; [intros; now apply EG|reflexivity].
      * apply back_through_ext. intros c Hc. apply value_gradient_ext. intros; now apply Ea.
Qed.
