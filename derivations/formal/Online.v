(** Tiles of keys, merged in any order over any references, give the context, the weights and the score gradient of the
    definition.

    A state stands for (e^r Z, e^r o), which add up: order, partition and references are free. *)

From Bayesgrad Require Export Attention.

(** the sum of f over the visible keys below m, each counted as often as a tile of the plan holds it *)
Definition held_sum (vis : nat -> bool) (m : nat) (p : plan) (f : nat -> R) : R :=
  visible_sum vis m (fun j => INR (holders p j) * f j).

Lemma scaled_visible_sum vis m (s h : nat -> R) r :
  visible_sum vis m (fun j => exp (s j - r) * h j) = exp (- r) * visible_sum vis m (fun j => exp (s j) * h j).
Proof.
  unfold visible_sum. rewrite <- Sum_scal_l. apply Sum_ext. intros j _. destruct (vis j); [|ring].
  unfold Rminus. rewrite exp_plus. ring.
Qed.

Lemma visible_sum_ext vis m f g : (forall j, (j < m)%nat -> vis j = true -> f j = g j) ->
  visible_sum vis m f = visible_sum vis m g.
Proof. intro H. apply Sum_ext. intros j Hj. destruct (vis j) eqn:V; auto. Qed.

Lemma visible_sum_plus vis m f g :
  visible_sum vis m (fun j => f j + g j) = visible_sum vis m f + visible_sum vis m g.
Proof. unfold visible_sum. rewrite <- Sum_plus. apply Sum_ext. intros j _. destruct (vis j); ring. Qed.

(** moving a sum from the reference y to r *)
Lemma moved y r z : exp (y - r) * (exp (- y) * z) = exp (- r) * z.
Proof. rewrite <- Rmult_assoc, <- exp_plus. do 2 f_equal. ring. Qed.

Lemma tile_sum vis m (keys : nat -> bool) (s h : nat -> R) r r' :
  visible_sum (fun j => vis j && keys j)%bool m (fun j => exp (s j - r) * h j) =
  exp (- r) * held_sum vis m (Tile keys r') (fun j => exp (s j) * h j).
Proof.
  rewrite scaled_visible_sum. f_equal. apply Sum_ext. intros j _. simpl.
  destruct (vis j), (keys j); simpl; ring.
Qed.

Lemma merged_sum vis m r p q f :
  held_sum vis m (Merge r p q) f = held_sum vis m p f + held_sum vis m q f.
Proof.
  unfold held_sum. rewrite <- visible_sum_plus. apply Sum_ext. intros j _. simpl. rewrite plus_INR.
  destruct (vis j); ring.
Qed.

Lemma unweighted vis m f : visible_sum vis m f = visible_sum vis m (fun j => f j * 1).
Proof. apply Sum_ext. intros. now rewrite Rmult_1_r. Qed.

(** what a state stands for *)
Lemma follow_stands vis m s v p :
  mass (follow vis m s v p) = exp (- reference (follow vis m s v p)) * held_sum vis m p (fun j => exp (s j) * 1) /\
  forall c, output (follow vis m s v p) c =
    exp (- reference (follow vis m s v p)) * held_sum vis m p (fun j => exp (s j) * v j c).
Proof.
  induction p as [keys r|r p [Mp Op] q [Mq Oq]]; cbn [follow].
  - split; [|intro c]; cbn [tile_state mass output reference]; [rewrite unweighted|]; apply tile_sum.
  - split; [|intro c]; cbn [merge mass output reference]; rewrite merged_sum, ?Mp, ?Mq, ?Op, ?Oq, !moved; ring.
Qed.

Lemma held_once vis m p f : (forall j, (j < m)%nat -> vis j = true -> holders p j = 1%nat) ->
  held_sum vis m p f = visible_sum vis m f.
Proof. intro H. apply visible_sum_ext. intros j Hj V. rewrite H by trivial. simpl. ring. Qed.

Theorem softmax_shift_invariance_order : forall vis m s v p q,
  (forall j, (j < m)%nat -> vis j = true -> holders p j = holders q j) ->
  let x := follow vis m s v p in
  let y := follow vis m s v q in
  exp (reference x) * mass x = exp (reference y) * mass y /\
  forall c, exp (reference x) * output x c = exp (reference y) * output y c.
Proof.
  intros vis m s v p q H x y.
  destruct (follow_stands vis m s v p) as [Mp Op], (follow_stands vis m s v q) as [Mq Oq].
  fold x in Mp, Op. fold y in Mq, Oq.
  assert (forall r z, exp r * (exp (- r) * z) = z) as E.
  { intros. rewrite <- Rmult_assoc, <- exp_plus, Rplus_opp_r, exp_0. ring. }
  assert (forall f, held_sum vis m p f = held_sum vis m q f) as S.
  { intro f. apply visible_sum_ext. intros j Hj V. now rewrite H. }
  split; [|intro c]; [rewrite Mp, Mq|rewrite Op, Oq]; now rewrite !E, S.
Qed.

Theorem softmax_shift_invariance_online : forall vis m s v p c,
  (forall j, (j < m)%nat -> vis j = true -> holders p j = 1%nat) ->
  output (follow vis m s v p) c / mass (follow vis m s v p) = context m (softmax vis m s) v c.
Proof.
  intros vis m s v p c H. destruct (follow_stands vis m s v p) as [M O]. rewrite M, O, !held_once, <- unweighted by trivial.
  pose proof (exp_pos (- reference (follow vis m s v p))) as Q.
  destruct (nonempty_or_not vis m) as [NE|E].
  - pose proof (mass_pos vis m s NE) as P. change (context m (softmax vis m s) v c) with (mean m (softmax vis m s) (fun j => v j c)).
    rewrite mean_softmax by trivial. field. lra.
  - assert (visible_sum vis m (fun j => exp (s j) * v j c) = 0) as ->.
    { apply Sum_zero. intros j Hj. now rewrite E. }
    unfold context. rewrite Sum_zero; [unfold Rdiv; ring|]. intros j Hj. rewrite softmax_masked by auto. ring.
Qed.

Theorem softmax_shift_invariance_log_mass : forall vis m s v p j, (j < m)%nat -> vis j = true ->
  (forall j, (j < m)%nat -> vis j = true -> holders p j = 1%nat) ->
  exp (s j - log_mass (follow vis m s v p)) = softmax vis m s j.
Proof.
  intros vis m s v p j Hj V H. destruct (follow_stands vis m s v p) as [M _]. rewrite held_once, <- unweighted in M by trivial.
  pose proof (mass_pos vis m s (visible_nonempty _ _ _ Hj V)) as P. rewrite softmax_visible by trivial. unfold log_mass.
  set (x := follow vis m s v p) in *. pose proof (exp_pos (- reference x)) as Q.
  replace (s j - (reference x + ln (mass x))) with (s j + (- reference x + - ln (mass x))) by ring.
  rewrite !exp_plus, (exp_Ropp (ln (mass x))), exp_ln by (rewrite M; now apply Rmult_lt_0_compat).
  rewrite M. field. lra.
Qed.

Theorem attention_routing_law_online : forall d vis m s v u p j, (j < m)%nat -> vis j = true ->
  (forall j, (j < m)%nat -> vis j = true -> holders p j = 1%nat) ->
  let x := follow vis m s v p in
  exp (s j - log_mass x) * (dot d u (v j) - dot d u (fun c => output x c / mass x)) =
  score_gradient m (softmax vis m s) (compatibility d u v) j.
Proof.
  intros d vis m s v u p j Hj V H x. unfold x. rewrite softmax_shift_invariance_log_mass by trivial.
  unfold score_gradient. rewrite attention_delta_identity. unfold compatibility. do 2 f_equal.
  apply dot_ext; [reflexivity|]. intros c _. now apply softmax_shift_invariance_online.
Qed.
