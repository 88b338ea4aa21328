(** The feedback when the upstream gradient moves with the read-out's logits. *)

From Bayesgrad Require Export Projections Dynamics.

Lemma fisher_symmetric a j k : fisher a j k = fisher a k j.
Proof.
  unfold fisher, delta. rewrite (Nat.eqb_sym k j). destruct (Nat.eqb_spec j k) as [->|]; ring.
Qed.

Lemma fisher_column m a x k : (k < m)%nat -> Sum m (fun j => x j * fisher a j k) = a k * (x k - mean m a x).
Proof.
  intro Hk. rewrite <- (fisher_row m a x k Hk). apply Sum_ext. intros j _. rewrite fisher_symmetric. ring.
Qed.

Lemma is_derive_fixed_context m a (V : R -> nat -> nat -> R) (x : R) (dV : nat -> nat -> R) c :
  (forall j, (j < m)%nat -> is_derive (fun y => V y j c) x (dV j c)) ->
  is_derive (fun y => context m a (V y) c) x (context m a dV c).
Proof.
  intro H. apply (is_derive_Sum m (fun y j => a j * V y j c)). intros j Hj. apply is_derive_scal_R. now apply H.
Qed.

Theorem dynamics_feedback_full :
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
Proof.
  intros m d C a t V W c_O x dV dW dc i j HV HW Hc Hj g z r u p dg dz dr du.
  assert (forall c, (c < C)%nat -> is_derive (fun y => z y i c) x (dz c)) as Hz.
  { intros c Hcc. apply (is_derive_affine d g W c_O x (fun i => context m (a i) dV) dW dc i c).
    - intros e He. apply is_derive_fixed_context. intros k Hk. now apply HV.
    - intros e He. now apply HW.
    - now apply Hc. }
  assert (forall c, (c < C)%nat -> is_derive (fun y => r y c) x (dr c)) as Hr.
  { intros c Hcc. unfold r, residual, logit_gradient. eapply is_derive_eq.
    - apply (is_derive_plus_R (fun y => Sum C (t i) * softmax every C (z y i) c) (fun _ => - t i c)).
      + apply is_derive_scal_R. apply (is_derive_softmax every C (fun y => z y i) x dz c Hcc). intros k Hk _. now apply Hz.
      + apply is_derive_constant.
    - unfold dr. rewrite (fisher_column C p dz c Hcc). unfold p. ring. }
  assert (forall e, (e < d)%nat -> is_derive (fun y => u y e) x (du e)) as Hu.
  { intros e He. unfold u, du, back_through. rewrite <- Sum_plus.
    apply (is_derive_Sum C (fun y c => r y c * W y e c)). intros c Hcc.
    apply is_derive_R_mult; [now apply Hr|now apply HW]. }
  eapply is_derive_eq.
  - apply (is_derive_dot d u (fun y => V y j) x du (dV j)); [exact Hu|]. intros c Hcc. now apply HV.
  - rewrite (dot_sym d (V x j)). ring.
Qed.

Theorem dynamics_feedback_full_sign :
  let a := fun j => if Nat.eqb j 0 then 2 / 3 else 1 / 3 in
  let v := fun j _ : nat => if Nat.eqb j 0 then -1 else 2 in
  let W_O := fun _ c : nat => if Nat.eqb c 0 then -1 else 1 in
  let t := fun _ c => delta c 0 in
  let u := fun v => back_through 2 (residual 2 t (affine 1 (fun _ => context 2 a v) W_O (fun _ => 0)) 0%nat) W_O in
  let stepped := fun eta j c => v j c - eta * value_gradient 1 (fun _ => a) (fun _ => u v) j c in
  is_derive (fun eta => advantage 2 a (compatibility 1 (u v) (stepped eta)) 0%nat) 0 (1 / 9) /\
  is_derive (fun eta => advantage 2 a (compatibility 1 (u (stepped eta)) (stepped eta)) 0%nat) 0 (- (4 / 9)).
Proof.
  intros a v W_O t u stepped.
  assert (forall c, (c < 2)%nat -> forall s, (forall j, (j < 2)%nat -> s j 0%nat = v j 0%nat) ->
    softmax every 2 (affine 1 (fun _ => context 2 a s) W_O (fun _ => 0) 0%nat) c = 1 / 2) as P.
  { intros c Hc s Hs. rewrite (softmax_ext every 2 (fun _ => 0)); trivial.
    - unfold softmax, normalise, visible_sum, every; simpl. rewrite exp_0. field.
    - intros k _ _. unfold affine, context. cbn [Sum]. rewrite !Hs by lia. unfold a, v; simpl. field. }
  assert (forall s, (forall j, (j < 2)%nat -> s j 0%nat = v j 0%nat) -> u s 0%nat = 1) as U.
  { intros s Hs. unfold u, back_through, residual, logit_gradient. cbn [Sum]. rewrite !P by first [lia|assumption].
    unfold t, delta, W_O; simpl. field. }
  assert (forall eta j, stepped eta j 0%nat = v j 0%nat - eta * a j) as St.
  { intros eta j. unfold stepped, value_gradient. cbn [Sum]. rewrite U by trivial. ring. }
  split.
  - apply (is_derive_ext_R (fun eta => advantage 2 a (compatibility 1 (u v) v) 0%nat + eta * (1 / 9))).
    + intro eta. unfold advantage, mean, compatibility, dot. cbn [Sum]. rewrite !St, !U by trivial. unfold a, v; simpl. field.
    + apply is_derive_line.
  - set (b := fun eta => compatibility 1 (u (stepped eta)) (stepped eta)).
    assert (forall j, (j < 2)%nat -> is_derive (fun eta => b eta j) 0 (- a j - 5 / 9 * v j 0%nat)) as B.
    { intros j Hj. eapply is_derive_eq.
      - apply (dynamics_feedback_full 2 1 2 (fun _ => a) t stepped (fun _ => W_O) (fun _ _ => 0) 0
          (fun j c => - value_gradient 1 (fun _ => a) (fun _ => u v) j c) (fun _ _ => 0) (fun _ => 0) 0 j).
        + intros. apply is_derive_descent.
        + intros. apply is_derive_constant.
        + intros. apply is_derive_constant.
        + exact Hj.
      - assert (forall j, (j < 2)%nat -> stepped 0 j 0%nat = v j 0%nat) as S0 by (intros; rewrite St; ring).
        change (dot 1 (u (stepped 0)) (fun c => - value_gradient 1 (fun _ => a) (fun _ => u v) j c) +
          dot 1 (fun e => back_through 2 (fun c => Sum 2 (t 0%nat) * Sum 2 (fun c' =>
            (Sum 1 (fun e => context 2 a (fun j c => - value_gradient 1 (fun _ => a) (fun _ => u v) j c) e * W_O e c') +
             Sum 1 (fun e => context 2 a (stepped 0) e * 0) + 0) *
            fisher (softmax every 2 (affine 1 (fun _ => context 2 a (stepped 0)) W_O (fun _ => 0) 0%nat)) c' c)) W_O e +
            back_through 2 (residual 2 t (affine 1 (fun _ => context 2 a (stepped 0)) W_O (fun _ => 0)) 0%nat)
              (fun _ _ => 0) e) (stepped 0 j) = - a j - 5 / 9 * v j 0%nat).
        assert (forall c, (c < 2)%nat ->
          softmax every 2 (affine 1 (fun _ => context 2 a (stepped 0)) W_O (fun _ => 0) 0%nat) c = 1 / 2) as Q
          by (intros; now apply P).
        set (q := softmax every 2 (affine 1 (fun _ => context 2 a (stepped 0)) W_O (fun _ => 0) 0%nat)) in *.
        clearbody q.
        unfold dot, back_through, context, value_gradient, fisher. cbn [Sum].
        rewrite !Q by lia. rewrite !U by first [assumption|reflexivity]. rewrite !S0 by lia.
        unfold t, delta, W_O, a, v; simpl. destruct j as [|[|]]; simpl; [field|field|lia]. }
    unfold advantage, mean. cbn [Sum]. eapply is_derive_eq.
    + apply (is_derive_plus_R (fun eta => 0 + a 0%nat * b eta 0%nat + a 1%nat * b eta 1%nat) (fun eta => - b eta 0%nat)).
      * apply is_derive_plus_R; [apply is_derive_plus_R; [apply is_derive_constant|]|]; apply is_derive_scal_R; apply B; lia.
      * apply (is_derive_opp (V := R_NormedModule)). apply B. lia.
    + unfold opp; simpl. unfold a, v; simpl. field.
Qed.
