(** bayesgrad's own sweep, tile of queries by tile of queries, with centred values and only the keys that a tile can
    see, computes what the dense formulas define. *)

From Bayesgrad Require Export Projections.

Lemma sees_nonempty vis m : sees vis m = true <-> nonempty vis m.
Proof.
  induction m as [|m IH]; simpl; [split; [discriminate|intros (j & Hj & _); lia]|].
  rewrite Bool.orb_true_iff, IH. split.
  - intros [(j & Hj & V)|V]; [exists j|exists m]; split; trivial; lia.
  - intros (j & Hj & V). destruct (Nat.eq_dec j m) as [->|]; [now right|]. left. exists j. split; [lia|trivial].
Qed.

Lemma sees_not vis m : sees vis m = false -> forall j, (j < m)%nat -> vis j = false.
Proof.
  intros E j Hj. destruct (vis j) eqn:V; [|reflexivity]. exfalso.
  enough (sees vis m = true) by congruence. apply sees_nonempty. exists j. auto.
Qed.

Lemma Sum_shorten k m f : (k <= m)%nat -> (forall j, (k <= j < m)%nat -> f j = 0) -> Sum m f = Sum k f.
Proof.
  intros L H. induction m as [|m IH]; [now replace k with 0%nat by lia|].
  destruct (Nat.eq_dec k (S m)) as [->|D]; [reflexivity|]. simpl. rewrite IH, H by (intros; try apply H; lia). ring.
Qed.

(** ** One row, of whose keys only the first [limit] are looked at *)

Section Row.
Variables (vis : nat -> bool) (m limit : nat) (s : nat -> R).
Hypothesis inside : (limit <= m)%nat.
Hypothesis enough_keys : forall j, (j < m)%nat -> vis j = true -> (j < limit)%nat.

Lemma hidden_beyond j : (limit <= j < m)%nat -> vis j = false.
Proof. intro H. destruct (vis j) eqn:V; [|reflexivity]. pose proof (enough_keys j ltac:(lia) V). lia. Qed.

Lemma visible_sum_shorten f : visible_sum vis m f = visible_sum vis limit f.
Proof. apply Sum_shorten; trivial. intros j Hj. now rewrite hidden_beyond. Qed.

Lemma softmax_shorten j : softmax vis limit s j = softmax vis m s j.
Proof. unfold softmax, normalise. now rewrite visible_sum_shorten. Qed.

Lemma weighted_shorten f : Sum m (fun j => softmax vis m s j * f j) = Sum limit (fun j => softmax vis limit s j * f j).
Proof.
  rewrite (Sum_shorten limit m); trivial.
  - apply Sum_ext. intros. now rewrite softmax_shorten.
  - intros j Hj. rewrite softmax_masked by now apply hidden_beyond. ring.
Qed.

Lemma empty_weights : sees vis limit = false -> forall j, (j < m)%nat -> softmax vis m s j = 0.
Proof.
  intros E j Hj. apply softmax_masked. destruct (Nat.lt_ge_cases j limit); [now apply (sees_not vis limit)|].
  apply hidden_beyond. lia.
Qed.

Lemma weights_sum : sees vis limit = true -> Sum limit (softmax vis limit s) = 1.
Proof. intro E. apply softmax_sum. now apply sees_nonempty. Qed.

Lemma centred_context v centre c : sees vis limit = true ->
  context limit (softmax vis limit s) (fun j c => v j c - centre c) c = context m (softmax vis m s) v c - centre c.
Proof.
  intro E. unfold context. rewrite weighted_shorten.
  rewrite (Sum_ext limit _ (fun j => softmax vis limit s j * v j c - softmax vis limit s j * centre c))
    by (intros; ring).
  rewrite Sum_minus, Sum_scal_r, weights_sum by trivial. ring.
Qed.

Lemma swept_context_dense v centre c : swept_context vis limit s v centre c = context m (softmax vis m s) v c.
Proof.
  unfold swept_context. destruct (sees vis limit) eqn:E; [rewrite centred_context by trivial; ring|].
  symmetry. apply Sum_zero. intros j Hj. rewrite empty_weights by trivial. ring.
Qed.

Lemma swept_score_gradient_dense d v centre u j : (j < limit)%nat ->
  swept_score_gradient d vis limit s v centre u j = score_gradient m (softmax vis m s) (compatibility d u v) j.
Proof.
  intro Hj. unfold swept_score_gradient. destruct (sees vis limit) eqn:E.
  - set (a := softmax vis limit s).
    assert (forall k, a k * (dot d u (fun c => v k c - centre c) - dot d u (context limit a (fun j c => v j c - centre c))) =
            a k * compatibility d u v k - a k * mean m (softmax vis m s) (compatibility d u v)) as First.
    { intro k. rewrite (dot_ext d u u (context limit a _) (fun c => context m (softmax vis m s) v c - centre c))
        by (trivial; intros; now apply centred_context).
      rewrite !dot_minus_r, attention_delta_identity. unfold compatibility. ring. }
    rewrite First, (Sum_ext limit _ _ (fun k _ => First k)), Sum_minus, Sum_scal_r.
    unfold a. rewrite weights_sum by trivial.
    rewrite <- (weighted_shorten (compatibility d u v)), softmax_shorten. unfold score_gradient, mean. ring.
  - unfold score_gradient. rewrite softmax_shorten, empty_weights by (trivial; lia). ring.
Qed.
End Row.

(** ** The tiles *)

Lemma Sum_append n k f : Sum (n + k) f = Sum n f + Sum k (fun e => f (n + e)%nat).
Proof.
  induction k as [|k IH]; simpl; [rewrite Nat.add_0_r; ring|]. rewrite Nat.add_succ_r. simpl. rewrite IH. ring.
Qed.

(** what is the same in every tile adds up to the sum over all rows *)
Lemma swept_Sum tiles f F : forall start,
  (forall stop i, (start <= i < stop)%nat -> (i < start + List.fold_right Nat.add 0%nat tiles)%nat -> f stop i = F i) ->
  swept start tiles f = Sum (List.fold_right Nat.add 0%nat tiles) (fun e => F (start + e)%nat).
Proof.
  induction tiles as [|size rest IH]; intros start H; simpl; [reflexivity|]. rewrite Sum_append. f_equal.
  - apply Sum_ext. intros e He. apply H; simpl; lia.
  - rewrite IH.
    + apply Sum_ext. intros. f_equal. lia.
    + intros stop i Hi L. apply H; simpl; lia.
Qed.

Theorem attention_projection_laws_sweep :
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
Proof.
  intros m dk d C vis scale q k bias v centre W_O c_O t tiles limit L E n s a g r u G g' r' u' a' G' key.
  assert (forall stop i c, (i < stop)%nat -> g' stop i c = g i c) as Eg.
  { intros stop i c Hi. apply swept_context_dense; [apply L|]. intros j Hj V. now apply (E stop i). }
  assert (forall stop i c, (i < stop)%nat -> affine d (g' stop) W_O c_O i c = affine d g W_O c_O i c) as Ez.
  { intros. apply affine_ext; auto. }
  assert (forall stop i, (i < stop)%nat -> affine d (g' stop) W_O c_O i = affine d g W_O c_O i) as Ez'.
  { intros. apply FunctionalExtensionality.functional_extensionality. intro c. now apply Ez. }
  assert (forall stop i c, (i < stop)%nat -> r' stop i c = r i c) as Er.
  { intros. unfold r', r, residual. now rewrite Ez'. }
  assert (forall stop i, (i < stop)%nat -> forall j, (j < m)%nat -> vis i j = true -> (j < limit stop)%nat) as Ei.
  { intros stop i Hi j Hj V. now apply (E stop i). }
  assert (forall stop i c, (i < stop)%nat -> sees (vis i) (limit stop) = true -> u' stop i c = u i c) as Eu.
  { intros stop i c Hi S. unfold u', u. rewrite S. unfold back_through. apply Sum_ext. intros. now rewrite Er. }
  assert (forall stop i j, (i < stop)%nat -> a' stop i j = a i j) as Ea.
  { intros stop i j Hi. apply softmax_shorten; [apply L|now apply Ei]. }
  assert (forall stop i j, (i < stop)%nat -> (j < limit stop)%nat -> G' stop i j = G i j) as EG.
  { intros stop i j Hi Hj. unfold G'. rewrite (swept_score_gradient_dense (vis i) m (limit stop)) by first [apply L|trivial; now apply Ei].
    unfold G, a, weights. pose proof (L stop) as Ls. destruct (sees (vis i) (limit stop)) eqn:S.
    - apply score_gradient_ext; try lia; auto. intros. apply dot_ext; auto.
    - unfold score_gradient. rewrite (empty_weights (vis i) m (limit stop)) by first [now apply Ei|trivial; lia]. ring. }
  assert (forall stop i j, (i < stop)%nat -> (limit stop <= j < m)%nat -> a i j = 0) as Beyond.
  { intros stop i j Hi Hj. apply softmax_masked. now apply (hidden_beyond (vis i) m (limit stop) (L stop) (Ei stop i Hi)). }
  assert (forall f F, (forall stop i, (i < stop)%nat -> f stop i = F i) -> swept 0 tiles f = Sum n F) as All.
  { intros f F H. rewrite (swept_Sum tiles f F); [reflexivity|]. intros stop i Hi _. apply H. lia. }
  repeat split.
  - apply All. intros stop i Hi. now rewrite Ez'.
  - intros i stop c Hi. unfold query_gradient. f_equal. rewrite (Sum_shorten (limit stop) m); auto.
    + apply Sum_ext. intros j Hj. now rewrite EG.
    + intros j Hj. unfold G, score_gradient. rewrite (Beyond stop) by trivial. ring.
  - intros j c Hj. unfold key_gradient. rewrite <- Sum_scal_l. apply All. intros stop i Hi. unfold key.
    destruct (Nat.ltb_spec j (limit stop)) as [B|B]; [now rewrite EG|].
    unfold G, score_gradient. rewrite (Beyond stop) by (trivial; lia). ring.
  - intros j c Hj. unfold value_gradient. apply All. intros stop i Hi. unfold key.
    destruct (Nat.ltb_spec j (limit stop)) as [B|B]; [|rewrite (Beyond stop) by (trivial; lia); ring].
    rewrite Ea by trivial. destruct (sees (vis i) (limit stop)) eqn:S; [now rewrite Eu|].
    unfold a, weights. rewrite (empty_weights (vis i) m (limit stop)) by first [now apply Ei|trivial]. ring.
  - intros e c. apply All. intros stop i Hi. now rewrite Eg, Er.
  - intro c. apply All. intros stop i Hi. now apply Er.
Qed.
