(** What a revealed part of a random permutation says about the rest: certainty, or symmetry among the unseen. *)

From Coq Require Import List Bool.
From Bayesgrad Require Export Sums.

Definition count {A : Type} (L : list A) (test : A -> bool) : R := sum_where L (fun _ => 1) test.

Lemma sum_where_ext {A} (L : list A) w test test' : (forall l, In l L -> test l = test' l) ->
  sum_where L w test = sum_where L w test'.
Proof.
  induction L as [|l L IH]; intro H; [reflexivity|]. cbn [sum_where].
  rewrite (H l) by (left; reflexivity). rewrite IH; [reflexivity|]. intros; apply H. now right.
Qed.

Lemma sum_where_constant {A} (L : list A) w test x : (forall l, test l = true -> w l = x) ->
  sum_where L w test = x * count L test.
Proof.
  intro H. unfold count. induction L as [|l L IH]; cbn [sum_where]; [ring|]. rewrite IH.
  destruct (test l) eqn:E; [rewrite (H l E)|]; ring.
Qed.

Lemma count_none {A} (L : list A) test : (forall l, In l L -> test l = false) -> count L test = 0.
Proof.
  intro H. unfold count. rewrite (sum_where_ext L _ test (fun _ => false) H).
  induction L as [|l L IH]; cbn [sum_where]; [reflexivity|]. rewrite IH; [ring|]. intros; apply H. now right.
Qed.

Lemma count_nonneg {A} (L : list A) test : 0 <= count L test.
Proof.
  unfold count. induction L as [|l L IH]; cbn [sum_where]; [lra|]. destruct (test l); lra.
Qed.

Lemma count_positive {A} (L : list A) test l : In l L -> test l = true -> 0 < count L test.
Proof.
  unfold count. induction L as [|l' L IH]; intros I T; [contradiction|]. cbn [sum_where].
  destruct I as [->|I].
  - rewrite T. pose proof (count_nonneg L test) as N. unfold count in N. lra.
  - specialize (IH I T). destruct (test l'); lra.
Qed.

Lemma count_permutation {A} (L L' : list A) test : Permutation L L' -> count L test = count L' test.
Proof.
  unfold count. induction 1; cbn [sum_where]; [reflexivity|rewrite IHPermutation; reflexivity|ring|].
  now rewrite IHPermutation1.
Qed.

Lemma count_map {A B} (f : A -> B) (L : list A) test : count (map f L) test = count L (fun l => test (f l)).
Proof. unfold count. induction L as [|l L IH]; cbn; [reflexivity|]. now rewrite IH. Qed.

(** each l has one value below V, so the counts by value add up *)
Lemma count_by_value {A} V (L : list A) test value : (forall l, In l L -> (value l < V)%nat) ->
  Sum V (fun y => count L (fun l => (test l && Nat.eqb (value l) y)%bool)) = count L test.
Proof.
  unfold count. induction L as [|l L IH]; intro H; cbn [sum_where].
  - now apply Sum_zero.
  - rewrite Sum_plus, IH by (intros; apply H; now right). f_equal.
    rewrite (Sum_single V (value l)).
    + rewrite Nat.eqb_refl. now destruct (test l).
    + apply H. now left.
    + intros y _ D. destruct (Nat.eqb_spec (value l) y); [congruence|]. now destruct (test l).
Qed.

(** ** Swapping two values *)

Definition swap (a b v : nat) : nat := if Nat.eqb v a then b else if Nat.eqb v b then a else v.

Lemma swap_involutive a b v : swap a b (swap a b v) = v.
Proof.
  unfold swap. destruct (Nat.eqb_spec v a) as [->|Da].
  - destruct (Nat.eqb_spec b a) as [->|]; [reflexivity|]. now rewrite Nat.eqb_refl.
  - destruct (Nat.eqb_spec v b) as [->|Db].
    + now rewrite Nat.eqb_refl.
    + destruct (Nat.eqb_spec v a); [contradiction|]. destruct (Nat.eqb_spec v b); [contradiction|reflexivity].
Qed.

Lemma swap_injective a b v v' : swap a b v = swap a b v' -> v = v'.
Proof. intro H. rewrite <- (swap_involutive a b v), H. apply swap_involutive. Qed.

Lemma swap_range a b v V : (a < V)%nat -> (b < V)%nat -> (v < V)%nat -> (swap a b v < V)%nat.
Proof. unfold swap. destruct (Nat.eqb v a), (Nat.eqb v b); trivial. Qed.

Lemma map_swap_involutive a b l : map (swap a b) (map (swap a b) l) = l.
Proof. rewrite map_map. rewrite (map_ext _ (fun v => v)) by apply swap_involutive. apply map_id. Qed.

Lemma swapped_permutation a b V l : (a < V)%nat -> (b < V)%nat -> Permutation l (seq 0 V) ->
  Permutation (map (swap a b) l) (seq 0 V).
Proof.
  intros Ha Hb H. apply NoDup_Permutation.
  - apply FinFun.Injective_map_NoDup; [intros v v'; apply swap_injective|].
    apply (Permutation_NoDup (Permutation_sym H)). apply seq_NoDup.
  - apply seq_NoDup.
  - intro v. rewrite in_map_iff, in_seq. split.
    + intros (u & <- & Hu). apply (Permutation_in _ H) in Hu. apply in_seq in Hu.
      pose proof (swap_range a b u V Ha Hb ltac:(lia)). lia.
    + intros [_ Hv]. exists (swap a b v). split; [apply swap_involutive|].
      apply (Permutation_in _ (Permutation_sym H)). apply in_seq.
      pose proof (swap_range a b v V Ha Hb ltac:(lia)). lia.
Qed.

Lemma all_swapped a b V L : (a < V)%nat -> (b < V)%nat -> all_permutations V L ->
  Permutation (map (map (swap a b)) L) L.
Proof.
  intros Ha Hb [N H]. apply NoDup_Permutation; [|exact N|].
  - apply FinFun.Injective_map_NoDup; [|exact N]. intros l l' E.
    rewrite <- (map_swap_involutive a b l), E. apply map_swap_involutive.
  - intro l. rewrite in_map_iff. split.
    + intros (l' & <- & Hl). apply H. apply swapped_permutation; trivial. now apply H.
    + intro Hl. exists (map (swap a b) l). split; [apply map_swap_involutive|].
      apply H. apply swapped_permutation; trivial. now apply H.
Qed.

(** ** Entries of a permutation *)

Lemma entry_range V l k : Permutation l (seq 0 V) -> (k < V)%nat -> (nth k l 0 < V)%nat.
Proof.
  intros H Hk. assert (In (nth k l 0%nat) (seq 0 V)) as I.
  { apply (Permutation_in _ H). apply nth_In. rewrite (Permutation_length H), seq_length. exact Hk. }
  apply in_seq in I. lia.
Qed.

Lemma entries_distinct V l k k' : Permutation l (seq 0 V) -> (k < V)%nat -> (k' < V)%nat ->
  nth k l 0%nat = nth k' l 0%nat -> k = k'.
Proof.
  intros H Hk Hk' E. assert (NoDup l) as N by (apply (Permutation_NoDup (Permutation_sym H)); apply seq_NoDup).
  assert (length l = V) as Len by (rewrite (Permutation_length H); apply seq_length).
  apply (proj1 (NoDup_nth l 0%nat) N); lia.
Qed.

Lemma nth_swapped a b l k : (k < length l)%nat -> nth k (map (swap a b) l) 0%nat = swap a b (nth k l 0%nat).
Proof. intro H. rewrite (nth_indep _ 0%nat (swap a b 0%nat)) by (now rewrite map_length). apply map_nth. Qed.

(** the number of values that the keys show *)
Lemma number_shown V pi0 keys : Permutation pi0 (seq 0 V) -> NoDup keys -> (forall k, In k keys -> (k < V)%nat) ->
  Sum V (fun y => if existsb (fun k => Nat.eqb (nth k pi0 0%nat) y) keys then 1 else 0) = INR (length keys).
Proof.
  intros H N R. induction keys as [|k keys IH].
  - now apply Sum_zero.
  - cbn [existsb length]. rewrite S_INR, <- IH by (try (now inversion N); intros; apply R; now right).
    assert (nth k pi0 0 < V)%nat as Hk by (apply entry_range; trivial; apply R; now left).
    rewrite (Sum_ext V _ (fun y => delta (nth k pi0 0%nat) y * 1 +
      if existsb (fun k => Nat.eqb (nth k pi0 0%nat) y) keys then 1 else 0)).
    + rewrite Sum_plus, (Sum_delta V (nth k pi0 0%nat) (fun _ => 1) Hk). ring.
    + intros y Hy. unfold delta. destruct (Nat.eqb_spec (nth k pi0 0%nat) y) as [<-|D].
      * cbn [orb]. destruct (existsb _ keys) eqn:E; [|ring]. exfalso.
        apply existsb_exists in E. destruct E as (k' & I & E). apply Nat.eqb_eq in E.
        apply (entries_distinct V) in E; trivial; [|apply R; now right|apply R; now left].
        subst. now inversion N.
      * cbn [orb]. ring.
Qed.

Theorem bayes_bijection : forall V L pi0 keys x y (w : list nat -> R),
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
Proof.
  intros V L pi0 keys x y w at_ consistent shown predictive HL H0 N R Hx Hy Pw Hw.
  destruct HL as [NL HL].
  assert (forall l, In l L -> Permutation l (seq 0 V)) as Perm by (intro; apply HL).
  set (C := fun y l => (consistent l && Nat.eqb (at_ l x) y)%bool).
  assert (forall y, predictive y = count L (C y) / count L consistent) as Pred.
  { intro y'. unfold predictive. rewrite (sum_where_constant L w consistent (w pi0)) by trivial.
    fold (C y'). rewrite (sum_where_constant L w (C y') (w pi0)).
    - assert (0 < count L consistent).
      { apply (count_positive L consistent pi0 H0). apply forallb_forall. intros. apply Nat.eqb_refl. }
      field. lra.
    - intros l E. apply Hw. unfold C in E. now apply andb_prop in E. }
  assert (0 < count L consistent) as PN.
  { apply (count_positive L consistent pi0 H0). apply forallb_forall. intros. apply Nat.eqb_refl. }
  assert (forall l, consistent l = true -> forall k, In k keys -> at_ l k = at_ pi0 k) as Cons.
  { intros l E k I. unfold consistent in E. rewrite forallb_forall in E. apply Nat.eqb_eq. now apply E. }
  rewrite Pred. split.
  - intro I. destruct (Nat.eqb_spec y (at_ pi0 x)) as [->|D].
    + assert (count L (C (at_ pi0 x)) = count L consistent) as ->; [|field; lra].
      apply sum_where_ext. intros l _. unfold C. destruct (consistent l) eqn:E; [|reflexivity].
      rewrite (Cons l E x I). apply Nat.eqb_refl.
    + rewrite count_none; [unfold Rdiv; ring|]. intros l _. unfold C. destruct (consistent l) eqn:E; [|reflexivity].
      rewrite (Cons l E x I). cbn [andb]. apply Nat.eqb_neq. congruence.
  - intro NI.
    assert (forall y, shown y = true -> count L (C y) = 0) as Zero.
    { intros y' E. apply existsb_exists in E. destruct E as (k & I & E). apply Nat.eqb_eq in E.
      apply count_none. intros l Hl. unfold C. destruct (consistent l) eqn:El; [|reflexivity]. cbn [andb].
      apply Nat.eqb_neq. intro Ex. apply NI. rewrite <- E, <- (Cons l El k I) in Ex.
      apply (entries_distinct V l x k (Perm l Hl) Hx (R k I)) in Ex. now subst. }
    destruct (shown y) eqn:Sy; [rewrite Zero by trivial; unfold Rdiv; ring|].
    assert (forall y', (y' < V)%nat -> shown y' = false -> count L (C y') = count L (C y)) as Same.
    { intros y' Hy' Sy'. rewrite <- (count_permutation _ _ (C y') (all_swapped y y' V L Hy Hy' (conj NL HL))).
      rewrite count_map. apply sum_where_ext. intros l Hl.
      assert (length l = V) as Len by (rewrite (Permutation_length (Perm l Hl)); apply seq_length).
      assert (forall k, In k keys -> at_ pi0 k <> y /\ at_ pi0 k <> y') as Unseen.
      { intros k I. split; intro E.
        - assert (shown y = true) as T by (apply existsb_exists; exists k; split; [trivial|now apply Nat.eqb_eq]). congruence.
        - assert (shown y' = true) as T by (apply existsb_exists; exists k; split; [trivial|now apply Nat.eqb_eq]). congruence. }
      unfold C. f_equal.
      - unfold consistent. apply eq_true_iff_eq. rewrite !forallb_forall. unfold at_ at 1 3.
        split; intros T k I; specialize (T k I); apply Nat.eqb_eq in T; apply Nat.eqb_eq;
          destruct (Unseen k I) as [U U'].
        + rewrite nth_swapped in T by (rewrite Len; auto). unfold at_ in *. unfold swap in T.
          destruct (Nat.eqb_spec (nth k l 0%nat) y); [congruence|].
          destruct (Nat.eqb_spec (nth k l 0%nat) y'); congruence.
        + rewrite nth_swapped by (rewrite Len; auto). unfold at_ in *. unfold swap. rewrite T.
          destruct (Nat.eqb_spec (nth k pi0 0%nat) y); [congruence|].
          destruct (Nat.eqb_spec (nth k pi0 0%nat) y'); congruence.
      - unfold at_. rewrite nth_swapped by (now rewrite Len). apply eq_true_iff_eq. rewrite !Nat.eqb_eq. unfold swap.
        destruct (Nat.eqb_spec (nth x l 0%nat) y) as [E|E]; [split; congruence|].
        destruct (Nat.eqb_spec (nth x l 0%nat) y') as [E'|E']; split; congruence. }
    pose proof (count_by_value V L consistent (fun l => at_ l x)) as Total.
    assert (length keys <= V)%nat as Le.
    { rewrite <- (seq_length V 0). apply NoDup_incl_length; [trivial|]. intros k I. apply in_seq. specialize (R k I). lia. }
    rewrite minus_INR by trivial.
    assert (count L consistent = (INR V - INR (length keys)) * count L (C y)) as Eq.
    { rewrite <- Total by (intros l Hl; apply entry_range; auto).
      rewrite (Sum_ext V _ (fun y' => count L (C y) - (if shown y' then 1 else 0) * count L (C y))).
      2: { intros y' Hy'. fold (C y'). destruct (shown y') eqn:E; [rewrite (Zero y' E)|rewrite (Same y' Hy' E)]; ring. }
      rewrite Sum_minus, Sum_const, Sum_scal_r. unfold shown, at_. rewrite (number_shown V pi0 keys) by auto. ring. }
    assert (count L (C y) <> 0) by (intro Z; rewrite Z in Eq; lra).
    assert (INR V - INR (length keys) <> 0) by (intro Z; rewrite Z in Eq; lra).
    rewrite Eq. field. auto.
Qed.
