(** The witness at step size 1 in numbers, by interval arithmetic.

    Interval's tactic is instantiated with floating-point numbers made of whole numbers, so that it needs none of the
    axioms on machine integers and machine floats. *)

From Interval Require Import Tactic Float.Specific_ops Float.Specific_stdz.
From Bayesgrad Require Export Witnesses.

Module WholeNumberFloats := SpecificFloat StdZRadix2.
Module Certified := IntervalTactic WholeNumberFloats.
Import Certified.

Theorem em_not_variational_numbers :
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
Proof.
  intros W_O v t z L u s a v' b plain natural.
  destruct (witness_path 1 1 4 v) as (L0 & L1 & Lp & Ln); [unfold v; simpl; ring|unfold v; simpl; ring|].
  assert (W_O = fun _ c : nat => if Nat.eqb c 0 then 0 else if Nat.eqb c 1 then 1 else - (1)) as EW.
  { apply FunctionalExtensionality.functional_extensionality. intro i.
    apply FunctionalExtensionality.functional_extensionality. intro c. unfold W_O.
    destruct (Nat.eqb c 0), (Nat.eqb c 1); lra. }
  cbv zeta in L0, L1, Lp, Ln. rewrite <- EW in L0, L1, Lp, Ln.
  assert (forall y : R, 1 * y = y) as One by (intro; ring).
  assert (v' = fun j c => v j c - 1 * value_gradient 1 a (u s v) j c) as Ev.
  { apply FunctionalExtensionality.functional_extensionality. intro j.
    apply FunctionalExtensionality.functional_extensionality. intro c. now rewrite One. }
  assert (plain = fun i j => s i j - 1 * score_gradient 2 (a i) (b i) j) as Ep.
  { apply FunctionalExtensionality.functional_extensionality. intro i.
    apply FunctionalExtensionality.functional_extensionality. intro j. now rewrite One. }
  assert (natural = fun i j => s i j - 1 * b i j) as En.
  { apply FunctionalExtensionality.functional_extensionality. intro i.
    apply FunctionalExtensionality.functional_extensionality. intro j. now rewrite One. }
  assert (L s v = witness_loss 1) as -> by exact L0.
  assert (L s v' = witness_loss (1 - 1 * 1 * 1 * witness_slope 1 / 2)) as -> by (rewrite Ev; exact L1).
  rewrite Ep, En. unfold b. rewrite Ev.
  split; [|split; [|split]].
  - unfold witness_loss. interval with (i_prec 40).
  - unfold witness_loss, witness_slope. interval with (i_prec 40).
  - eapply Rle_trans; [right; apply f_equal; apply (f_equal (fun y => y - 2.2359)); exact Lp|]. unfold witness_loss, witness_slope. interval with (i_prec 40).
  - eapply Rle_trans; [right; apply f_equal; apply (f_equal (fun y => y - 3.1035)); exact Ln|]. unfold witness_loss, witness_slope. interval with (i_prec 40).
Qed.
