(** The head: how a loss of the contexts changes along curves of scores, values, queries and keys.

    [attention_differential] is the one calculation; the laws are its special cases. *)

From Bayesgrad Require Export Softmax.

(** ** Adjoint identities *)

Theorem attention_delta_identity : forall m d a u v,
  mean m a (compatibility d u v) = dot d u (context m a v).
Proof.
  intros m d a u v. unfold mean, compatibility, dot, context.
  rewrite (Sum_ext m _ (fun j => Sum d (fun c => u c * (a j * v j c)))).
  - rewrite Sum_exchange. apply Sum_ext. intros c _. apply Sum_scal_l.
  - intros j _. rewrite <- Sum_scal_l. apply Sum_ext. intros. ring.
Qed.

Lemma dot_plus_r d x y z : dot d x (fun c => y c + z c) = dot d x y + dot d x z.
Proof. unfold dot. rewrite <- Sum_plus. apply Sum_ext. intros. ring. Qed.

Lemma dot_minus_r d x y z : dot d x (fun c => y c - z c) = dot d x y - dot d x z.
Proof. unfold dot. rewrite <- Sum_minus. apply Sum_ext. intros. ring. Qed.

Lemma dot_scal_r d x k y : dot d x (fun c => k * y c) = k * dot d x y.
Proof. unfold dot. rewrite <- Sum_scal_l. apply Sum_ext. intros. ring. Qed.

Lemma dot_sym d x y : dot d x y = dot d y x.
Proof. apply Sum_ext. intros. ring. Qed.

Lemma dot_ext d x x' y y' : (forall c, (c < d)%nat -> x c = x' c) -> (forall c, (c < d)%nat -> y c = y' c) ->
  dot d x y = dot d x' y'.
Proof. intros H H'. apply Sum_ext. intros. now rewrite H, H'. Qed.

Lemma dot_zero_r d x y : (forall c, (c < d)%nat -> y c = 0) -> dot d x y = 0.
Proof. intro H. apply Sum_zero. intros. rewrite H by trivial. ring. Qed.

Lemma dot_Sum_r d n x f : dot d x (fun c => Sum n (fun i => f i c)) = Sum n (fun i => dot d x (f i)).
Proof.
  unfold dot. rewrite Sum_exchange. apply Sum_ext. intros. now rewrite Sum_scal_l.
Qed.

(** sum_j a_j (s_j' - mean s') b_j = sum_j a_j (b_j - bbar) s_j': the Fisher matrix is symmetric *)
Lemma score_adjoint m a b rate :
  Sum m (fun j => a j * (rate j - mean m a rate) * b j) = dot m (score_gradient m a b) rate.
Proof.
  unfold dot, score_gradient.
  rewrite (Sum_ext m _ (fun j => a j * rate j * b j - mean m a rate * (a j * b j))) by (intros; ring).
  rewrite (Sum_ext m (fun j => a j * (b j - mean m a b) * rate j)
                     (fun j => a j * rate j * b j - mean m a b * (a j * rate j))) by (intros; ring).
  rewrite !Sum_minus, !Sum_scal_l. unfold mean. ring.
Qed.

Lemma value_adjoint n m d a u rate :
  Sum n (fun i => mean m (a i) (compatibility d (u i) rate)) =
  Sum m (fun j => dot d (value_gradient n a u j) (rate j)).
Proof.
  unfold mean. rewrite Sum_exchange. apply Sum_ext. intros j _.
  unfold compatibility. rewrite dot_sym. unfold value_gradient. rewrite dot_Sum_r.
  apply Sum_ext. intros i _. rewrite dot_scal_r. f_equal. apply dot_sym.
Qed.

(** ** The calculation *)

(** the rate of the context of one row *)
Definition context_rate m (a : nat -> R) (rs : nat -> R) (v rv : nat -> nat -> R) (c : nat) : R :=
  context m (fun j => a j * (rs j - mean m a rs)) v c + context m a rv c.

Lemma is_derive_context vis m (S : R -> nat -> R) (V : R -> nat -> nat -> R) (t : R) (rs : nat -> R) (rv : nat -> nat -> R) c :
  (forall j, (j < m)%nat -> vis j = true -> is_derive (fun x => S x j) t (rs j)) ->
  (forall j, (j < m)%nat -> is_derive (fun x => V x j c) t (rv j c)) ->
  is_derive (fun x => context m (softmax vis m (S x)) (V x) c) t
            (context_rate m (softmax vis m (S t)) rs (V t) rv c).
Proof.
  intros HS HV. unfold context_rate, context. rewrite <- Sum_plus.
  apply (is_derive_Sum m (fun x j => softmax vis m (S x) j * V x j c)). intros j Hj.
  apply is_derive_R_mult; [now apply is_derive_softmax|now apply HV].
Qed.

Lemma context_rate_adjoint n m d a u rs v rv :
  Sum n (fun i => dot d (u i) (context_rate m (a i) (rs i) v rv)) =
  Sum n (fun i => dot m (score_gradient m (a i) (compatibility d (u i) v)) (rs i)) +
  Sum m (fun j => dot d (value_gradient n a u j) (rv j)).
Proof.
  rewrite <- value_adjoint, <- Sum_plus. apply Sum_ext. intros i _.
  unfold context_rate. rewrite dot_plus_r, <- !attention_delta_identity. f_equal. apply score_adjoint.
Qed.

Lemma attention_differential n m d vis (Phi : (nat -> nat -> R) -> R) (S V : R -> nat -> nat -> R) (t : R)
  (rs rv u : nat -> nat -> R) :
  (forall i j, (i < n)%nat -> (j < m)%nat -> vis i j = true -> is_derive (fun x => S x i j) t (rs i j)) ->
  (forall j c, (j < m)%nat -> (c < d)%nat -> is_derive (fun x => V x j c) t (rv j c)) ->
  gradient_at n d Phi (contexts vis m (S t) (V t)) u ->
  is_derive (fun x => Phi (contexts vis m (S x) (V x))) t
    (Sum n (fun i => dot m (score_gradient m (weights vis m (S t) i) (compatibility d (u i) (V t))) (rs i)) +
     Sum m (fun j => dot d (value_gradient n (weights vis m (S t)) u j) (rv j))).
Proof.
  intros HS HV HP. rewrite <- context_rate_adjoint.
  apply (HP (fun x => contexts vis m (S x) (V x)) t
            (fun i => context_rate m (weights vis m (S t) i) (rs i) (V t) rv)).
  - reflexivity.
  - intros i c Hi Hc. apply (is_derive_context (vis i) m (fun x => S x i) V); auto.
Qed.

(** ** From gradients to entries, and back *)

Lemma gradient_entry n d F x G i c : gradient_at n d F x G -> (i < n)%nat -> (c < d)%nat ->
  is_derive (fun z => F (put x i c z)) (x i c) (G i c).
Proof.
  intros H Hi Hc. eapply is_derive_eq.
  - apply (H (fun z => put x i c z) (x i c) (fun i' c' => delta i' i * delta c' c)).
    + intros. apply put_ext.
    + intros. apply is_derive_put.
  - now apply Sum_put.
Qed.

Lemma gradient_at_ext n d F x x' G : gradient_at n d F x G ->
  (forall i c, (i < n)%nat -> (c < d)%nat -> x' i c = x i c) -> gradient_at n d F x' G.
Proof. intros H E curve t rate Hx Hr. apply H; trivial. intros. rewrite Hx by trivial. auto. Qed.

Lemma dot_constant d x : dot d x (fun _ => 0) = 0.
Proof. apply dot_zero_r. reflexivity. Qed.

Lemma Sum_constant_rates n d (G : nat -> nat -> R) : Sum n (fun i => dot d (G i) (fun _ => 0)) = 0.
Proof. apply Sum_zero. intros. apply dot_constant. Qed.

Lemma is_derive_constant (x t : R) : is_derive (fun _ : R => x) t 0.
Proof. apply (is_derive_const (V := R_NormedModule)). Qed.

(** ** Weights, scores, values *)

Theorem attention_weight_gradient : forall n m d (Phi : (nat -> nat -> R) -> R) a v u i j,
  (i < n)%nat -> (j < m)%nat ->
  gradient_at n d Phi (fun i => context m (a i) v) u ->
  is_derive (fun x => Phi (fun i' => context m (put a i j x i') v)) (a i j) (compatibility d (u i) v j).
Proof.
  intros n m d Phi a v u i j Hi Hj H. eapply is_derive_eq.
  - apply (H (fun x i' => context m (put a i j x i') v) (a i j)
             (fun i' c => Sum m (fun j' => delta i' i * delta j' j * v j' c))).
    + intros i' c _ _. apply Sum_ext. intros. now rewrite put_ext.
    + intros i' c _ _. apply (is_derive_Sum m (fun x j' => put a i j x i' j' * v j' c)). intros k _.
      eapply is_derive_eq; [apply is_derive_R_mult; [apply is_derive_put|apply is_derive_constant]|]. cbv beta; ring.
  - rewrite (Sum_single n i); trivial.
    + apply Sum_ext. intros c _. f_equal. rewrite (Sum_single m j); trivial.
      * rewrite !delta_same. ring.
      * intros k _ D. rewrite (delta_other k j) by trivial. ring.
    + intros k _ D. apply dot_zero_r. intros c _. apply Sum_zero. intros. rewrite delta_other by trivial. ring.
Qed.

Theorem attention_routing_law_gradient : forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u,
  gradient_at n d Phi (contexts vis m s v) u ->
  gradient_at n m (fun s => Phi (contexts vis m s v)) s
              (fun i => score_gradient m (weights vis m s i) (compatibility d (u i) v)).
Proof.
  intros n m d vis Phi s v u H curve t rate Hx Hr.
  assert (forall i j, (i < n)%nat -> (j < m)%nat -> weights vis m (curve t) i j = weights vis m s i j) as W.
  { intros. apply softmax_ext; auto. }
  eapply is_derive_eq.
  - apply (attention_differential n m d vis Phi curve (fun _ => v) t rate (fun _ _ => 0) u).
    + auto.
    + intros. apply is_derive_constant.
    + apply (gradient_at_ext _ _ _ _ _ _ H). intros i c Hi _. apply Sum_ext. intros. now rewrite W.
  - rewrite Sum_constant_rates, Rplus_0_r. apply Sum_ext. intros i Hi. apply dot_ext; [|reflexivity].
    intros j Hj. unfold score_gradient. rewrite W by trivial.
    rewrite (mean_ext m _ (weights vis m s i) _ (compatibility d (u i) v)); auto.
Qed.

Theorem attention_routing_law : forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u i j,
  (i < n)%nat -> (j < m)%nat ->
  gradient_at n d Phi (contexts vis m s v) u ->
  is_derive (fun x => Phi (contexts vis m (put s i j x) v)) (s i j)
            (score_gradient m (weights vis m s i) (compatibility d (u i) v) j).
Proof.
  intros n m d vis Phi s v u i j Hi Hj H.
  apply (gradient_entry n m (fun s => Phi (contexts vis m s v)) s
           (fun i => score_gradient m (weights vis m s i) (compatibility d (u i) v))); trivial.
  now apply attention_routing_law_gradient.
Qed.

Theorem attention_routing_law_fisher : forall m a b j, (j < m)%nat ->
  score_gradient m a b j = Sum m (fun k => fisher a j k * b k).
Proof. intros. symmetry. now apply fisher_row. Qed.

Theorem attention_routing_law_advantage : forall m a b j,
  score_gradient m a b j = - (a j * advantage m a b j).
Proof. intros. unfold score_gradient, advantage. ring. Qed.

Theorem attention_routing_law_masked : forall vis m s b j,
  vis j = false -> score_gradient m (softmax vis m s) b j = 0.
Proof. intros. unfold score_gradient. rewrite softmax_masked by trivial. ring. Qed.

Theorem attention_routing_law_rows_sum_to_zero : forall vis m s b,
  Sum m (score_gradient m (softmax vis m s) b) = 0.
Proof.
  intros vis m s b. destruct (nonempty_or_not vis m) as [H|H].
  - unfold score_gradient. rewrite (Sum_ext m _ (fun j => softmax vis m s j * b j -
      softmax vis m s j * mean m (softmax vis m s) b)) by (intros; ring).
    rewrite Sum_minus, Sum_scal_r, softmax_sum by trivial. unfold mean. ring.
  - apply Sum_zero. intros. apply attention_routing_law_masked. auto.
Qed.

Theorem attention_routing_law_single : forall vis m s b j, (j < m)%nat ->
  (forall k, (k < m)%nat -> (vis k = true <-> k = j)) -> score_gradient m (softmax vis m s) b j = 0.
Proof.
  intros vis m s b j Hj H. unfold score_gradient.
  rewrite (mean_constant vis m s b (b j)); [ring| |].
  - exists j. split; [trivial|]. now apply H.
  - intros k Hk V. apply H in V; [now subst|trivial].
Qed.

Theorem attention_routing_law_bias :
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u i j, (i < n)%nat -> (j < m)%nat ->
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  is_derive (fun x => Phi (contexts vis m (scores dk scale q k (put bias i j x)) v)) (bias i j)
            (score_gradient m (weights vis m (scores dk scale q k bias) i) (compatibility d (u i) v) j).
Proof.
  intros n m dk d vis scale q k bias v Phi u i j Hi Hj H.
  apply (gradient_entry n m (fun bias => Phi (contexts vis m (scores dk scale q k bias) v)) bias
    (fun i => score_gradient m (weights vis m (scores dk scale q k bias) i) (compatibility d (u i) v))); trivial.
  intros curve t rate Hx Hr.
  apply (attention_routing_law_gradient n m d vis Phi _ v u H (fun z => scores dk scale q k (curve z)) t rate).
  - intros. unfold scores. now rewrite Hx.
  - intros i' j' Hi' Hj'. unfold scores.
    eapply is_derive_eq; [apply (is_derive_plus (V := R_NormedModule)); [apply is_derive_constant|now apply Hr]|].
    unfold plus; simpl. ring.
Qed.

Lemma value_law_gradient n m d vis (Phi : (nat -> nat -> R) -> R) s v u :
  gradient_at n d Phi (contexts vis m s v) u ->
  gradient_at m d (fun v => Phi (contexts vis m s v)) v (value_gradient n (weights vis m s) u).
Proof.
  intros H curve t rate Hx Hr. eapply is_derive_eq.
  - apply (attention_differential n m d vis Phi (fun _ => s) curve t (fun _ _ => 0) rate u).
    + intros. apply is_derive_constant.
    + auto.
    + apply (gradient_at_ext _ _ _ _ _ _ H). intros i c Hi Hc. apply Sum_ext. intros j Hj. now rewrite Hx.
  - rewrite Sum_constant_rates. ring.
Qed.

Theorem attention_value_law :
  forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u j c, (j < m)%nat -> (c < d)%nat ->
  gradient_at n d Phi (contexts vis m s v) u ->
  is_derive (fun x => Phi (contexts vis m s (put v j c x))) (v j c) (value_gradient n (weights vis m s) u j c).
Proof.
  intros n m d vis Phi s v u j c Hj Hc H.
  apply (gradient_entry m d (fun v => Phi (contexts vis m s v)) v (value_gradient n (weights vis m s) u)); trivial.
  now apply value_law_gradient.
Qed.

Theorem attention_value_law_effective_count : forall n a u j c, 0 < effective_count n a j ->
  value_gradient n a u j c =
  effective_count n a j * Sum n (fun i => a i j / effective_count n a j * u i c).
Proof.
  intros n a u j c H. rewrite <- Sum_scal_l. apply Sum_ext. intros i _. field. lra.
Qed.

(** ** Queries and keys *)

Lemma is_derive_dot d (X Y : R -> nat -> R) (t : R) (rx ry : nat -> R) :
  (forall c, (c < d)%nat -> is_derive (fun z => X z c) t (rx c)) ->
  (forall c, (c < d)%nat -> is_derive (fun z => Y z c) t (ry c)) ->
  is_derive (fun z => dot d (X z) (Y z)) t (dot d (Y t) rx + dot d (X t) ry).
Proof.
  intros HX HY. unfold dot. rewrite <- Sum_plus.
  apply (is_derive_Sum d (fun z c => X z c * Y z c)). intros c Hc.
  eapply is_derive_eq; [apply is_derive_R_mult; [now apply HX|now apply HY]|]. cbv beta; ring.
Qed.

Lemma is_derive_scal_R (f : R -> R) (t k l : R) : is_derive f t l -> is_derive (fun x => k * f x) t (k * l).
Proof.
  intro H. eapply is_derive_eq; [apply is_derive_R_mult; [apply is_derive_constant|exact H]|]. cbv beta; ring.
Qed.

Lemma is_derive_plus_R (f g : R -> R) (t l l' : R) :
  is_derive f t l -> is_derive g t l' -> is_derive (fun x => f x + g x) t (l + l').
Proof. intros. now apply (is_derive_plus (V := R_NormedModule)). Qed.

(** the rate of the scores *)
Definition score_rate dk scale (q k rq rk : nat -> nat -> R) (i j : nat) : R :=
  scale * (dot dk (k j) (rq i) + dot dk (q i) (rk j)).

Lemma is_derive_scores n m dk scale (Q K : R -> nat -> nat -> R) bias (t : R) (rq rk : nat -> nat -> R) i j :
  (forall i c, (i < n)%nat -> (c < dk)%nat -> is_derive (fun z => Q z i c) t (rq i c)) ->
  (forall j c, (j < m)%nat -> (c < dk)%nat -> is_derive (fun z => K z j c) t (rk j c)) ->
  (i < n)%nat -> (j < m)%nat ->
  is_derive (fun z => scores dk scale (Q z) (K z) bias i j) t (score_rate dk scale (Q t) (K t) rq rk i j).
Proof.
  intros HQ HK Hi Hj. unfold scores.
  eapply is_derive_eq.
  - apply is_derive_plus_R; [|apply is_derive_constant]. apply is_derive_scal_R.
    apply (is_derive_dot dk (fun z => Q z i) (fun z => K z j) t (rq i) (rk j)); auto.
  - unfold score_rate. ring.
Qed.

Lemma query_adjoint m dk scale (G : nat -> nat -> R) k rq i :
  dot m (G i) (fun j => scale * dot dk (k j) (rq i)) = dot dk (query_gradient m scale G k i) (rq i).
Proof.
  rewrite (dot_sym dk (query_gradient m scale G k i)). unfold query_gradient. rewrite !dot_scal_r, dot_Sum_r. f_equal.
  apply Sum_ext. intros j _. rewrite dot_scal_r. f_equal. apply dot_sym.
Qed.

Lemma key_adjoint n m dk scale (G : nat -> nat -> R) q rk :
  Sum n (fun i => dot m (G i) (fun j => scale * dot dk (q i) (rk j))) =
  Sum m (fun j => dot dk (key_gradient n scale G q j) (rk j)).
Proof.
  unfold dot at 1. rewrite Sum_exchange. apply Sum_ext. intros j _.
  rewrite (dot_sym dk (key_gradient n scale G q j)). unfold key_gradient.
  rewrite dot_scal_r, dot_Sum_r, <- Sum_scal_l. apply Sum_ext. intros i _.
  rewrite dot_scal_r, (dot_sym dk (rk j)). ring.
Qed.

Lemma score_rate_adjoint n m dk scale G q k rq rk :
  Sum n (fun i => dot m (G i) (score_rate dk scale q k rq rk i)) =
  Sum n (fun i => dot dk (query_gradient m scale G k i) (rq i)) +
  Sum m (fun j => dot dk (key_gradient n scale G q j) (rk j)).
Proof.
  rewrite <- key_adjoint, <- Sum_plus. apply Sum_ext. intros i _.
  rewrite <- query_adjoint, <- dot_plus_r. apply dot_ext; [reflexivity|].
  intros. unfold score_rate. ring.
Qed.

(** queries, keys and values move at once *)
Lemma attention_differential_qkv n m dk d vis scale (Phi : (nat -> nat -> R) -> R)
  (Q K V : R -> nat -> nat -> R) bias (t : R) (rq rk rv u : nat -> nat -> R) :
  (forall i c, (i < n)%nat -> (c < dk)%nat -> is_derive (fun z => Q z i c) t (rq i c)) ->
  (forall j c, (j < m)%nat -> (c < dk)%nat -> is_derive (fun z => K z j c) t (rk j c)) ->
  (forall j c, (j < m)%nat -> (c < d)%nat -> is_derive (fun z => V z j c) t (rv j c)) ->
  let a := weights vis m (scores dk scale (Q t) (K t) bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) (V t)) in
  gradient_at n d Phi (contexts vis m (scores dk scale (Q t) (K t) bias) (V t)) u ->
  is_derive (fun z => Phi (contexts vis m (scores dk scale (Q z) (K z) bias) (V z))) t
    (Sum n (fun i => dot dk (query_gradient m scale G (K t) i) (rq i)) +
     Sum m (fun j => dot dk (key_gradient n scale G (Q t) j) (rk j)) +
     Sum m (fun j => dot d (value_gradient n a u j) (rv j))).
Proof.
  intros HQ HK HV a G H. rewrite <- score_rate_adjoint.
  apply (attention_differential n m d vis Phi (fun z => scores dk scale (Q z) (K z) bias) V); trivial.
  intros. now apply (is_derive_scores n m).
Qed.

Lemma scores_ext dk scale q q' k k' bias i j :
  (forall c, (c < dk)%nat -> q' i c = q i c) -> (forall c, (c < dk)%nat -> k' j c = k j c) ->
  scores dk scale q' k' bias i j = scores dk scale q k bias i j.
Proof. intros. unfold scores. f_equal. f_equal. now apply dot_ext. Qed.

Lemma weights_ext vis m s s' i j : (forall k, (k < m)%nat -> s' i k = s i k) -> (j < m)%nat ->
  weights vis m s' i j = weights vis m s i j.
Proof. intros. apply softmax_ext; auto. Qed.

Lemma contexts_ext vis m s s' v v' i c : (forall k, (k < m)%nat -> s' i k = s i k) ->
  (forall k, (k < m)%nat -> v' k c = v k c) -> contexts vis m s' v' i c = contexts vis m s v i c.
Proof. intros Hs Hv. apply Sum_ext. intros j Hj. rewrite Hv by trivial. f_equal. now apply weights_ext. Qed.

Lemma score_gradient_ext m a a' b b' j : (forall k, (k < m)%nat -> a' k = a k) ->
  (forall k, (k < m)%nat -> b' k = b k) -> (j < m)%nat -> score_gradient m a' b' j = score_gradient m a b j.
Proof.
  intros Ha Hb Hj. unfold score_gradient. rewrite Ha, Hb by trivial. do 2 f_equal. now apply mean_ext.
Qed.

(** what does not change when arrays agree inside their sizes *)
Lemma query_law_gradient n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u :
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  gradient_at n dk (fun q => Phi (contexts vis m (scores dk scale q k bias) v)) q (query_gradient m scale G k).
Proof.
  intros a G H curve t rate Hx Hr.
  assert (forall i j, (i < n)%nat -> scores dk scale (curve t) k bias i j = scores dk scale q k bias i j) as E.
  { intros. apply scores_ext; auto. }
  eapply is_derive_eq.
  - apply (attention_differential_qkv n m dk d vis scale Phi curve (fun _ => k) (fun _ => v) bias t rate
             (fun _ _ => 0) (fun _ _ => 0) u); trivial.
    + intros. apply is_derive_constant.
    + intros. apply is_derive_constant.
    + apply (gradient_at_ext _ _ _ _ _ _ H). intros. apply contexts_ext; auto.
  - rewrite !Sum_constant_rates, !Rplus_0_r. apply Sum_ext. intros i Hi. apply dot_ext; [|reflexivity].
    intros c Hc. unfold query_gradient. f_equal. apply Sum_ext. intros j Hj. f_equal.
    apply score_gradient_ext; trivial. intros. apply weights_ext; auto.
Qed.

Theorem attention_query_law :
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u i c, (i < n)%nat -> (c < dk)%nat ->
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  is_derive (fun x => Phi (contexts vis m (scores dk scale (put q i c x) k bias) v)) (q i c)
            (query_gradient m scale G k i c).
Proof.
  intros n m dk d vis scale q k bias v Phi u i c Hi Hc a G H.
  apply (gradient_entry n dk (fun q => Phi (contexts vis m (scores dk scale q k bias) v)) q
           (query_gradient m scale G k)); trivial.
  now apply query_law_gradient.
Qed.

Theorem attention_query_law_covariance : forall m scale a b k i c,
  query_gradient m scale (fun i => score_gradient m (a i) (b i)) k i c =
  scale * covariance m (a i) (b i) (fun j => k j c).
Proof.
  intros. unfold query_gradient, covariance, score_gradient. f_equal.
  rewrite (Sum_ext m _ (fun j => a i j * (b i j * k j c) - mean m (a i) (b i) * (a i j * k j c))) by (intros; ring).
  rewrite Sum_minus, Sum_scal_l. reflexivity.
Qed.

Lemma key_law_gradient n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u :
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  gradient_at m dk (fun k => Phi (contexts vis m (scores dk scale q k bias) v)) k (key_gradient n scale G q).
Proof.
  intros a G H curve t rate Hx Hr.
  assert (forall i j, (j < m)%nat -> scores dk scale q (curve t) bias i j = scores dk scale q k bias i j) as E.
  { intros. apply scores_ext; auto. }
  eapply is_derive_eq.
  - apply (attention_differential_qkv n m dk d vis scale Phi (fun _ => q) curve (fun _ => v) bias t
             (fun _ _ => 0) rate (fun _ _ => 0) u); trivial.
    + intros. apply is_derive_constant.
    + intros. apply is_derive_constant.
    + apply (gradient_at_ext _ _ _ _ _ _ H). intros. apply contexts_ext; auto.
  - rewrite !Sum_constant_rates, Rplus_0_r, Rplus_0_l. apply Sum_ext. intros j Hj. apply dot_ext; [|reflexivity].
    intros c Hc. unfold key_gradient. f_equal. apply Sum_ext. intros i Hi. f_equal.
    apply score_gradient_ext; trivial. intros. apply weights_ext; auto.
Qed.

Theorem attention_key_law :
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u j c, (j < m)%nat -> (c < dk)%nat ->
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  is_derive (fun x => Phi (contexts vis m (scores dk scale q (put k j c x) bias) v)) (k j c)
            (key_gradient n scale G q j c).
Proof.
  intros n m dk d vis scale q k bias v Phi u j c Hj Hc a G H.
  apply (gradient_entry m dk (fun k => Phi (contexts vis m (scores dk scale q k bias) v)) k
           (key_gradient n scale G q)); trivial.
  now apply key_law_gradient.
Qed.

Theorem attention_key_law_sum : forall n m vis scale s b q c,
  Sum m (fun j => key_gradient n scale (fun i => score_gradient m (weights vis m s i) (b i)) q j c) = 0.
Proof.
  intros. unfold key_gradient. rewrite Sum_scal_l, Sum_exchange.
  rewrite Sum_zero; [ring|]. intros i _. rewrite Sum_scal_r. unfold weights.
  rewrite attention_routing_law_rows_sum_to_zero. ring.
Qed.

Theorem attention_key_law_shift : forall m dk vis scale q k shift bias v i c,
  contexts vis m (scores dk scale q (fun j c => k j c + shift c) bias) v i c =
  contexts vis m (scores dk scale q k bias) v i c.
Proof.
  intros. apply Sum_ext. intros j Hj. f_equal.
  apply (softmax_shift_invariance (vis i) m _ _ (scale * dot dk (q i) shift) j Hj).
  intros k' _ _. unfold scores. rewrite dot_plus_r. ring.
Qed.

Theorem attention_query_law_scale :
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  is_derive (fun x => Phi (contexts vis m (scores dk x q k bias) v)) scale (scale_gradient n m dk G q k).
Proof.
  intros n m dk d vis scale q k bias v Phi u a G H.
  apply (attention_routing_law_gradient n m d vis Phi _ v u H (fun x => scores dk x q k bias) scale
           (fun i j => dot dk (q i) (k j))).
  - reflexivity.
  - intros i j _ _. unfold scores. eapply is_derive_eq.
    + apply is_derive_plus_R; [|apply is_derive_constant].
      apply is_derive_R_mult; [apply (is_derive_id (K := R_AbsRing))|apply is_derive_constant].
    + unfold one; simpl. ring.
Qed.
