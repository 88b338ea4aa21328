(** Negative results by verified witnesses: feedback reverses, and the attention pair is no EM. *)

From Bayesgrad Require Export Em Projections.

(** ** Reversal of the feedback *)

Theorem dynamics_feedback_reversal :
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
Proof.
  intros vis s v W_O t a u stepped dA.
  assert (a 0%nat 0%nat = 2 / 3 /\ a 0%nat 1%nat = 1 / 3 /\ a 1%nat 0%nat = 3 / 4 /\ a 1%nat 1%nat = 1 / 4)
    as (a00 & a01 & a10 & a11).
  { unfold a, weights, softmax, normalise, visible_sum, vis, every, s; simpl. rewrite !exp_ln, exp_0 by lra.
    repeat split; field. }
  assert (forall i c, (c < 2)%nat -> softmax every 2 (affine 1 (contexts vis 2 s v) W_O (fun _ => 0) i) c = 1 / 2) as P.
  { intros i c Hc. rewrite (softmax_ext every 2 (fun _ => 0)); trivial.
    - unfold softmax, normalise, visible_sum, every; simpl. rewrite exp_0. field.
    - intros k _ _. unfold affine, contexts, context, v; simpl. ring. }
  assert (u 0%nat 0%nat = 1) as u0.
  { unfold u, back_through, residual, logit_gradient. simpl. rewrite !P by lia. unfold t, delta, W_O; simpl. field. }
  assert (u 1%nat 0%nat = -1) as u1.
  { unfold u, back_through, residual, logit_gradient. simpl. rewrite !P by lia. unfold t, delta, W_O; simpl. field. }
  split; [auto|]. intro eta.
  split; unfold dA, stepped; rewrite advantage_step; unfold mean, feedback, dot; cbn [Sum];
    rewrite ?a00, ?a01, ?a10, ?a11, ?u0, ?u1; field.
Qed.

(** ** No monotonicity *)

(** the loss of logits (0, y, -y) with label 0, and the probability of the second class minus that of the third *)
Definition witness_loss (y : R) : R := ln (1 + exp y + exp (- y)).
Definition witness_slope (y : R) : R := (exp y - exp (- y)) / (1 + exp y + exp (- y)).

Lemma witness_mass_pos y : 0 < 1 + exp y + exp (- y).
Proof. pose proof (exp_pos y). pose proof (exp_pos (- y)). lra. Qed.

(** the loss grows with |y| *)
Lemma witness_loss_increasing x y : 0 <= x -> x < y -> witness_loss x < witness_loss y.
Proof.
  intros Hx H. apply ln_increasing; [apply witness_mass_pos|].
  pose proof (exp_increasing x y H) as I. pose proof (exp_pos x) as Px. pose proof (exp_pos y) as Py.
  rewrite !exp_Ropp. set (X := exp x) in *. set (Y := exp y) in *.
  assert (1 <= X) as X1 by (unfold X; rewrite <- exp_0; destruct Hx as [Hx|<-];
    [left; now apply exp_increasing|right; reflexivity]).
  assert (X + / X < Y + / Y); [|lra].
  assert (Y + / Y - (X + / X) = (Y - X) * (X * Y - 1) / (X * Y)) as E by (field; lra).
  assert (1 < X * Y).
  { apply Rlt_le_trans with (1 * Y); [lra|]. apply Rmult_le_compat_r; lra. }
  assert (0 < (Y - X) * (X * Y - 1) / (X * Y)); [|lra].
  apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; lra|apply Rmult_lt_0_compat; lra].
Qed.

Lemma witness_loss_even y : witness_loss (- y) = witness_loss y.
Proof. unfold witness_loss. f_equal. rewrite Ropp_involutive. ring. Qed.

(** exp x >= (1 + x/8)^8 *)
Lemma exp_lower x : 0 <= x -> (1 + x / 8) ^ 8 <= exp x.
Proof.
  intro H. replace x with (x / 8 + x / 8 + x / 8 + x / 8 + x / 8 + x / 8 + x / 8 + x / 8) at 2 by field.
  rewrite !exp_plus.
  assert (1 + x / 8 <= exp (x / 8)) as E.
  { destruct (Req_dec (x / 8) 0) as [Z|Z]; [rewrite Z, exp_0; lra|left; now apply exp_ineq1]. }
  assert (0 <= 1 + x / 8) as P by lra.
  replace (exp (x / 8) * exp (x / 8) * exp (x / 8) * exp (x / 8) * exp (x / 8) * exp (x / 8) * exp (x / 8) *
    exp (x / 8)) with (exp (x / 8) ^ 8) by (simpl; ring).
  apply pow_incr. lra.
Qed.

Lemma exp_weakly_increasing x y : x <= y -> exp x <= exp y.
Proof. intros [H| ->]; [left; now apply exp_increasing|right; reflexivity]. Qed.

Lemma witness_slope_bounds y : 0 < y -> 0 < witness_slope y < 1.
Proof.
  intro H. pose proof (witness_mass_pos y) as P. pose proof (exp_increasing (- y) y ltac:(lra)) as I.
  pose proof (exp_pos (- y)) as Q. unfold witness_slope. split.
  - apply Rdiv_lt_0_compat; lra.
  - apply (Rmult_lt_reg_r (1 + exp y + exp (- y))); [trivial|]. unfold Rdiv.
    rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma witness_slope_lower y : 1 / 2 <= y -> 3 / 10 <= witness_slope y.
Proof.
  intro H. pose proof (witness_mass_pos y) as P. unfold witness_slope.
  apply (Rmult_le_reg_r (1 + exp y + exp (- y))); [trivial|].
  unfold Rdiv at 2. rewrite Rmult_assoc, Rinv_l by lra.
  assert (8 / 5 <= exp y) as E.
  { apply Rle_trans with (exp (1 / 2)); [|now apply exp_weakly_increasing].
    apply Rle_trans with ((1 + 1 / 2 / 8) ^ 8); [simpl; lra|]. apply exp_lower. lra. }
  assert (exp (- y) <= 5 / 8) as F.
  { rewrite exp_Ropp. replace (5 / 8) with (/ (8 / 5)) by field. apply Rinv_le_contravar; lra. }
  lra.
Qed.

Section Witness.
  Variables (w : R).
  Let W_O := fun _ c : nat => if Nat.eqb c 0 then 0 else if Nat.eqb c 1 then w else - w.
  Let t := fun _ c : nat => delta c 0.

  Lemma witness_logits g c : affine 1 g W_O (fun _ => 0) 0 c = g 0%nat 0%nat * W_O 0%nat c.
  Proof. unfold affine. simpl. ring. Qed.

  Lemma witness_softmax g :
    let y := w * g 0%nat 0%nat in
    let p := softmax every 3 (affine 1 g W_O (fun _ => 0) 0%nat) in
    p 0%nat = 1 / (1 + exp y + exp (- y)) /\ p 1%nat = exp y / (1 + exp y + exp (- y)) /\
    p 2%nat = exp (- y) / (1 + exp y + exp (- y)).
  Proof.
    intros y p. unfold p, softmax, normalise, visible_sum, every. cbn [Sum]. rewrite !witness_logits.
    unfold W_O; simpl.
    replace (g 0%nat 0%nat * 0) with 0 by ring. replace (g 0%nat 0%nat * w) with y by (unfold y; ring).
    replace (g 0%nat 0%nat * - w) with (- y) by (unfold y; ring). rewrite exp_0.
    pose proof (witness_mass_pos y). repeat split; field; lra.
  Qed.

  Lemma witness_total_loss g :
    total_loss 1 3 t (affine 1 g W_O (fun _ => 0)) = witness_loss (w * g 0%nat 0%nat).
  Proof.
    destruct (witness_softmax g) as (E & _ & _). cbv zeta in E.
    unfold total_loss, cross_entropy. cbn [Sum]. rewrite E. unfold t, delta; simpl.
    unfold witness_loss. pose proof (witness_mass_pos (w * g 0%nat 0%nat)).
    unfold Rdiv. rewrite !Rmult_1_l, ln_Rinv by trivial. ring.
  Qed.

  Lemma witness_upstream g :
    back_through 3 (residual 3 t (affine 1 g W_O (fun _ => 0)) 0%nat) W_O 0%nat =
    w * witness_slope (w * g 0%nat 0%nat).
  Proof.
    destruct (witness_softmax g) as (E0 & E1 & E2). cbv zeta in *.
    unfold back_through, residual, logit_gradient. cbn [Sum]. rewrite E0, E1, E2.
    unfold t, delta, W_O; simpl. unfold witness_slope. pose proof (witness_mass_pos (w * g 0%nat 0%nat)). field. lra.
  Qed.
End Witness.

(** two keys: the context in terms of the ratio of the two weights *)
Lemma two_key_context s v : contexts (fun _ => every) 2 s v 0%nat 0%nat =
  (v 0%nat 0%nat + exp (s 0%nat 1%nat - s 0%nat 0%nat) * v 1%nat 0%nat) / (1 + exp (s 0%nat 1%nat - s 0%nat 0%nat)).
Proof.
  unfold contexts, context, weights, softmax, normalise, visible_sum, every; simpl.
  unfold Rminus. rewrite exp_plus, exp_Ropp. pose proof (exp_pos (s 0%nat 0%nat)). pose proof (exp_pos (s 0%nat 1%nat)).
  field. lra.
Qed.

(** with T >= 3 and V >= 4 the context is thrown beyond -1 *)
Lemma thrown_far x V T : x < 1 -> 4 <= V -> 3 <= T -> (x + V + T * (x - V)) / (1 + T) < -1.
Proof.
  intros Hx HV HT. apply (Rmult_lt_reg_r (1 + T)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
  assert (0 <= (V - 4) * (T - 3)) by (apply Rmult_le_pos; lra).
  assert (0 < (1 - x) * (1 + T)) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

(** the losses along the path of the two steps, for any head with w v_0 = 1 + V and w v_1 = 1 - V: from 1 the value step
    takes the logit to x, and a routing step that favours key 2 by a factor T throws it to (x + V + T (x - V))/(1 + T) *)
Lemma witness_path eta w V (v : nat -> nat -> R) :
  w * v 0%nat 0%nat = 1 + V -> w * v 1%nat 0%nat = 1 - V ->
  let W_O := fun _ c : nat => if Nat.eqb c 0 then 0 else if Nat.eqb c 1 then w else - w in
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
  let x := 1 - eta * w * w * witness_slope 1 / 2 in
  let thrown := fun e => (x + V + exp e * (x - V)) / (1 + exp e) in
  L s v = witness_loss 1 /\ L s v' = witness_loss x /\
  L plain v' = witness_loss (thrown (eta * (V * witness_slope x))) /\
  L natural v' = witness_loss (thrown (2 * (eta * (V * witness_slope x)))).
Proof.
  intros wv0 wv1 W_O t z L u s a v' b plain natural x thrown.
  set (g := fun s v => contexts (fun _ => every) 2 s v 0%nat 0%nat).
  assert (forall s v, L s v = witness_loss (w * g s v)) as HL by (intros; apply witness_total_loss).
  assert (forall s v, u s v 0%nat 0%nat = w * witness_slope (w * g s v)) as Hu by (intros; apply witness_upstream).
  assert (a 0%nat 0%nat = 1 / 2 /\ a 0%nat 1%nat = 1 / 2) as [a0 a1].
  { unfold a, weights, softmax, normalise, visible_sum, every, s; simpl. rewrite exp_0. split; field. }
  assert (forall r v, w * g r v = (w * v 0%nat 0%nat + exp (r 0%nat 1%nat - r 0%nat 0%nat) * (w * v 1%nat 0%nat)) /
                                  (1 + exp (r 0%nat 1%nat - r 0%nat 0%nat))) as Hg.
  { intros r y. unfold g. rewrite two_key_context. pose proof (exp_pos (r 0%nat 1%nat - r 0%nat 0%nat)). field. lra. }
  assert (w * g s v = 1) as C0.
  { rewrite Hg, wv0, wv1. unfold s. replace (0 - 0) with 0 by ring. rewrite exp_0. field. }
  assert (forall j, (j < 2)%nat -> w * v' j 0%nat = w * v j 0%nat - (1 - x)) as Hv'.
  { intros j Hj. unfold v', value_gradient. cbn [Sum]. rewrite Hu, C0. unfold x.
    destruct j as [|[|]]; [rewrite a0; field|rewrite a1; field|lia]. }
  assert (w * v' 0%nat 0%nat = x + V) as v0 by (rewrite Hv', wv0 by lia; ring).
  assert (w * v' 1%nat 0%nat = x - V) as v1 by (rewrite Hv', wv1 by lia; ring).
  assert (w * g s v' = x) as C1.
  { rewrite Hg, v0, v1. unfold s. replace (0 - 0) with 0 by ring. rewrite exp_0. field. }
  assert (forall j, b 0%nat j = witness_slope x * (w * v' j 0%nat)) as Hb.
  { intro j. unfold b, compatibility, dot. cbn [Sum]. rewrite Hu, C1. ring. }
  assert (forall r, L r v' = witness_loss (thrown (r 0%nat 1%nat - r 0%nat 0%nat))) as Thrown.
  { intro r. now rewrite HL, Hg, v0, v1. }
  split; [now rewrite HL, C0|]. split; [now rewrite HL, C1|]. split; rewrite Thrown; do 2 f_equal.
  - unfold plain, score_gradient, mean, s. cbn [Sum]. rewrite a0, a1, !Hb, v0, v1. field.
  - unfold natural, s. rewrite !Hb, v0, v1. ring.
Qed.

Theorem em_not_variational : forall eta, 0 < eta ->
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
Proof.
  intros eta He.
  set (w := / (1 + eta)). set (V := Rmax 4 (4 / eta)).
  assert (0 < w) as Hw by (apply Rinv_0_lt_compat; lra).
  assert (0 < eta * w * w <= 1) as Hew.
  { split; [repeat apply Rmult_lt_0_compat; trivial|]. unfold w.
    apply (Rmult_le_reg_r ((1 + eta) * (1 + eta))); [apply Rmult_lt_0_compat; lra|].
    replace (eta * / (1 + eta) * / (1 + eta) * ((1 + eta) * (1 + eta))) with eta by (field; lra).
    pose proof (Rle_0_sqr eta) as S. unfold Rsqr in S. lra. }
  assert (4 <= V) as HV by apply Rmax_l.
  assert (4 <= eta * V) as HeV.
  { replace 4 with (eta * (4 / eta)) by (field; lra). apply Rmult_le_compat_l; [lra|]. apply Rmax_r. }
  exists (fun _ c => if Nat.eqb c 0 then 0 else if Nat.eqb c 1 then w else - w).
  exists (fun j _ => if Nat.eqb j 0 then (1 + V) / w else (1 - V) / w).
  intros t z L u s a v' b plain natural.
  set (v := fun j _ : nat => if Nat.eqb j 0 then (1 + V) / w else (1 - V) / w) in *.
  destruct (witness_path eta w V v) as (L0 & L1 & Lp & Ln).
  { unfold v; simpl. field. lra. }
  { unfold v; simpl. field. lra. }
  set (x := 1 - eta * w * w * witness_slope 1 / 2) in *.
  assert (1 / 2 < x < 1) as Hx.
  { pose proof (witness_slope_bounds 1 ltac:(lra)) as B1. unfold x.
    assert (0 < eta * w * w * witness_slope 1) by (apply Rmult_lt_0_compat; lra).
    assert (eta * w * w * witness_slope 1 < 1); [|lra].
    apply Rle_lt_trans with (1 * witness_slope 1); [|lra]. apply Rmult_le_compat_r; lra. }
  pose proof (witness_slope_lower x ltac:(lra)) as Low.
  assert (6 / 5 <= eta * (V * witness_slope x)) as Big.
  { rewrite <- Rmult_assoc. apply Rle_trans with (4 * (3 / 10)); [lra|]. apply Rmult_le_compat; lra. }
  (* an exponent of 6/5 suffices to throw the logit beyond -1 *)
  assert (forall e, 6 / 5 <= e -> witness_loss 1 < witness_loss ((x + V + exp e * (x - V)) / (1 + exp e))) as Rise.
  { intros e H. assert (3 <= exp e) as HT.
    { apply Rle_trans with (exp (6 / 5)); [|now apply exp_weakly_increasing].
      apply Rle_trans with ((1 + 6 / 5 / 8) ^ 8); [simpl; lra|]. apply exp_lower. lra. }
    pose proof (thrown_far x V (exp e) ltac:(lra) HV HT) as F. rewrite <- (witness_loss_even (_ / _)).
    apply witness_loss_increasing; lra. }
  assert (L s v = witness_loss 1) as E0 by exact L0. assert (L s v' = witness_loss x) as E1 by exact L1.
  split; [|split].
  - rewrite E0, E1. apply witness_loss_increasing; lra.
  - rewrite E0. eapply Rlt_le_trans; [|right; symmetry; exact Lp]. apply Rise. lra.
  - rewrite E0. eapply Rlt_le_trans; [|right; symmetry; exact Ln]. apply Rise. lra.
Qed.
