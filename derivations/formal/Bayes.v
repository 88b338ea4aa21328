(** Cross-entropy and Bayes: risk, the posterior predictive, chain rule, forward recursion. *)

From Bayesgrad Require Export Information.

(** ** Risk *)

(** the cost of one outcome: w p (-log q) = w p (-log p) + w p log (p/q), infinite together *)
Lemma cost_split w p q : 0 <= w -> 0 <= p ->
  cost (w * p) q = Rbar_plus (Finite (w * (p * - ln p))) (Rbar_mult (Finite w) (log_ratio_cost p q)).
Proof.
  intros Hw Hp. unfold cost.
  destruct Hw as [Hw|<-]; [destruct Hp as [Hp|<-]|].
  - assert (0 < w * p) as P by (apply Rmult_lt_0_compat; trivial).
    destruct (Rle_dec (w * p) 0) as [L|_]; [lra|]. destruct (Rle_dec q 0) as [Q|Q].
    + rewrite log_ratio_cost_infinite, scale_infinite by trivial. reflexivity.
    + assert (0 < q) as Q' by lra. rewrite log_ratio_cost_finite by trivial. simpl. f_equal.
      unfold Rdiv. rewrite ln_mult, ln_Rinv by (trivial; now apply Rinv_0_lt_compat). ring.
  - rewrite Rmult_0_r. destruct (Rle_dec 0 0) as [_|L]; [|lra].
    rewrite log_ratio_cost_zero by lra. simpl. f_equal. ring.
  - rewrite Rmult_0_l. destruct (Rle_dec 0 0) as [_|L]; [|lra].
    rewrite scale_zero. simpl. f_equal. ring.
Qed.

Lemma divergence_proper n p q : divergence n p q <> m_infty.
Proof. apply extended_sum_proper. intros. apply log_ratio_cost_proper. Qed.

Theorem bayes_risk_decomposition : forall N C w p q,
  (forall c, (c < N)%nat -> 0 <= w c) -> (forall c, (c < N)%nat -> distribution C (p c)) ->
  risk N C w p q =
  Rbar_plus (Finite (Sum N (fun c => w c * entropy C (p c))))
            (extended_sum N (fun c => Rbar_mult (Finite (w c)) (divergence C (p c) (q c)))).
Proof.
  intros N C w p q Hw Hp. unfold risk.
  rewrite <- extended_sum_plus by (intros; apply scale_proper; [auto|apply divergence_proper]).
  apply extended_sum_ext. intros c Hc. destruct (Hp c Hc) as [Np _].
  unfold entropy, divergence. rewrite <- Sum_scal_l.
  rewrite <- extended_sum_scal by (auto; intros; apply log_ratio_cost_proper).
  rewrite <- extended_sum_plus by (intros; apply scale_proper; [auto|apply log_ratio_cost_proper]).
  apply extended_sum_ext. intros y Hy. apply cost_split; auto.
Qed.

Lemma scale_nonneg w x : 0 <= w -> Rbar_le 0 x -> Rbar_le 0 (Rbar_mult (Finite w) x).
Proof.
  intros [Hw|<-] Hx; [|rewrite scale_zero; simpl; lra].
  destruct x as [x| |]; [simpl in *; apply Rmult_le_pos; lra|now rewrite scale_infinite|contradiction].
Qed.

Lemma scale_is_zero w x : 0 < w -> Rbar_mult (Finite w) x = Finite 0 -> x = Finite 0.
Proof.
  intros Hw. destruct x as [x| |]; simpl.
  - intro E. injection E as E. apply Rmult_integral in E. f_equal. lra.
  - change (Rbar_mult w p_infty = Finite 0 -> p_infty = Finite 0). rewrite scale_infinite by trivial. discriminate.
  - intro E. exfalso. change (Rbar_mult (Finite w) m_infty = Finite 0) in E. unfold Rbar_mult, Rbar_mult' in E.
    destruct (Rle_dec 0 w) as [L|L]; [|lra]. destruct (Rle_lt_or_eq_dec 0 w L); [discriminate|lra].
Qed.

Theorem bayes_posterior_predictive : forall N C w p q,
  (forall c, (c < N)%nat -> 0 <= w c) ->
  (forall c, (c < N)%nat -> distribution C (p c)) -> (forall c, (c < N)%nat -> distribution C (q c)) ->
  Rbar_le (risk N C w p p) (risk N C w p q) /\
  (risk N C w p q = risk N C w p p <->
   forall c, (c < N)%nat -> 0 < w c -> forall y, (y < C)%nat -> q c y = p c y).
Proof.
  intros N C w p q Hw Hp Hq.
  assert (forall c, (c < N)%nat -> Rbar_le 0 (Rbar_mult (Finite (w c)) (divergence C (p c) (q c)))) as Pos.
  { intros c Hc. apply scale_nonneg; [auto|]. now apply lemma_gibbs; auto. }
  set (H := Sum N (fun c => w c * entropy C (p c))).
  assert (risk N C w p p = Finite H) as Rp.
  { rewrite bayes_risk_decomposition by trivial. fold H.
    rewrite (extended_sum_finite N _ (fun _ => 0)).
    - rewrite Sum_zero by trivial. simpl. f_equal. ring.
    - intros c _. rewrite divergence_self. simpl. f_equal. ring. }
  rewrite Rp. rewrite (bayes_risk_decomposition N C w p q) by trivial. fold H.
  set (X := extended_sum N _) in *.
  assert (Rbar_le 0 X) as XP by (apply extended_sum_nonneg; trivial).
  assert (Rbar_plus (Finite H) X = Finite H <-> X = Finite 0) as E.
  { destruct X as [x| |]; simpl in *; [|split; discriminate|contradiction].
    split; intro E; injection E as E; f_equal; lra. }
  split; [destruct X; simpl in *; trivial; lra|]. rewrite E. unfold X. rewrite extended_sum_zero by trivial.
  split.
  - intros Z c Hc Wc y Hy. specialize (Z c Hc). apply scale_is_zero in Z; [|trivial].
    symmetry. apply (lemma_gibbs C (p c) (q c)); auto.
  - intros Same c Hc. destruct (Hw c Hc) as [Wc|Wc].
    + assert (divergence C (p c) (q c) = Finite 0) as ->.
      { apply lemma_gibbs; auto. intros y Hy. symmetry. auto. }
      simpl. f_equal. ring.
    + rewrite <- Wc. apply scale_zero.
Qed.

(** ** The predictive as a mixture over a latent *)

Theorem bayes_posterior_predictive_without_ii :
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
Proof.
  intros nh nc nx ny P Phcx Phxy Phx Pcxy Pcx N I1 c x y Hc Hx Hy Pos.
  unfold Pcxy. rewrite <- Sum_div. apply Sum_ext. intros h Hh.
  assert (forall c', (c' < nc)%nat -> 0 <= Phcx h c' x) as Nn.
  { intros c' Hc'. apply Sum_nonneg. auto. }
  destruct (Req_dec (Phx h x) 0) as [Z|Z].
  - pose proof (Sum_nonneg_zero nc (fun c => Phcx h c x) Nn Z c Hc) as Zc. cbv beta in Zc.
    assert (P h c x y = 0) as ->.
    { apply (Sum_nonneg_zero ny (fun y => P h c x y)); auto. }
    rewrite Zc. unfold Rdiv. ring.
  - apply (Rmult_eq_reg_r (Phx h x)); [|trivial]. specialize (I1 h c x y Hh Hc Hx Hy).
    transitivity (P h c x y * Phx h x / Pcx c x); [field; lra|]. rewrite I1. field. split; [trivial|lra].
Qed.

Theorem bayes_posterior_predictive_mixture :
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
Proof.
  intros nh nc nx ny P Phcx Phxy Phx Phc Pcxy Pcx Pc N I1 I2 c x y Hc Hx Hy Pos.
  pose proof (bayes_posterior_predictive_without_ii nh nc nx ny P N I1 c x y Hc Hx Hy Pos) as E.
  cbv zeta in E. unfold Pcxy, Pcx, Phcx in *. rewrite E. apply Sum_ext. intros h Hh.
  assert (0 < Pc c) as PcP.
  { unfold Pc, Phc. rewrite Sum_exchange.
    apply (Sum_pos nx _ x); trivial. intros x' Hx'. apply Sum_nonneg. intros. apply Sum_nonneg. auto. }
  f_equal. specialize (I2 h c x Hh Hc Hx). cbv beta in I2, Pos.
  apply (Rmult_eq_reg_r (Pc c)); [|lra].
  apply (Rmult_eq_reg_r (Sum nh (fun h => Sum ny (fun y => P h c x y)))); [|lra].
  transitivity (Sum ny (fun y => P h c x y) * Pc c); [field; lra|]. rewrite I2. field. lra.
Qed.

Theorem bayes_posterior_predictive_witness :
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
Proof.
  cbv zeta. split; [|split].
  - intros h c x y Hh Hc Hx Hy.
    destruct h as [|[|]]; [| |lia]; (destruct c as [|[|]]; [| |lia]); (destruct x as [|[|]]; [| |lia]);
      (destruct y as [|[|]]; [| |lia]); simpl; field.
  - simpl. field.
  - simpl. field.
Qed.

(** ** Sequences *)

Theorem bayes_chain_rule : forall (p : list nat -> R) (y : nat -> nat) (T : nat),
  p nil = 1 -> (forall t, (t <= T)%nat -> 0 < p (prefix y t)) ->
  Sum T (fun t => - ln (p (prefix y (S t)) / p (prefix y t))) = - ln (p (prefix y T)).
Proof.
  intros p y T H0 H. induction T as [|T IH]; cbn [Sum].
  - unfold prefix. simpl. rewrite H0, ln_1. ring.
  - rewrite IH by auto. pose proof (H T ltac:(lia)) as PT. pose proof (H (S T) ltac:(lia)) as PS.
    unfold Rdiv. rewrite ln_mult, ln_Rinv by (trivial; now apply Rinv_0_lt_compat). ring.
Qed.

Theorem bayes_entropy_is_blind :
  let p := fun y => if Nat.eqb y 0 then 1 else 0 in
  let q := fun y => if Nat.eqb y 0 then 0 else 1 in
  let p' := fun y => if Nat.eqb y 0 then 1 / 3 else 2 / 3 in
  let q' := fun y => if Nat.eqb y 0 then 2 / 3 else 1 / 3 in
  entropy 2 p = entropy 2 q /\ divergence 2 p q = p_infty /\
  entropy 2 p' = entropy 2 q' /\ divergence 2 p' q' = Finite (ln 2 / 3).
Proof.
  intros p q p' q'. split; [|split; [|split]].
  - unfold entropy, p, q. simpl. ring.
  - apply (extended_sum_infinite 2 _ 0%nat).
    + intros. apply log_ratio_cost_proper.
    + lia.
    + apply log_ratio_cost_infinite; unfold p, q; simpl; lra.
  - unfold entropy, p', q'. simpl. ring.
  - unfold divergence. rewrite (extended_sum_finite 2 _ (fun y => p' y * ln (p' y / q' y))).
    + f_equal. unfold p', q'. simpl.
      replace (1 / 3 / (2 / 3)) with (/ 2) by field. replace (2 / 3 / (1 / 3)) with 2 by field.
      rewrite ln_Rinv by lra. field.
    + intros y Hy. apply log_ratio_cost_finite; unfold p', q'; destruct (Nat.eqb y 0); lra.
Qed.

Lemma sum_over_paths_ext states t f g : (forall path, f path = g path) ->
  sum_over_paths states t f = sum_over_paths states t g.
Proof. revert f g. induction t as [|t IH]; simpl; intros f g H; [apply H|]. apply Sum_ext. intros. apply IH. auto. Qed.

Lemma sum_over_paths_scal states t f x :
  sum_over_paths states t (fun path => f path * x) = sum_over_paths states t f * x.
Proof.
  revert f. induction t as [|t IH]; simpl; intro f; [reflexivity|].
  rewrite <- Sum_scal_r. apply Sum_ext. intros s _. apply (IH (fun path => f (s :: path)%list)).
Qed.

Theorem bayes_hmm_filter : forall states pi T E o earlier s,
  sum_over_paths states (length earlier)
    (fun path => path_probability pi T E (s :: path)%list (o :: earlier)%list) =
  forward states pi T E (o :: earlier)%list s.
Proof.
  intros states pi T E o earlier. revert o. induction earlier as [|o' earlier IH]; intros o s.
  - reflexivity.
  - change (forward states pi T E (o :: o' :: earlier)%list s) with
      (Sum states (fun s' => forward states pi T E (o' :: earlier)%list s' * T s' s) * E s o).
    rewrite <- Sum_scal_r. simpl length. simpl sum_over_paths at 1. apply Sum_ext. intros s' _.
    rewrite <- IH, <- !sum_over_paths_scal. apply sum_over_paths_ext. intro path. reflexivity.
Qed.

Lemma sum_over_first states pi T E o earlier :
  sum_over_paths states (length (o :: earlier)%list)
    (fun path => path_probability pi T E path (o :: earlier)%list) =
  Sum states (forward states pi T E (o :: earlier)%list).
Proof. apply Sum_ext. intros s _. apply bayes_hmm_filter. Qed.

Theorem bayes_hmm_filter_predictive : forall states pi T E o' o earlier,
  let probability := fun observations => sum_over_paths states (length observations)
    (fun path => path_probability pi T E path observations) in
  let alpha := forward states pi T E (o :: earlier)%list in
  let posterior := fun s => alpha s / Sum states alpha in
  probability (o :: earlier)%list = Sum states alpha /\
  probability (o' :: o :: earlier)%list / probability (o :: earlier)%list =
  Sum states (fun s' => Sum states (fun s => posterior s * T s s') * E s' o').
Proof.
  intros states pi T E o' o earlier probability alpha posterior.
  unfold probability. rewrite !sum_over_first. fold alpha. split; [reflexivity|].
  unfold Rdiv. rewrite <- Sum_scal_r. apply Sum_ext. intros s' _.
  change (forward states pi T E (o' :: o :: earlier)%list s') with (Sum states (fun s => alpha s * T s s') * E s' o').
  rewrite (Sum_ext states (fun s => posterior s * T s s') (fun s => alpha s * T s s' * / Sum states alpha)).
  - rewrite Sum_scal_r. ring.
  - intros s _. unfold posterior, Rdiv. ring.
Qed.

Lemma Sum_telescope n f : Sum n (fun k => f k - f (S k)) + f n = f 0%nat.
Proof. induction n as [|n IH]; simpl; [ring|]. rewrite <- IH. ring. Qed.

Theorem bayes_hmm_filter_log_likelihood : forall states pi T E o earlier,
  let total := fun observations => Sum states (forward states pi T E observations) in
  (forall k, (k <= length earlier)%nat -> 0 < total (List.skipn k (o :: earlier)%list)) ->
  ln (total (o :: earlier)%list) =
  Sum (length earlier) (fun k => ln (total (List.skipn k (o :: earlier)%list) /
                                     total (List.skipn (S k) (o :: earlier)%list))) +
  ln (total (List.skipn (length earlier) (o :: earlier)%list)).
Proof.
  intros states pi T E o earlier total H. set (l := (o :: earlier)%list) in *.
  pose proof (Sum_telescope (length earlier) (fun k => ln (total (List.skipn k l)))) as Tel. cbv beta in Tel.
  change (List.skipn 0 l) with l in Tel. rewrite <- Tel. f_equal. apply Sum_ext. intros k Hk.
  pose proof (H k ltac:(lia)) as Pk. pose proof (H (S k) ltac:(lia)) as PS.
  unfold Rdiv. rewrite ln_mult, ln_Rinv by (trivial; now apply Rinv_0_lt_compat). ring.
Qed.

(** ** A chain seen through noise *)

Theorem bayes_sticky_markov : forall states pi P E x earlier s',
  let probability := fun observations => sum_over_paths states (length observations)
    (fun path => path_probability pi P E path observations) in
  let alpha := forward states pi P E (x :: earlier)%list in
  let filter := fun s => alpha s / Sum states alpha in
  sum_over_paths states (length (x :: earlier)%list) (fun path =>
    path_probability pi P E path (x :: earlier)%list * P (List.hd 0%nat path) s') / probability (x :: earlier)%list =
  Sum states (fun s => filter s * P s s').
Proof.
  intros states pi P E x earlier s' probability alpha filter.
  unfold probability. rewrite sum_over_first. fold alpha.
  assert (sum_over_paths states (length (x :: earlier)%list) (fun path =>
    path_probability pi P E path (x :: earlier)%list * P (List.hd 0%nat path) s') =
    Sum states (fun s => alpha s * P s s')) as ->.
  { cbn [length sum_over_paths List.hd]. apply Sum_ext. intros s _. rewrite sum_over_paths_scal.
    now rewrite bayes_hmm_filter. }
  rewrite <- Sum_div. apply Sum_ext. intros s _. unfold filter, Rdiv. ring.
Qed.

Lemma extended_sum_above n f g : (forall k, (k < n)%nat -> Rbar_le (Finite (f k)) (g k)) ->
  Rbar_le (Finite (Sum n f)) (extended_sum n g).
Proof.
  intro H. induction n as [|n IH]; simpl; [lra|].
  pose proof (H n ltac:(lia)) as Hn. specialize (IH ltac:(auto)).
  destruct (extended_sum n g), (g n); simpl in *; trivial; lra.
Qed.

Theorem bayes_sticky_markov_bound : forall states observations w P q,
  (forall s x, (s < states)%nat -> (x < observations)%nat -> 0 <= w s x) ->
  (forall s, (s < states)%nat -> distribution states (P s)) ->
  (forall x, (x < observations)%nat -> distribution states (q x)) ->
  Rbar_le (Finite (Sum states (fun s => Sum observations (w s) * entropy states (P s))))
          (extended_sum states (fun s => extended_sum observations (fun x => extended_sum states (fun y =>
             cost (w s x * P s y) (q x y))))).
Proof.
  intros states observations w P q Hw HP Hq. apply extended_sum_above. intros s Hs.
  change (extended_sum observations _) with (risk observations states (w s) (fun _ => P s) q).
  destruct (bayes_posterior_predictive observations states (w s) (fun _ => P s) q) as [B _]; auto.
  eapply Rbar_le_trans; [|exact B]. rewrite bayes_risk_decomposition by auto.
  rewrite (extended_sum_finite observations _ (fun _ => 0)).
  - rewrite (Sum_zero observations (fun _ => 0)) by trivial. rewrite Sum_scal_r. simpl. lra.
  - intros x _. rewrite divergence_self. simpl. f_equal. ring.
Qed.
