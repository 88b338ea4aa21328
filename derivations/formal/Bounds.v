(** The saturation bound and frame precision. *)

From Bayesgrad Require Export Attention.

(** a_j (b_j - bbar) = a_j sum_(k != j) a_k (b_j - b_k), so it is at most a_j (1 - a_j) times the range *)
Lemma score_gradient_bound m a b lo hi j : distribution m a -> (j < m)%nat -> lo <= hi ->
  (forall k, (k < m)%nat -> 0 < a k -> lo <= b k <= hi) ->
  Rabs (score_gradient m a b j) <= a j * (1 - a j) * (hi - lo).
Proof.
  intros [N S] Hj Hlh Hb. unfold score_gradient.
  assert (b j - mean m a b = Sum m (fun k => a k * (b j - b k))) as E.
  { rewrite (Sum_ext m _ (fun k => a k * b j - a k * b k)) by (intros; ring).
    rewrite Sum_minus, Sum_scal_r, S. unfold mean. ring. }
  destruct (Req_dec (a j) 0) as [Z|Z].
  - rewrite Z, !Rmult_0_l, Rabs_R0. lra.
  - pose proof (N j Hj) as Nj. assert (0 < a j) as P by lra.
    rewrite Rabs_mult, (Rabs_pos_eq (a j)), Rmult_assoc by lra. apply Rmult_le_compat_l; [lra|].
    rewrite E.
    apply Rle_trans with (Sum m (fun k => if Nat.eqb k j then 0 else a k * (hi - lo))).
    + apply Sum_abs. intros k Hk. destruct (Nat.eqb_spec k j) as [->|D].
      * replace (a j * (b j - b j)) with 0 by ring. rewrite Rabs_R0. lra.
      * pose proof (N k Hk) as Nk. rewrite Rabs_mult, (Rabs_pos_eq (a k)) by trivial.
        destruct (Req_dec (a k) 0) as [Zk|Zk]; [rewrite Zk; lra|].
        apply Rmult_le_compat_l; [lra|]. pose proof (Hb j Hj P). pose proof (Hb k Hk ltac:(lra)).
        apply Rabs_le. lra.
    + right. rewrite (Sum_ext m _ (fun k => a k * (hi - lo) - delta j k * (a k * (hi - lo)))).
      * rewrite Sum_minus, Sum_scal_r, S, Sum_delta by trivial. ring.
      * intros k _. unfold delta. rewrite (Nat.eqb_sym j k). destruct (Nat.eqb k j); ring.
Qed.

Theorem attention_saturation_bound : forall vis m s b lo hi j, (j < m)%nat ->
  (forall k, (k < m)%nat -> vis k = true -> lo <= b k <= hi) ->
  let a := softmax vis m s in
  Rabs (score_gradient m a b j) <= a j * (1 - a j) * (hi - lo).
Proof.
  intros vis m s b lo hi j Hj Hb a. destruct (nonempty_or_not vis m) as [NE|Empty].
  - apply score_gradient_bound; trivial.
    + now apply softmax_distribution.
    + destruct NE as (k & Hk & V). pose proof (Hb k Hk V). lra.
    + intros k Hk P. apply Hb; trivial. destruct (vis k) eqn:E; [reflexivity|].
      unfold a in P. rewrite softmax_masked in P by trivial. lra.
  - unfold a. rewrite attention_routing_law_masked, softmax_masked, Rabs_R0 by auto. lra.
Qed.

Lemma Sum_two m j l f : (j < m)%nat -> (l < m)%nat -> j <> l ->
  (forall k, (k < m)%nat -> k <> j -> k <> l -> f k = 0) -> Sum m f = f j + f l.
Proof.
  intros Hj Hl D H.
  rewrite (Sum_ext m f (fun k => delta j k * f k + delta l k * f k)).
  - now rewrite Sum_plus, !Sum_delta.
  - intros k Hk. destruct (Nat.eq_dec k j) as [->|Dj]; [|destruct (Nat.eq_dec k l) as [->|Dl]].
    + rewrite delta_same, (delta_other l j) by auto. ring.
    + rewrite delta_same, (delta_other j l) by auto. ring.
    + rewrite H by trivial. ring.
Qed.

Theorem attention_saturation_bound_two_keys : forall vis m s b j l, (j < m)%nat -> (l < m)%nat -> j <> l ->
  (forall k, (k < m)%nat -> (vis k = true <-> k = j \/ k = l)) ->
  let a := softmax vis m s in
  Rabs (score_gradient m a b j) = a j * (1 - a j) * Rabs (b j - b l).
Proof.
  intros vis m s b j l Hj Hl D H a.
  assert (nonempty vis m) as NE by (exists j; split; [trivial|apply H; auto]).
  assert (forall k, (k < m)%nat -> k <> j -> k <> l -> a k = 0) as Z.
  { intros k Hk Dj Dl. apply softmax_masked. destruct (vis k) eqn:E; [|reflexivity].
    apply H in E; [|trivial]. destruct E; contradiction. }
  assert (a j + a l = 1) as S.
  { rewrite <- (softmax_sum vis m s NE). symmetry. now apply Sum_two. }
  pose proof (softmax_nonneg vis m s j Hj) as Nj. pose proof (softmax_nonneg vis m s l Hl) as Nl.
  fold a in Nj, Nl. unfold score_gradient, mean.
  rewrite (Sum_two m j l) by (trivial; intros; rewrite Z by trivial; ring).
  replace (a j * (b j - (a j * b j + a l * b l))) with (a j * (1 - a j) * (b j - b l)).
  - rewrite Rabs_mult, (Rabs_pos_eq (a j * (1 - a j))); [reflexivity|]. apply Rmult_le_pos; lra.
  - replace (a l) with (1 - a j) by lra. ring.
Qed.

Theorem dynamics_frame_precision : forall m a b lo hi M j, distribution m a -> (j < m)%nat ->
  (forall k, (k < m)%nat -> a k <= M) -> (exists k, (k < m)%nat /\ a k = M) ->
  (forall k, (k < m)%nat -> 0 < a k -> lo <= b k <= hi) ->
  Rabs (score_gradient m a b j) <= M * (1 - M) * (hi - lo).
Proof.
  intros m a b lo hi M j [N S] Hj HM (top & Ht & Et) Hb.
  assert (0 < M) as MP.
  { destruct (Rle_or_lt M 0) as [L|L]; [|trivial]. exfalso.
    rewrite Sum_zero in S; [lra|]. intros k Hk. pose proof (N k Hk). pose proof (HM k Hk). lra. }
  assert (lo <= hi) as LH by (pose proof (Hb top Ht ltac:(lra)); lra).
  pose proof (score_gradient_bound m a b lo hi j (conj N S) Hj LH Hb) as B.
  eapply Rle_trans; [exact B|]. apply Rmult_le_compat_r; [lra|].
  pose proof (N j Hj) as Nj. pose proof (HM j Hj) as Mj.
  destruct (Nat.eq_dec j top) as [->|D]; [rewrite Et; lra|].
  assert (a j + M <= 1) as T.
  { rewrite <- S, <- Et.
    apply Rle_trans with (Sum m (fun k => delta j k * a k + delta top k * a k)).
    - rewrite Sum_plus, !Sum_delta by trivial. lra.
    - apply Sum_le. intros k Hk. pose proof (N k Hk).
      destruct (Nat.eq_dec k j) as [->|Dj]; [|destruct (Nat.eq_dec k top) as [->|Dt]].
      + rewrite delta_same, (delta_other top j) by auto. lra.
      + rewrite delta_same, (delta_other j top) by auto. lra.
      + rewrite !delta_other by auto. lra. }
  assert (0 <= (M - a j) * (1 - M - a j)) as F by (apply Rmult_le_pos; lra).
  lra.
Qed.

Theorem dynamics_frame_precision_values :
  forall n (a : nat -> nat -> nat -> R) a_other u i j c, (i < n)%nat ->
  is_lim_seq (fun step => a step i j) 1 ->
  (forall step l, (l < n)%nat -> l <> i -> a step l j = a_other l j) ->
  is_lim_seq (fun step => value_gradient n (a step) u j c)
             (u i c + Sum n (fun l => if Nat.eqb l i then 0 else a_other l j * u l c)).
Proof.
  intros n a a_other u i j c Hi L H.
  apply (is_lim_seq_ext (fun step => a step i j * u i c +
    Sum n (fun l => if Nat.eqb l i then 0 else a_other l j * u l c))).
  - intro step. unfold value_gradient.
    rewrite (Sum_ext n (fun l => a step l j * u l c)
      (fun l => delta i l * (a step l j * u l c) + if Nat.eqb l i then 0 else a_other l j * u l c)).
    + now rewrite Sum_plus, Sum_delta.
    + intros l Hl. unfold delta. rewrite (Nat.eqb_sym i l). destruct (Nat.eqb_spec l i) as [->|D]; [ring|].
      rewrite H by trivial. ring.
  - apply is_lim_seq_plus'; [|apply is_lim_seq_const].
    pose proof (is_lim_seq_scal_r _ (u i c) 1 L) as P. simpl in P. rewrite Rmult_1_l in P. exact P.
Qed.
