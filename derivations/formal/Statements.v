(** What is proved: one proposition a theorem, committed before the proofs and compared with them by the build.

    A label's theorem has the label's name with dots and hyphens as underscores; corollaries add a suffix. Each is
    elaborated here with the definitions alone, so no proof file can change its meaning. Indices: queries i, l < n,
    keys j, k < m, classes c < C, channels c < d; [vis i j] says whether query i may attend to key j. *)

From Bayesgrad Require Import Definitions.

Module Expected.

(** ** Lemmas *)

(** [lemma.log-bound] log t <= t - 1, with equality only at 1 *)
Definition lemma_log_bound : Prop :=
  forall t, 0 < t -> ln t <= t - 1 /\ (ln t = t - 1 <-> t = 1).

(** [lemma.gibbs] KL(p || q) >= 0, with equality exactly where p = q *)
Definition lemma_gibbs : Prop :=
  forall n p q, distribution n p -> distribution n q ->
  Rbar_le 0 (divergence n p q) /\
  (divergence n p q = Finite 0 <-> forall y, (y < n)%nat -> p y = q y).

(** [lemma.variance-form] the variance is half the mean squared difference *)
Definition lemma_variance_form : Prop :=
  forall m a h, Sum m a = 1 ->
  variance m a h = 1 / 2 * Sum m (fun j => Sum m (fun k => a j * a k * ((h j - h k) * (h j - h k)))).

(** [lemma.em-identity] l1 - l0 = Q1 - Q0 - KL(r0 || r1) *)
Definition lemma_em_identity : Prop :=
  forall m pi c0 c1,
  (forall j, (j < m)%nat -> 0 <= pi j) -> (exists j, (j < m)%nat /\ 0 < pi j) ->
  let r0 := posterior m pi c0 in
  let r1 := posterior m pi c1 in
  divergence m r0 r1 =
  Finite (mean m r0 c1 - mean m r0 c0 - (mixture_loss m pi c1 - mixture_loss m pi c0)).

(** an EM step never raises its loss *)
Definition lemma_em_identity_monotone : Prop :=
  forall m pi c0 c1,
  (forall j, (j < m)%nat -> 0 <= pi j) -> (exists j, (j < m)%nat /\ 0 < pi j) ->
  mean m (posterior m pi c0) c1 <= mean m (posterior m pi c0) c0 ->
  mixture_loss m pi c1 <= mixture_loss m pi c0.

(** ** Cross-entropy and Bayes *)

(** [bayes.risk-decomposition] R(q) = H(Y|C) + E_c KL(p(.|c) || q(.|c)), both sides in [0, +inf] *)
Definition bayes_risk_decomposition : Prop :=
  forall N C w p q,
  (forall c, (c < N)%nat -> 0 <= w c) -> (forall c, (c < N)%nat -> distribution C (p c)) ->
  risk N C w p q =
  Rbar_plus (Finite (Sum N (fun c => w c * entropy C (p c))))
            (extended_sum N (fun c => Rbar_mult (Finite (w c)) (divergence C (p c) (q c)))).

(** [bayes.posterior-predictive] the minimiser of the risk is p(y|c), unique on contexts of positive probability *)
Definition bayes_posterior_predictive : Prop :=
  forall N C w p q,
  (forall c, (c < N)%nat -> 0 <= w c) ->
  (forall c, (c < N)%nat -> distribution C (p c)) -> (forall c, (c < N)%nat -> distribution C (q c)) ->
  Rbar_le (risk N C w p p) (risk N C w p q) /\
  (risk N C w p q = risk N C w p p <->
   forall c, (c < N)%nat -> 0 < w c -> forall y, (y < C)%nat -> q c y = p c y).

(** the predictive is the mixture sum_h p(h|c) p(y|x,h) over a latent h when (i) y is independent of c given (x,h)
    and (ii) x is independent of h given c *)
Definition bayes_posterior_predictive_mixture : Prop :=
  forall (nh nc nx ny : nat) (P : nat -> nat -> nat -> nat -> R),
  let Phcx := fun h c x => Sum ny (fun y => P h c x y) in
  let Phxy := fun h x y => Sum nc (fun c => P h c x y) in
  let Phx := fun h x => Sum nc (fun c => Phcx h c x) in
  let Phc := fun h c => Sum nx (fun x => Phcx h c x) in
  let Pcxy := fun c x y => Sum nh (fun h => P h c x y) in
  let Pcx := fun c x => Sum nh (fun h => Phcx h c x) in
  let Pc := fun c => Sum nh (fun h => Phc h c) in
  (forall h c x y, (h < nh)%nat -> (c < nc)%nat -> (x < nx)%nat -> (y < ny)%nat -> 0 <= P h c x y) ->
  (forall h c x y, (h < nh)%nat -> (c < nc)%nat -> (x < nx)%nat -> (y < ny)%nat ->
    P h c x y * Phx h x = Phcx h c x * Phxy h x y) ->
  (forall h c x, (h < nh)%nat -> (c < nc)%nat -> (x < nx)%nat -> Phcx h c x * Pc c = Phc h c * Pcx c x) ->
  forall c x y, (c < nc)%nat -> (x < nx)%nat -> (y < ny)%nat -> 0 < Pcx c x ->
  Pcxy c x y / Pcx c x = Sum nh (fun h => Phc h c / Pc c * (Phxy h x y / Phx h x)).

(** without (ii) it is sum_h p(h|x,c) p(y|x,h) *)
Definition bayes_posterior_predictive_without_ii : Prop :=
  forall (nh nc nx ny : nat) (P : nat -> nat -> nat -> nat -> R),
  let Phcx := fun h c x => Sum ny (fun y => P h c x y) in
  let Phxy := fun h x y => Sum nc (fun c => P h c x y) in
  let Phx := fun h x => Sum nc (fun c => Phcx h c x) in
  let Pcxy := fun c x y => Sum nh (fun h => P h c x y) in
  let Pcx := fun c x => Sum nh (fun h => Phcx h c x) in
  (forall h c x y, (h < nh)%nat -> (c < nc)%nat -> (x < nx)%nat -> (y < ny)%nat -> 0 <= P h c x y) ->
  (forall h c x y, (h < nh)%nat -> (c < nc)%nat -> (x < nx)%nat -> (y < ny)%nat ->
    P h c x y * Phx h x = Phcx h c x * Phxy h x y) ->
  forall c x y, (c < nc)%nat -> (x < nx)%nat -> (y < ny)%nat -> 0 < Pcx c x ->
  Pcxy c x y / Pcx c x = Sum nh (fun h => Phcx h c x / Pcx c x * (Phxy h x y / Phx h x)).

(** a law with (i) but not (ii): at (c, x) = (0, 1) the truth is 14/25, the mixture over p(h|c) is 2/5 *)
Definition bayes_posterior_predictive_witness : Prop :=
  let agree := fun (p : R) (x y : nat) => if Nat.eqb x y then p else 1 - p in
  let P := fun h c x y => 1 / 2 * agree (2 / 3) h c * agree (3 / 4) x h * agree (4 / 5) y h in
  let Phcx := fun h c x => Sum 2 (fun y => P h c x y) in
  let Phxy := fun h x y => Sum 2 (fun c => P h c x y) in
  let Phx := fun h x => Sum 2 (fun c => Phcx h c x) in
  let Phc := fun h c => Sum 2 (fun x => Phcx h c x) in
  let Pcxy := fun c x y => Sum 2 (fun h => P h c x y) in
  let Pcx := fun c x => Sum 2 (fun h => Phcx h c x) in
  let Pc := fun c => Sum 2 (fun h => Phc h c) in
  (forall h c x y, (h < 2)%nat -> (c < 2)%nat -> (x < 2)%nat -> (y < 2)%nat ->
    P h c x y * Phx h x = Phcx h c x * Phxy h x y) /\
  Pcxy 0%nat 1%nat 1%nat / Pcx 0%nat 1%nat = 14 / 25 /\
  Sum 2 (fun h => Phc h 0%nat / Pc 0%nat * (Phxy h 1%nat 1%nat / Phx h 1%nat)) = 2 / 5.

(** [bayes.chain-rule] the losses of all positions add up to the loss of the sequence; p gives the probability of
    each finite sequence, p(y_t | y_<t) is the ratio of two of them *)
Definition bayes_chain_rule : Prop :=
  forall (p : list nat -> R) (y : nat -> nat) (T : nat),
  p nil = 1 -> (forall t, (t <= T)%nat -> 0 < p (prefix y t)) ->
  Sum T (fun t => - ln (p (prefix y (S t)) / p (prefix y t))) = - ln (p (prefix y T)).

(** [bayes.entropy-is-blind] equal entropies, infinite divergence; with full support 1/3 bit = (log 2)/3 nats *)
Definition bayes_entropy_is_blind : Prop :=
  let p := fun y => if Nat.eqb y 0 then 1 else 0 in
  let q := fun y => if Nat.eqb y 0 then 0 else 1 in
  let p' := fun y => if Nat.eqb y 0 then 1 / 3 else 2 / 3 in
  let q' := fun y => if Nat.eqb y 0 then 2 / 3 else 1 / 3 in
  entropy 2 p = entropy 2 q /\ divergence 2 p q = p_infty /\
  entropy 2 p' = entropy 2 q' /\ divergence 2 p' q' = Finite (ln 2 / 3).

(** [bayes.hmm-filter] the forward recursion is the joint probability of the observations and the present state,
    summed over all earlier paths; observations are listed latest first *)
Definition bayes_hmm_filter : Prop :=
  forall states pi T E o earlier s,
  sum_over_paths states (length earlier)
    (fun path => path_probability pi T E (s :: path)%list (o :: earlier)%list) =
  forward states pi T E (o :: earlier)%list s.

(** the probability of all observations is the sum of the forward vector; the next observation is predicted by
    (posterior T) E, the posterior being the normalised forward vector *)
Definition bayes_hmm_filter_predictive : Prop :=
  forall states pi T E o' o earlier,
  let probability := fun observations => sum_over_paths states (length observations)
    (fun path => path_probability pi T E path observations) in
  let alpha := forward states pi T E (o :: earlier)%list in
  let posterior := fun s => alpha s / Sum states alpha in
  probability (o :: earlier)%list = Sum states alpha /\
  probability (o' :: o :: earlier)%list / probability (o :: earlier)%list =
  Sum states (fun s' => Sum states (fun s => posterior s * T s s') * E s' o').

(** the log-likelihood is the sum of the logarithms of the normalisers, the first included *)
Definition bayes_hmm_filter_log_likelihood : Prop :=
  forall states pi T E o earlier,
  let total := fun observations => Sum states (forward states pi T E observations) in
  (forall k, (k <= length earlier)%nat -> 0 < total (List.skipn k (o :: earlier)%list)) ->
  ln (total (o :: earlier)%list) =
  Sum (length earlier) (fun k => ln (total (List.skipn k (o :: earlier)%list) /
                                     total (List.skipn (S k) (o :: earlier)%list))) +
  ln (total (List.skipn (length earlier) (o :: earlier)%list)).

(** [bayes.bijection] a permutation pi0 of V values shows its values at m distinct keys; given them, with a uniform prior
    and a choice of keys whose probability w depends on the shown pairs alone, the value at x is certain if x is among
    the keys, and otherwise uniform over the V - m values not shown *)
Definition bayes_bijection : Prop :=
  forall V L pi0 keys x y (w : list nat -> R),
  let at_ := fun l k => List.nth k l 0%nat in
  let consistent := fun l => List.forallb (fun k => Nat.eqb (at_ l k) (at_ pi0 k)) keys in
  let shown := fun y => List.existsb (fun k => Nat.eqb (at_ pi0 k) y) keys in
  let predictive := fun y => sum_where L w (fun l => (consistent l && Nat.eqb (at_ l x) y)%bool) /
                             sum_where L w consistent in
  all_permutations V L -> List.In pi0 L -> List.NoDup keys ->
  (forall k, List.In k keys -> (k < V)%nat) -> (x < V)%nat -> (y < V)%nat ->
  0 < w pi0 -> (forall l, consistent l = true -> w l = w pi0) ->
  (List.In x keys -> predictive y = if Nat.eqb y (at_ pi0 x) then 1 else 0) /\
  (~ List.In x keys -> predictive y = if shown y then 0 else / INR (V - length keys)).

(** [bayes.sticky-markov] x_t is emitted by y_(t-1) with any likelihood E: the predictive of y_t is (filter of y_(t-1)) P *)
Definition bayes_sticky_markov : Prop :=
  forall states pi P E x earlier s',
  let probability := fun observations => sum_over_paths states (length observations)
    (fun path => path_probability pi P E path observations) in
  let alpha := forward states pi P E (x :: earlier)%list in
  let filter := fun s => alpha s / Sum states alpha in
  sum_over_paths states (length (x :: earlier)%list) (fun path =>
    path_probability pi P E path (x :: earlier)%list * P (List.hd 0%nat path) s') / probability (x :: earlier)%list =
  Sum states (fun s => filter s * P s s').

(** no predictor q of y_t from the observations has a smaller expected loss than H(Y_t | Y_(t-1)); s runs over the
    states of y_(t-1), x over finitely many observation sequences, w is their joint law *)
Definition bayes_sticky_markov_bound : Prop :=
  forall states observations w P q,
  (forall s x, (s < states)%nat -> (x < observations)%nat -> 0 <= w s x) ->
  (forall s, (s < states)%nat -> distribution states (P s)) ->
  (forall x, (x < observations)%nat -> distribution states (q x)) ->
  Rbar_le (Finite (Sum states (fun s => Sum observations (w s) * entropy states (P s))))
          (extended_sum states (fun s => extended_sum observations (fun x => extended_sum states (fun y =>
             cost (w s x * P s y) (q x y))))).

(** ** Softmax and its loss *)

(** [softmax.shift-invariance] a common shift of the visible scores changes nothing *)
Definition softmax_shift_invariance : Prop :=
  forall vis m s s' shift j, (j < m)%nat ->
  (forall k, (k < m)%nat -> vis k = true -> s' k = s k + shift) -> softmax vis m s' j = softmax vis m s j.

(** weights are nonnegative, positive exactly on the visible keys of a non-empty row, and sum to one there *)
Definition softmax_shift_invariance_distribution : Prop :=
  forall vis m s, nonempty vis m ->
  distribution m (softmax vis m s) /\ forall j, (j < m)%nat -> (0 < softmax vis m s j <-> vis j = true).

(** online softmax: tiles of keys merged by any plan, over any references, give the context of the definition if each
    visible key lies in one tile; a sweep, split keys, empty and scattered tiles, empty rows included *)
Definition softmax_shift_invariance_online : Prop :=
  forall vis m s v p c,
  (forall j, (j < m)%nat -> vis j = true -> holders p j = 1%nat) ->
  output (follow vis m s v p) c / mass (follow vis m s v p) = context m (softmax vis m s) v c.

(** the plan is free: two plans that hold each visible key equally often end in states that stand for the same sums *)
Definition softmax_shift_invariance_order : Prop :=
  forall vis m s v p q,
  (forall j, (j < m)%nat -> vis j = true -> holders p j = holders q j) ->
  let x := follow vis m s v p in
  let y := follow vis m s v q in
  exp (reference x) * mass x = exp (reference y) * mass y /\
  forall c, exp (reference x) * output x c = exp (reference y) * output y c.

(** the weight of a visible key from the logarithm of the row's mass: a_j = exp(s_j - lse) *)
Definition softmax_shift_invariance_log_mass : Prop :=
  forall vis m s v p j, (j < m)%nat -> vis j = true ->
  (forall j, (j < m)%nat -> vis j = true -> holders p j = 1%nat) ->
  exp (s j - log_mass (follow vis m s v p)) = softmax vis m s j.

(** [softmax.jacobian] da_j/ds_k = a_j (delta_jk - a_k) *)
Definition softmax_jacobian : Prop :=
  forall vis m s j k, (j < m)%nat -> (k < m)%nat ->
  is_derive (fun x => softmax vis m (put1 s k x) j) (s k)
            (softmax vis m s j * (delta j k - softmax vis m s k)).

(** rows do not mix: da_ij/ds_lk = 0 for l different from i *)
Definition softmax_jacobian_rows : Prop :=
  forall vis m s i l j k, i <> l ->
  is_derive (fun x => weights vis m (put s l k x) i j) (s l k) 0.

(** along any curve of scores: a_j' = a_j (s_j' - sum_k a_k s_k') *)
Definition softmax_jacobian_curve : Prop :=
  forall vis m (S : R -> nat -> R) t rate j, (j < m)%nat ->
  (forall k, (k < m)%nat -> vis k = true -> is_derive (fun x => S x k) t (rate k)) ->
  is_derive (fun x => softmax vis m (S x) j) t
            (softmax vis m (S t) j * (rate j - mean m (softmax vis m (S t)) rate)).

(** [softmax.fisher] the quadratic form of F = diag(a) - a a^T is the variance: nonnegative, and zero exactly for
    vectors that are constant on the visible keys *)
Definition softmax_fisher : Prop :=
  forall vis m s x, nonempty vis m ->
  let a := softmax vis m s in
  let form := Sum m (fun j => Sum m (fun k => x j * fisher a j k * x k)) in
  form = variance m a x /\ 0 <= form /\
  (form = 0 <-> exists c, forall j, (j < m)%nat -> vis j = true -> x j = c).

(** F is the Fisher information of the categorical in its scores *)
Definition softmax_fisher_information : Prop :=
  forall vis m s (D : nat -> nat -> R) k l, nonempty vis m -> (k < m)%nat -> (l < m)%nat ->
  (forall j k', (j < m)%nat -> (k' < m)%nat -> vis j = true ->
    is_derive (fun x => ln (softmax vis m (put1 s k' x) j)) (s k') (D j k')) ->
  Sum m (fun j => softmax vis m s j * (D j k * D j l)) = fisher (softmax vis m s) k l.

(** [loss.logit-gradient] dL/dz_c = tau p_c - t_c for any soft target t with total tau *)
Definition loss_logit_gradient : Prop :=
  forall C t z c, (c < C)%nat ->
  is_derive (fun x => cross_entropy C t (put1 z c x)) (z c) (logit_gradient C (softmax every C z) t c).

(** hard target y with position weight w: w (p - e_y) *)
Definition loss_logit_gradient_hard : Prop :=
  forall C w y z c, (y < C)%nat -> (c < C)%nat ->
  is_derive (fun x => w * - ln (softmax every C (put1 z c x) y)) (z c)
            (w * (softmax every C z c - delta c y)).

(** the gradient in all logits at once *)
Definition loss_logit_gradient_full : Prop :=
  forall n C t z, gradient_at n C (total_loss n C t) z (residual C t z).

(** class weights omega and smoothing eps: t_c = w omega_c ((1 - eps) delta_cy + eps/C), whose total tau is not w *)
Definition loss_logit_gradient_smoothed : Prop :=
  forall C w omega eps y z c, (y < C)%nat -> (c < C)%nat ->
  let t := fun c => w * omega c * ((1 - eps) * delta c y + eps / INR C) in
  let tau := w * ((1 - eps) * omega y + eps / INR C * Sum C omega) in
  is_derive (fun x => cross_entropy C t (put1 z c x)) (z c) (tau * softmax every C z c - t c).

(** ** The head: any downstream loss Phi of the contexts, with gradient u *)

(** [attention.upstream] u_i = r_i W_O^T for a linear read-out with cross-entropy *)
Definition attention_upstream : Prop :=
  forall n d C t g W_O c_O,
  gradient_at n d (fun g => total_loss n C t (affine d g W_O c_O)) g
              (fun i => back_through C (residual C t (affine d g W_O c_O) i) W_O).

(** [attention.weight-gradient] dL/da_ij = u_i . v_j, the weights taken as free *)
Definition attention_weight_gradient : Prop :=
  forall n m d (Phi : (nat -> nat -> R) -> R) a v u i j, (i < n)%nat -> (j < m)%nat ->
  gradient_at n d Phi (fun i => context m (a i) v) u ->
  is_derive (fun x => Phi (fun i' => context m (put a i j x i') v)) (a i j) (compatibility d (u i) v j).

(** the gradient in all weights at once *)
Definition attention_weight_gradient_full : Prop :=
  forall n m d (Phi : (nat -> nat -> R) -> R) a v u,
  gradient_at n d Phi (fun i => context m (a i) v) u ->
  gradient_at n m (fun a => Phi (fun i => context m (a i) v)) a (fun i => compatibility d (u i) v).

(** [attention.delta-identity] sum_k a_k b_k = u . g *)
Definition attention_delta_identity : Prop :=
  forall m d a u v, mean m a (compatibility d u v) = dot d u (context m a v).

(** [attention.routing-law] dL/ds_ij = a_ij (b_ij - sum_k a_ik b_ik), masked pairs and empty rows included *)
Definition attention_routing_law : Prop :=
  forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u i j, (i < n)%nat -> (j < m)%nat ->
  gradient_at n d Phi (contexts vis m s v) u ->
  is_derive (fun x => Phi (contexts vis m (put s i j x) v)) (s i j)
            (score_gradient m (weights vis m s i) (compatibility d (u i) v) j).

(** the same for every curve of scores at once *)
Definition attention_routing_law_gradient : Prop :=
  forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u,
  gradient_at n d Phi (contexts vis m s v) u ->
  gradient_at n m (fun s => Phi (contexts vis m s v)) s
              (fun i => score_gradient m (weights vis m s i) (compatibility d (u i) v)).

(** dL/ds_i = F_i b_i *)
Definition attention_routing_law_fisher : Prop :=
  forall m a b j, (j < m)%nat -> score_gradient m a b j = Sum m (fun k => fisher a j k * b k).

(** dL/ds_ij = -a_ij A_ij *)
Definition attention_routing_law_advantage : Prop :=
  forall m a b j, score_gradient m a b j = - (a j * advantage m a b j).

(** rows of the score gradient sum to zero *)
Definition attention_routing_law_rows_sum_to_zero : Prop :=
  forall vis m s b, Sum m (score_gradient m (softmax vis m s) b) = 0.

(** masked pairs have gradient exactly zero *)
Definition attention_routing_law_masked : Prop :=
  forall vis m s b j, vis j = false -> score_gradient m (softmax vis m s) b j = 0.

(** a single visible key has gradient zero *)
Definition attention_routing_law_single : Prop :=
  forall vis m s b j, (j < m)%nat -> (forall k, (k < m)%nat -> (vis k = true <-> k = j)) ->
  score_gradient m (softmax vis m s) b j = 0.

(** dL/dbias = dL/ds *)
Definition attention_routing_law_bias : Prop :=
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u i j, (i < n)%nat -> (j < m)%nat ->
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  is_derive (fun x => Phi (contexts vis m (scores dk scale q k (put bias i j x)) v)) (bias i j)
            (score_gradient m (weights vis m (scores dk scale q k bias) i) (compatibility d (u i) v) j).

(** the gradient in all biases at once *)
Definition attention_routing_law_bias_gradient : Prop :=
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u,
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  gradient_at n m (fun bias => Phi (contexts vis m (scores dk scale q k bias) v)) bias
    (fun i => score_gradient m (weights vis m (scores dk scale q k bias) i) (compatibility d (u i) v)).

(** the score gradient of a tiled backward pass, exp(s_j - lse) (u.v_j - u.g), from what the forward pass kept *)
Definition attention_routing_law_online : Prop :=
  forall d vis m s v u p j, (j < m)%nat -> vis j = true ->
  (forall j, (j < m)%nat -> vis j = true -> holders p j = 1%nat) ->
  let x := follow vis m s v p in
  exp (s j - log_mass x) * (dot d u (v j) - dot d u (fun c => output x c / mass x)) =
  score_gradient m (softmax vis m s) (compatibility d u v) j.

(** [attention.value-law] dL/dv_j = sum_i a_ij u_i *)
Definition attention_value_law : Prop :=
  forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u j c, (j < m)%nat -> (c < d)%nat ->
  gradient_at n d Phi (contexts vis m s v) u ->
  is_derive (fun x => Phi (contexts vis m s (put v j c x))) (v j c) (value_gradient n (weights vis m s) u j c).

(** dL/dv_j = N_j ubar_j with ubar_j the a-weighted mean of the upstream gradients, where N_j is positive *)
Definition attention_value_law_effective_count : Prop :=
  forall n a u j c, 0 < effective_count n a j ->
  value_gradient n a u j c =
  effective_count n a j * Sum n (fun i => a i j / effective_count n a j * u i c).

(** the gradient in all values at once *)
Definition attention_value_law_gradient : Prop :=
  forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u,
  gradient_at n d Phi (contexts vis m s v) u ->
  gradient_at m d (fun v => Phi (contexts vis m s v)) v (value_gradient n (weights vis m s) u).

(** [attention.query-law] dL/dq_i = scale sum_j a_ij (b_ij - bbar_i) k_j *)
Definition attention_query_law : Prop :=
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u i c, (i < n)%nat -> (c < dk)%nat ->
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  is_derive (fun x => Phi (contexts vis m (scores dk scale (put q i c x) k bias) v)) (q i c)
            (query_gradient m scale G k i c).

(** dL/dq_i = scale Cov_a(b_i, k) *)
Definition attention_query_law_covariance : Prop :=
  forall m scale a b k i c,
  query_gradient m scale (fun i => score_gradient m (a i) (b i)) k i c =
  scale * covariance m (a i) (b i) (fun j => k j c).

(** dL/dscale = sum_ij (dL/ds_ij) q_i . k_j *)
Definition attention_query_law_scale : Prop :=
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  is_derive (fun x => Phi (contexts vis m (scores dk x q k bias) v)) scale (scale_gradient n m dk G q k).

(** the gradient in all queries at once *)
Definition attention_query_law_gradient : Prop :=
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  gradient_at n dk (fun q => Phi (contexts vis m (scores dk scale q k bias) v)) q (query_gradient m scale G k).

(** [attention.key-law] dL/dk_j = scale sum_i a_ij (b_ij - bbar_i) q_i *)
Definition attention_key_law : Prop :=
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u j c, (j < m)%nat -> (c < dk)%nat ->
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  is_derive (fun x => Phi (contexts vis m (scores dk scale q (put k j c x) bias) v)) (k j c)
            (key_gradient n scale G q j c).

(** the key gradients sum to zero *)
Definition attention_key_law_sum : Prop :=
  forall n m vis scale s b q c,
  Sum m (fun j => key_gradient n scale (fun i => score_gradient m (weights vis m s i) (b i)) q j c) = 0.

(** a shift shared by all keys leaves any loss of the contexts unchanged: a key bias has gradient exactly zero *)
Definition attention_key_law_shift : Prop :=
  forall m dk vis scale q k shift bias v i c,
  contexts vis m (scores dk scale q (fun j c => k j c + shift c) bias) v i c =
  contexts vis m (scores dk scale q k bias) v i c.

(** the gradient in all keys at once *)
Definition attention_key_law_gradient : Prop :=
  forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m (scores dk scale q k bias) in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
  gradient_at m dk (fun k => Phi (contexts vis m (scores dk scale q k bias) v)) k (key_gradient n scale G q).

(** [attention.projection-laws] dL/dW_Q = sum_i x_i^T (dL/dq_i), likewise W_K and W_V; dL/dW_O = sum_i g_i^T r_i *)
Definition attention_projection_laws : Prop :=
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

(** biases: the value bias has gradient sum of u_i over the non-empty rows, the output bias sum of r_i *)
Definition attention_projection_laws_biases : Prop :=
  forall n m dx d C vis s xv W_V c_V W_O c_O t (Phi : (nat -> nat -> R) -> R) u seen c,
  let g := contexts vis m s (affine dx xv W_V c_V) in
  gradient_at n d Phi g u -> (c < d)%nat ->
  (forall i, (i < n)%nat -> (seen i = true <-> nonempty (vis i) m)) ->
  is_derive (fun x => Phi (contexts vis m s (affine dx xv W_V (put1 c_V c x)))) (c_V c)
            (visible_sum seen n (fun i => u i c)) /\
  forall c', (c' < C)%nat ->
  is_derive (fun x => total_loss n C t (affine d g W_O (put1 c_O c' x))) (c_O c')
            (Sum n (fun i => residual C t (affine d g W_O c_O) i c')).

(** bayesgrad's sweep over tiles of queries (primed: with the values' common part [centre] taken out, and of the keys only
    those below [limit] of the tile's end, where all that its rows see lie) adds up to the loss and the gradients of the
    dense formulas, for any sizes of the tiles and any centre *)
Definition attention_projection_laws_sweep : Prop :=
  forall m dk d C vis scale q k bias v centre W_O c_O t tiles (limit : nat -> nat),
  (forall stop, (limit stop <= m)%nat) ->
  (forall stop i j, (i < stop)%nat -> (j < m)%nat -> vis i j = true -> (j < limit stop)%nat) ->
  let n := List.fold_right Nat.add 0%nat tiles in
  let s := scores dk scale q k bias in
  let a := weights vis m s in
  let g := contexts vis m s v in
  let r := residual C t (affine d g W_O c_O) in
  let u := fun i => back_through C (r i) W_O in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  let g' := fun stop i => swept_context (vis i) (limit stop) (s i) v centre in
  let r' := fun stop => residual C t (affine d (g' stop) W_O c_O) in
  let u' := fun stop i c => if sees (vis i) (limit stop) then back_through C (r' stop i) W_O c else 0 in
  let a' := fun stop i => softmax (vis i) (limit stop) (s i) in
  let G' := fun stop i => swept_score_gradient d (vis i) (limit stop) (s i) v centre (u' stop i) in
  let key := fun stop j x => if Nat.ltb j (limit stop) then x else 0 in
  swept 0 tiles (fun stop i => cross_entropy C (t i) (affine d (g' stop) W_O c_O i)) =
    total_loss n C t (affine d g W_O c_O) /\
  (forall i stop c, (i < stop)%nat -> scale * Sum (limit stop) (fun j => G' stop i j * k j c) =
    query_gradient m scale G k i c) /\
  (forall j c, (j < m)%nat -> swept 0 tiles (fun stop i => key stop j (scale * (G' stop i j * q i c))) =
    key_gradient n scale G q j c) /\
  (forall j c, (j < m)%nat -> swept 0 tiles (fun stop i => key stop j (a' stop i j * u' stop i c)) =
    value_gradient n a u j c) /\
  (forall e c, swept 0 tiles (fun stop i => g' stop i e * r' stop i c) = weight_matrix_gradient n g r e c) /\
  (forall c, swept 0 tiles (fun stop i => r' stop i c) = Sum n (fun i => r i c)).

(** [attention.input-law] self-attention: dL/dx = (dL/dq) W_Q^T + (dL/dk) W_K^T + (dL/dv) W_V^T *)
Definition attention_input_law : Prop :=
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

(** cross-attention: the query part for the one input, the key and value parts for the other *)
Definition attention_input_law_cross : Prop :=
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

(** queries, keys and values as one block of three shapes *)
Definition attention_input_law_block : Prop :=
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

(** [attention.multi-head] the laws per head; query head h reads key and value head kv(h), whose gradient sums over
    the heads that read it *)
Definition attention_multi_head : Prop :=
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

(** W_O sliced: head h has upstream gradient r_i W_O[h]^T *)
Definition attention_multi_head_upstream : Prop :=
  forall H n d C t (g W_O : nat -> nat -> nat -> R) c_O,
  let z := fun g i c => Sum H (fun h => Sum d (fun r => g h i r * W_O h r c)) + c_O c in
  gradients_at H n d (fun g => total_loss n C t (z g)) g
    (fun h i => back_through C (residual C t (z g) i) (W_O h)).

(** [attention.saturation-bound] |dL/ds_j| <= a_j (1 - a_j) (max b - min b over the visible keys) *)
Definition attention_saturation_bound : Prop :=
  forall vis m s b lo hi j, (j < m)%nat ->
  (forall k, (k < m)%nat -> vis k = true -> lo <= b k <= hi) ->
  let a := softmax vis m s in
  Rabs (score_gradient m a b j) <= a j * (1 - a j) * (hi - lo).

(** equality in every row with two visible keys *)
Definition attention_saturation_bound_two_keys : Prop :=
  forall vis m s b j l, (j < m)%nat -> (l < m)%nat -> j <> l ->
  (forall k, (k < m)%nat -> (vis k = true <-> k = j \/ k = l)) ->
  let a := softmax vis m s in
  Rabs (score_gradient m a b j) = a j * (1 - a j) * Rabs (b j - b l).

(** ** Dynamics *)

(** [dynamics.loss-decrease] along a block's own gradient dL = -eta |gradient|^2 to first order *)
Definition dynamics_loss_decrease : Prop :=
  forall n d (F : (nat -> nat -> R) -> R) x G, gradient_at n d F x G ->
  is_derive (fun eta => F (fun i c => x i c - eta * G i c)) 0 (- Sum n (fun i => dot d (G i) (G i))).

(** blocks add, each with its own step size *)
Definition dynamics_loss_decrease_blocks : Prop :=
  forall H n d (F : (nat -> nat -> nat -> R) -> R) x G (rate : nat -> R), gradients_at H n d F x G ->
  is_derive (fun eta => F (fun h i c => x h i c - eta * rate h * G h i c)) 0
            (- Sum H (fun h => rate h * Sum n (fun i => dot d (G h i) (G h i)))).

(** any other step D: the prediction is <gradient, step> *)
Definition dynamics_loss_decrease_any_step : Prop :=
  forall n d (F : (nat -> nat -> R) -> R) x G D, gradient_at n d F x G ->
  is_derive (fun eta => F (fun i c => x i c + eta * D i c)) 0 (Sum n (fun i => dot d (G i) (D i))).

(** where the gradient is not zero every step that is small enough lowers the loss *)
Definition dynamics_loss_decrease_small_step : Prop :=
  forall n d (F : (nat -> nat -> R) -> R) x G, gradient_at n d F x G ->
  0 < Sum n (fun i => dot d (G i) (G i)) ->
  exists bound, 0 < bound /\ forall eta, 0 < eta < bound -> F (fun i c => x i c - eta * G i c) < F x.

(** blocks of different shapes add too *)
Definition dynamics_loss_decrease_shapes : Prop :=
  forall H rows columns (F : (nat -> nat -> nat -> R) -> R) x G (rate : nat -> R),
  block_gradients_at H rows columns F x G ->
  is_derive (fun eta => F (fun h i c => x h i c - eta * rate h * G h i c)) 0
            (- Sum H (fun h => rate h * Sum (rows h) (fun i => dot (columns h) (G h i) (G h i)))).

(** a Frechet derivative (epsilon and delta) is a gradient in the sense of these statements *)
Definition dynamics_loss_decrease_frechet : Prop :=
  forall n d F x G, frechet_at n d F x G -> gradient_at n d F x G.

(** and conversely, if countable choice is granted *)
Definition dynamics_loss_decrease_frechet_equivalent : Prop :=
  countable_choice ->
  forall n d F x G, gradient_at n d F x G <-> frechet_at n d F x G.

(** [dynamics.value-step] dg_i = -eta sum_l (a a^T)_il u_l exactly; dL = -eta sum_j |sum_i a_ij u_i|^2 *)
Definition dynamics_value_step : Prop :=
  forall n m d vis s v (Phi : (nat -> nat -> R) -> R) u,
  let a := weights vis m s in
  let stepped := fun eta j c => v j c - eta * value_gradient n a u j c in
  (forall eta i c, contexts vis m s (stepped eta) i c =
                   contexts vis m s v i c - eta * value_step_context n m a u i c) /\
  (gradient_at n d Phi (contexts vis m s v) u ->
   is_derive (fun eta => Phi (contexts vis m s (stepped eta))) 0
             (- Sum m (fun j => dot d (value_gradient n a u j) (value_gradient n a u j)))).

(** [dynamics.score-step] ds_ij = eta a_ij A_ij; dL = -eta sum_ij a_ij^2 A_ij^2;
    dg_i = sum_j a_ij (ds_ij - sum_k a_ik ds_ik) v_j *)
Definition dynamics_score_step : Prop :=
  forall n m d vis s v (Phi : (nat -> nat -> R) -> R) u,
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

(** [dynamics.feedback] a and u fixed, values stepped: db_ij = -eta sum_l a_lj u_i.u_l, and A_ij grows exactly where
    that sum exceeds its a_i-weighted mean over j *)
Definition dynamics_feedback : Prop :=
  forall n m d eta a u v i j,
  let stepped := fun j c => v j c - eta * value_gradient n a u j c in
  let b := compatibility d (u i) v in
  let b' := compatibility d (u i) stepped in
  let dA := advantage m (a i) b' j - advantage m (a i) b j in
  b' j - b j = - eta * feedback n d a u i j /\
  dA = eta * (feedback n d a u i j - mean m (a i) (feedback n d a u i)) /\
  (0 < eta -> (0 < dA <-> mean m (a i) (feedback n d a u i) < feedback n d a u i j)).

(** one query, or mutually orthogonal u: dA_ij = eta |u_i|^2 (a_ij - sum_k a_ik^2) *)
Definition dynamics_feedback_orthogonal : Prop :=
  forall n m d eta a u v i j, (i < n)%nat ->
  (forall l, (l < n)%nat -> l <> i -> dot d (u i) (u l) = 0) ->
  let stepped := fun j c => v j c - eta * value_gradient n a u j c in
  let b := compatibility d (u i) v in
  let b' := compatibility d (u i) stepped in
  advantage m (a i) b' j - advantage m (a i) b j =
  - (eta * dot d (u i) (u i) * (dot m (a i) (a i) - a i j)).

(** uniform unmasked attention of all queries is neutral *)
Definition dynamics_feedback_uniform : Prop :=
  forall n m d eta a u v i j, (i < n)%nat -> (j < m)%nat ->
  (forall l k, (l < n)%nat -> (k < m)%nat -> a l k = / INR m) ->
  let stepped := fun j c => v j c - eta * value_gradient n a u j c in
  let b := compatibility d (u i) v in
  let b' := compatibility d (u i) stepped in
  advantage m (a i) b' j = advantage m (a i) b j.

(** with a causal mask it is not: 2 x 2, u = (1, 1), dA of the second query and first key is eta/2 *)
Definition dynamics_feedback_causal : Prop :=
  let vis := fun i j => Nat.leb j i in
  let a := weights vis 2 (fun _ _ => 0) in
  let u := fun _ _ : nat => 1 in
  forall eta v,
  let stepped := fun j c => v j c - eta * value_gradient 2 a u j c in
  let b := compatibility 1 (u 1%nat) v in
  let b' := compatibility 1 (u 1%nat) stepped in
  advantage 2 (a 1%nat) b' 0%nat - advantage 2 (a 1%nat) b 0%nat = eta / 2.

(** scores stepped with the values: the advantage loses sum_k a_ik^2 A_ik^2 more, the same for all keys *)
Definition dynamics_feedback_simultaneous : Prop :=
  forall n m d vis s v u i j,
  let a := weights vis m s in
  let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
  let A := advantage m (a i) (compatibility d (u i) v) in
  let moved := fun eta => weights vis m (fun i j => s i j - eta * G i j) i in
  let stepped := fun eta j c => v j c - eta * value_gradient n a u j c in
  is_derive (fun eta => advantage m (moved eta) (compatibility d (u i) (stepped eta)) j) 0
            (feedback n d a u i j - mean m (a i) (feedback n d a u i) - Sum m (fun k => a i k * a i k * (A k * A k))).

(** the reversal: one head with cross-entropy in which query 1 alone gives dA_11 = +eta/9, both queries -eta/18 *)
Definition dynamics_feedback_reversal : Prop :=
  let vis := fun _ => every in
  let s := fun i j => if Nat.eqb j 0 then ln (if Nat.eqb i 0 then 2 else 3) else 0 in
  let v := fun _ _ : nat => 0 in
  let W_O := fun _ c : nat => if Nat.eqb c 0 then -1 else 1 in
  let t := fun i c => delta i c in
  let a := weights vis 2 s in
  let u := fun i => back_through 2 (residual 2 t (affine 1 (contexts vis 2 s v) W_O (fun _ => 0)) i) W_O in
  let stepped := fun n eta j c => v j c - eta * value_gradient n a u j c in
  let dA := fun n eta => advantage 2 (a 0%nat) (compatibility 1 (u 0%nat) (stepped n eta)) 0%nat -
                         advantage 2 (a 0%nat) (compatibility 1 (u 0%nat) v) 0%nat in
  (a 0%nat 0%nat = 2 / 3 /\ a 1%nat 0%nat = 3 / 4 /\ u 0%nat 0%nat = 1 /\ u 1%nat 0%nat = -1) /\
  forall eta, dA 1%nat eta = eta / 9 /\ dA 2%nat eta = - eta / 18.

(** [dynamics.feedback-full] u moves at the same order: along any curves of values, read-out and output bias at fixed
    weights, db_ij = u_i.dv_j + du_i.v_j with du_i = tau_i dz_i (diag p_i - p_i p_i^T) W_O^T + r_i dW_O^T and
    dz_i = dg_i W_O + g_i dW_O + dc_O *)
Definition dynamics_feedback_full : Prop :=
  forall m d C a t (V W : R -> nat -> nat -> R) (c_O : R -> nat -> R) x dV dW dc i j,
  (forall j c, (j < m)%nat -> (c < d)%nat -> is_derive (fun y => V y j c) x (dV j c)) ->
  (forall r c, (r < d)%nat -> (c < C)%nat -> is_derive (fun y => W y r c) x (dW r c)) ->
  (forall c, (c < C)%nat -> is_derive (fun y => c_O y c) x (dc c)) ->
  (j < m)%nat ->
  let g := fun y i => context m (a i) (V y) in
  let z := fun y => affine d (g y) (W y) (c_O y) in
  let r := fun y => residual C t (z y) i in
  let u := fun y => back_through C (r y) (W y) in
  let p := softmax every C (z x i) in
  let dg := context m (a i) dV in
  let dz := fun c => Sum d (fun e => dg e * W x e c) + Sum d (fun e => g x i e * dW e c) + dc c in
  let dr := fun c => Sum C (t i) * Sum C (fun c' => dz c' * fisher p c' c) in
  let du := fun e => back_through C dr (W x) e + back_through C (r x) dW e in
  is_derive (fun y => compatibility d (u y) (V y) j) x (dot d (u x) (dV j) + dot d du (V x j)).

(** freezing u can give the wrong sign: one query, a = (2/3, 1/3), v = (-1, 2), W_O = (-1, 1), label 0; with u frozen
    the advantage of the first key grows at the rate 1/9, in truth it falls at the rate 4/9 *)
Definition dynamics_feedback_full_sign : Prop :=
  let a := fun j => if Nat.eqb j 0 then 2 / 3 else 1 / 3 in
  let v := fun j _ : nat => if Nat.eqb j 0 then -1 else 2 in
  let W_O := fun _ c : nat => if Nat.eqb c 0 then -1 else 1 in
  let t := fun _ c => delta c 0 in
  let u := fun v => back_through 2 (residual 2 t (affine 1 (fun _ => context 2 a v) W_O (fun _ => 0)) 0%nat) W_O in
  let stepped := fun eta j c => v j c - eta * value_gradient 1 (fun _ => a) (fun _ => u v) j c in
  is_derive (fun eta => advantage 2 a (compatibility 1 (u v) (stepped eta)) 0%nat) 0 (1 / 9) /\
  is_derive (fun eta => advantage 2 a (compatibility 1 (u (stepped eta)) (stepped eta)) 0%nat) 0 (- (4 / 9)).

(** [dynamics.weight-space] training W_V moves v_j by -eta sum_l (x_j . x_l) dL/dv_l *)
Definition dynamics_weight_space : Prop :=
  forall m dx eta x W bias G j c,
  affine dx x (fun r c => W r c - eta * weight_matrix_gradient m x G r c) bias j c =
  affine dx x W bias j c - eta * Sum m (fun l => dot dx (x j) (x l) * G l c).

(** so it is the per-token law for every gradient exactly when X X^T = I *)
Definition dynamics_weight_space_orthonormal : Prop :=
  forall m dx x,
  (forall (G : nat -> nat -> R) j c, (j < m)%nat -> Sum m (fun l => dot dx (x j) (x l) * G l c) = G j c) <->
  (forall j l, (j < m)%nat -> (l < m)%nat -> dot dx (x j) (x l) = delta j l).

(** which inputs can meet exactly when there are no more of them than dimensions *)
Definition dynamics_weight_space_rank : Prop :=
  forall m dx,
  (exists x, forall j l, (j < m)%nat -> (l < m)%nat -> dot dx (x j) (x l) = delta j l) <-> (m <= dx)%nat.

(** [dynamics.natural-routing] along the replicator flow a_j' = -a_j (b_j - bbar) at fixed b the mean of b falls at
    the rate of its variance *)
Definition dynamics_natural_routing : Prop :=
  forall m (a : R -> nat -> R) b t,
  (forall j, (j < m)%nat -> is_derive (fun x => a x j) t (- score_gradient m (a t) b j)) ->
  is_derive (fun x => mean m (a x) b) t (- variance m (a t) b) /\
  (distribution m (a t) -> 0 <= variance m (a t) b).

(** the solutions of F x = dL/ds are b plus a constant on the visible keys *)
Definition dynamics_natural_routing_solutions : Prop :=
  forall vis m s b x, nonempty vis m ->
  let a := softmax vis m s in
  (forall j, (j < m)%nat -> Sum m (fun k => fisher a j k * x k) = score_gradient m a b j) <->
  (exists c, forall j, (j < m)%nat -> vis j = true -> x j = b j + c).

(** the solution of least norm (the pseudo-inverse): b minus its unweighted mean over the visible keys, 0 at masked ones *)
Definition dynamics_natural_routing_least : Prop :=
  forall vis m s b, nonempty vis m ->
  let a := softmax vis m s in
  let count := visible_sum vis m (fun _ => 1) in
  let least := fun j => if vis j then b j - visible_sum vis m b / count else 0 in
  (forall j, (j < m)%nat -> Sum m (fun k => fisher a j k * least k) = score_gradient m a b j) /\
  forall x, (forall j, (j < m)%nat -> Sum m (fun k => fisher a j k * x k) = score_gradient m a b j) ->
  dot m least least <= dot m x x.

(** Bayes' rule with likelihood exp(-t b) is the exact flow at time t, and starts at a0 *)
Definition dynamics_natural_routing_flow : Prop :=
  forall m a0 b, distribution m a0 ->
  let a := fun t => bayes_rule m a0 (fun j => exp (- t * b j)) in
  (forall j, (j < m)%nat -> a 0 j = a0 j) /\
  (forall t, distribution m (a t)) /\
  (forall t j, is_derive (fun x => a x j) t (- score_gradient m (a t) b j)).

(** in the scores it is the step s - eta b *)
Definition dynamics_natural_routing_scores : Prop :=
  forall vis m s b eta j, nonempty vis m -> (j < m)%nat ->
  softmax vis m (fun k => s k - eta * b k) j = bayes_rule m (softmax vis m s) (fun k => exp (- eta * b k)) j.

(** [dynamics.frame-precision] with M the largest weight of a row: |dL/ds_j| <= M (1 - M) (range of b) *)
Definition dynamics_frame_precision : Prop :=
  forall m a b lo hi M j, distribution m a -> (j < m)%nat ->
  (forall k, (k < m)%nat -> a k <= M) -> (exists k, (k < m)%nat /\ a k = M) ->
  (forall k, (k < m)%nat -> 0 < a k -> lo <= b k <= hi) ->
  Rabs (score_gradient m a b j) <= M * (1 - M) * (hi - lo).

(** value gradients need not vanish: they tend to u_i + sum_(l != i) a_lj u_l *)
Definition dynamics_frame_precision_values : Prop :=
  forall n (a : nat -> nat -> nat -> R) a_other u i j c, (i < n)%nat ->
  is_lim_seq (fun step => a step i j) 1 ->
  (forall step l, (l < n)%nat -> l <> i -> a step l j = a_other l j) ->
  is_lim_seq (fun step => value_gradient n (a step) u j c)
             (u i c + Sum n (fun l => if Nat.eqb l i then 0 else a_other l j * u l c)).

(** exactly: dL/dv_j = u_i + sum_(l != i) a_lj u_l - (1 - a_ij) u_i *)
Definition dynamics_frame_precision_values_exact : Prop :=
  forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u i, (i < n)%nat ->
  let a := weights vis m s in
  gradient_at n d Phi (contexts vis m s v) u ->
  gradient_at m d (fun v => Phi (contexts vis m s v)) v
    (fun j c => u i c + Sum n (fun l => (1 - delta l i) * a l j * u l c) - (1 - a i j) * u i c).

(** but they can vanish: two equal rows that pull in opposite directions *)
Definition dynamics_frame_precision_cancel : Prop :=
  forall a u j c, a 0%nat j = a 1%nat j -> u 1%nat c = - u 0%nat c ->
  value_gradient 2 a u j c = 0.

(** ** What EM means exactly *)

(** [em.fisher-identity] dl = sum_j r_j dc_j *)
Definition em_fisher_identity : Prop :=
  forall m pi (c : R -> nat -> R) rate t,
  (forall j, (j < m)%nat -> 0 <= pi j) -> (exists j, (j < m)%nat /\ 0 < pi j) ->
  (forall j, (j < m)%nat -> is_derive (fun x => c x j) t (rate j)) ->
  is_derive (fun x => mixture_loss m pi (c x)) t (mean m (posterior m pi (c t)) rate).

(** [em.proximal-e-step] the minimiser of sum_j a_j b_j + KL(a || a0)/eta over the simplex is a0_j exp(-eta b_j)/Z *)
Definition em_proximal_e_step : Prop :=
  forall m eta b a0, 0 < eta -> distribution m a0 ->
  let best := bayes_rule m a0 (fun j => exp (- eta * b j)) in
  distribution m best /\
  forall a, distribution m a ->
  Rbar_le (e_step_objective m eta b a0 best) (e_step_objective m eta b a0 a) /\
  (e_step_objective m eta b a0 a = e_step_objective m eta b a0 best <->
   forall j, (j < m)%nat -> a j = best j).

(** [em.proximal-m-step] the minimiser of sum_ij a_ij u_i.v_j + |v - v0|^2/(2 eta) is v0_j - eta sum_i a_ij u_i *)
Definition em_proximal_m_step : Prop :=
  forall n m d eta a u v0 v, 0 < eta ->
  let best := fun j c => v0 j c - eta * value_gradient n a u j c in
  m_step_objective n m d eta a u v0 best <= m_step_objective n m d eta a u v0 v /\
  (m_step_objective n m d eta a u v0 v = m_step_objective n m d eta a u v0 best <->
   forall j c, (j < m)%nat -> (c < d)%nat -> v j c = best j c).

(** [em.gaussian-mixture] attention weights are the responsibilities of a Gaussian mixture with means k_j, covariance
    I/scale and priors proportional to pi_j exp(scale |k_j|^2/2); pi_j = 0 is a masked key *)
Definition em_gaussian_mixture : Prop :=
  forall vis m d scale q k pi, 0 < scale ->
  (forall j, (j < m)%nat -> 0 <= pi j) -> (forall j, (j < m)%nat -> (vis j = true <-> 0 < pi j)) ->
  nonempty vis m ->
  let prior := normalise every m (fun j => pi j * exp (scale * dot d (k j) (k j) / 2)) in
  distribution m prior /\
  forall j, (j < m)%nat ->
  softmax vis m (fun j => scale * dot d q (k j) + ln (pi j)) j =
  bayes_rule m prior (fun j => gaussian d scale (k j) q) j.

(** [em.not-variational] for every step size there is a head with one query, two keys and three classes in which the
    value step lowers the loss and the routing step, plain or natural, then raises it above the start *)
Definition em_not_variational : Prop :=
  forall eta, 0 < eta ->
  exists (W_O v : nat -> nat -> R),
  let t := fun _ c => delta c 0 in
  let z := fun s v => affine 1 (contexts (fun _ => every) 2 s v) W_O (fun _ => 0) in
  let L := fun s v => total_loss 1 3 t (z s v) in
  let u := fun s v i => back_through 3 (residual 3 t (z s v) i) W_O in
  let s := fun _ _ : nat => 0 in
  let a := weights (fun _ => every) 2 s in
  let v' := fun j c => v j c - eta * value_gradient 1 a (u s v) j c in
  let b := fun i => compatibility 1 (u s v' i) v' in
  let plain := fun i j => s i j - eta * score_gradient 2 (a i) (b i) j in
  let natural := fun i j => s i j - eta * b i j in
  L s v' < L s v /\ L s v < L plain v' /\ L s v < L natural v'.

(** the witness at eta = 1 in numbers: W_O = (0, 1, -1), v = (5, -3), label 0, scores 0 *)
Definition em_not_variational_numbers : Prop :=
  let W_O := fun _ c : nat => if Nat.eqb c 0 then 0 else if Nat.eqb c 1 then 1 else -1 in
  let v := fun j _ : nat => if Nat.eqb j 0 then 5 else -3 in
  let t := fun _ c => delta c 0 in
  let z := fun s v => affine 1 (contexts (fun _ => every) 2 s v) W_O (fun _ => 0) in
  let L := fun s v => total_loss 1 3 t (z s v) in
  let u := fun s v i => back_through 3 (residual 3 t (z s v) i) W_O in
  let s := fun _ _ : nat => 0 in
  let a := weights (fun _ => every) 2 s in
  let v' := fun j c => v j c - value_gradient 1 a (u s v) j c in
  let b := fun i => compatibility 1 (u s v' i) v' in
  let plain := fun i j => s i j - score_gradient 2 (a i) (b i) j in
  let natural := fun i j => s i j - b i j in
  Rabs (L s v - 1.40761) <= 0.00001 /\ Rabs (L s v' - 1.26111) <= 0.00001 /\
  Rabs (L plain v' - 2.2359) <= 0.0001 /\ Rabs (L natural v' - 3.1035) <= 0.0001.

(** the first-order surrogate in the logits lies below the loss: a minorant, where EM needs a majorant *)
Definition em_not_variational_minorant : Prop :=
  forall n C t z z', (forall i, (i < n)%nat -> 0 <= Sum C (t i)) ->
  total_loss n C t z + Sum n (fun i => dot C (residual C t z i) (fun c => z' i c - z i c)) <= total_loss n C t z'.

(** so does the frozen-u surrogate in the contexts *)
Definition em_not_variational_surrogate : Prop :=
  forall n d C t g g' W_O c_O, (forall i, (i < n)%nat -> 0 <= Sum C (t i)) ->
  let u := fun i => back_through C (residual C t (affine d g W_O c_O) i) W_O in
  total_loss n C t (affine d g W_O c_O) + Sum n (fun i => dot d (u i) (fun c => g' i c - g i c)) <=
  total_loss n C t (affine d g' W_O c_O).

(** ** Wrong variants, refuted: each is the law with one thing changed, and its negation is what is proved *)

(** routing law with the sign flipped *)
Definition wrong_attention_routing_law_sign : Prop :=
  ~ (forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u i j, (i < n)%nat -> (j < m)%nat ->
     gradient_at n d Phi (contexts vis m s v) u ->
     is_derive (fun x => Phi (contexts vis m (put s i j x) v)) (s i j)
               (- score_gradient m (weights vis m s i) (compatibility d (u i) v) j)).

(** routing law with the mean dropped *)
Definition wrong_attention_routing_law_mean : Prop :=
  ~ (forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u i j, (i < n)%nat -> (j < m)%nat ->
     gradient_at n d Phi (contexts vis m s v) u ->
     is_derive (fun x => Phi (contexts vis m (put s i j x) v)) (s i j)
               (weights vis m s i j * compatibility d (u i) v j)).

(** value law with a_ij and a_ji swapped *)
Definition wrong_attention_value_law_swapped : Prop :=
  ~ (forall n m d vis (Phi : (nat -> nat -> R) -> R) s v u j c, (j < m)%nat -> (c < d)%nat ->
     gradient_at n d Phi (contexts vis m s v) u ->
     is_derive (fun x => Phi (contexts vis m s (put v j c x))) (v j c)
               (value_gradient n (fun i j => weights vis m s j i) u j c)).

(** query law without the scale *)
Definition wrong_attention_query_law_scale : Prop :=
  ~ (forall n m dk d vis scale q k bias v (Phi : (nat -> nat -> R) -> R) u i c, (i < n)%nat -> (c < dk)%nat ->
     let a := weights vis m (scores dk scale q k bias) in
     let G := fun i => score_gradient m (a i) (compatibility d (u i) v) in
     gradient_at n d Phi (contexts vis m (scores dk scale q k bias) v) u ->
     is_derive (fun x => Phi (contexts vis m (scores dk scale (put q i c x) k bias) v)) (q i c)
               (query_gradient m 1 G k i c)).

(** equality in two-key rows without the factor (1 - a_j) *)
Definition wrong_attention_saturation_bound_factor : Prop :=
  ~ (forall vis m s b j l, (j < m)%nat -> (l < m)%nat -> j <> l ->
     (forall k, (k < m)%nat -> (vis k = true <-> k = j \/ k = l)) ->
     let a := softmax vis m s in
     Rabs (score_gradient m a b j) = a j * Rabs (b j - b l)).

(** a bound (1 - a_j) times the range, scaled by the square of the weight: too small *)
Definition wrong_attention_saturation_bound_square : Prop :=
  ~ (forall vis m s b lo hi j, (j < m)%nat ->
     (forall k, (k < m)%nat -> vis k = true -> lo <= b k <= hi) ->
     let a := softmax vis m s in
     Rabs (score_gradient m a b j) <= a j * a j * (1 - a j) * (hi - lo)).

(** softmax Jacobian without the diagonal term *)
Definition wrong_softmax_jacobian_diagonal : Prop :=
  ~ (forall vis m s j k, (j < m)%nat -> (k < m)%nat ->
     is_derive (fun x => softmax vis m (put1 s k x) j) (s k) (- (softmax vis m s j * softmax vis m s k))).

(** logit gradient that forgets the total of the target: p - t *)
Definition wrong_loss_logit_gradient_total : Prop :=
  ~ (forall C t z c, (c < C)%nat ->
     is_derive (fun x => cross_entropy C t (put1 z c x)) (z c) (softmax every C z c - t c)).

(** the unconditional feedback claim: keys above the mean level always gain advantage *)
Definition wrong_dynamics_feedback_unconditional : Prop :=
  ~ (forall n m d eta vis s u v i j, (i < n)%nat -> (j < m)%nat -> 0 < eta -> nonempty (vis i) m ->
     let a := weights vis m s in
     let stepped := fun j c => v j c - eta * value_gradient n a u j c in
     let b := compatibility d (u i) v in
     let b' := compatibility d (u i) stepped in
     dot m (a i) (a i) < a i j -> 0 < dot d (u i) (u i) ->
     advantage m (a i) b j < advantage m (a i) b' j).

End Expected.
