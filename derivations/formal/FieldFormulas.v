(** The formulas of the laws, once, over any field.

    A vector is a function [nat -> K], a matrix a function [nat -> nat -> K]; sizes are bounds, and [Sum n f] is
    f 0 + ... + f (n-1).  The exponential does not occur: [normalise] takes the unnormalised weights e_j, which the
    theorems instantiate with exp s_j over the reals and the numerical comparison with positive rationals.
    [OverR] is what the theorems talk about, [OverQ] what Coq evaluates: both come from the one text below. *)

From Coq Require Import Reals QArith Qreduction.

Module Type FIELD.
  Parameter Inline t : Type.
  Parameter Inline zero : t.
  Parameter Inline one : t.
  Parameter Inline add : t -> t -> t.
  Parameter Inline sub : t -> t -> t.
  Parameter Inline mul : t -> t -> t.
  Parameter Inline div : t -> t -> t.
End FIELD.

Module Formulas (K : FIELD).
  Declare Scope field_scope.
  Delimit Scope field_scope with K.
  Local Open Scope field_scope.
  Local Notation "x + y" := (K.add x y) : field_scope.
  Local Notation "x - y" := (K.sub x y) : field_scope.
  Local Notation "x * y" := (K.mul x y) : field_scope.
  Local Notation "x / y" := (K.div x y) : field_scope.
  Local Notation "0" := K.zero : field_scope.
  Local Notation "1" := K.one : field_scope.

  (** ** Finite sums *)

  (** f 0 + ... + f (n-1) *)
  Fixpoint Sum (n : nat) (f : nat -> K.t) : K.t := match n with O => 0 | S k => Sum k f + f k end.

  (** the sum over the visible keys among the first m *)
  Definition visible_sum (vis : nat -> bool) (m : nat) (f : nat -> K.t) : K.t :=
    Sum m (fun j => if vis j then f j else 0).

  Definition delta (j k : nat) : K.t := if Nat.eqb j k then 1 else 0.

  (** x . y = sum_c x_c y_c *)
  Definition dot (d : nat) (x y : nat -> K.t) : K.t := Sum d (fun c => x c * y c).

  (** sum_j a_j h_j: the mean of h under the weights a *)
  Definition mean (m : nat) (a h : nat -> K.t) : K.t := Sum m (fun j => a j * h j).

  (** sum_j a_j h_j^2 - (sum_j a_j h_j)^2 *)
  Definition variance (m : nat) (a h : nat -> K.t) : K.t :=
    mean m a (fun j => h j * h j) - mean m a h * mean m a h.

  (** sum_j a_j x_j y_j - (sum_j a_j x_j) (sum_j a_j y_j) *)
  Definition covariance (m : nat) (a x y : nat -> K.t) : K.t :=
    mean m a (fun j => x j * y j) - mean m a x * mean m a y.

  (** ** The head *)

  (** e_j / sum over the visible k of e_k; exactly 0 where j is masked, hence everywhere in an empty row *)
  Definition normalise (vis : nat -> bool) (m : nat) (e : nat -> K.t) (j : nat) : K.t :=
    if vis j then e j / visible_sum vis m e else 0.

  (** x_i W + bias *)
  Definition affine (d : nat) (x W : nat -> nat -> K.t) (bias : nat -> K.t) (i c : nat) : K.t :=
    Sum d (fun r => x i r * W r c) + bias c.

  (** s_ij = scale * q_i . k_j + bias_ij *)
  Definition scores (d : nat) (scale : K.t) (q k bias : nat -> nat -> K.t) (i j : nat) : K.t :=
    scale * dot d (q i) (k j) + bias i j.

  (** one row of the context: g_c = sum_j a_j v_jc *)
  Definition context (m : nat) (a : nat -> K.t) (v : nat -> nat -> K.t) (c : nat) : K.t :=
    Sum m (fun j => a j * v j c).

  (** b_j = u . v_j *)
  Definition compatibility (d : nat) (u : nat -> K.t) (v : nat -> nat -> K.t) (j : nat) : K.t := dot d u (v j).

  (** A_j = (sum_k a_k b_k) - b_j *)
  Definition advantage (m : nat) (a b : nat -> K.t) (j : nat) : K.t := mean m a b - b j.

  (** ** The laws' right-hand sides *)

  (** a_j (b_j - sum_k a_k b_k) *)
  Definition score_gradient (m : nat) (a b : nat -> K.t) (j : nat) : K.t := a j * (b j - mean m a b).

  (** F_jk = delta_jk a_j - a_j a_k *)
  Definition fisher (a : nat -> K.t) (j k : nat) : K.t := delta j k * a j - a j * a k.

  (** sum_i a_ij u_ic *)
  Definition value_gradient (n : nat) (a u : nat -> nat -> K.t) (j c : nat) : K.t := Sum n (fun i => a i j * u i c).

  (** N_j = sum_i a_ij *)
  Definition effective_count (n : nat) (a : nat -> nat -> K.t) (j : nat) : K.t := Sum n (fun i => a i j).

  (** scale * sum_j G_ij k_jc, G the gradient in the scores *)
  Definition query_gradient (m : nat) (scale : K.t) (G k : nat -> nat -> K.t) (i c : nat) : K.t :=
    scale * Sum m (fun j => G i j * k j c).

  (** scale * sum_i G_ij q_ic *)
  Definition key_gradient (n : nat) (scale : K.t) (G q : nat -> nat -> K.t) (j c : nat) : K.t :=
    scale * Sum n (fun i => G i j * q i c).

  (** sum_ij G_ij q_i . k_j *)
  Definition scale_gradient (n m d : nat) (G q k : nat -> nat -> K.t) : K.t :=
    Sum n (fun i => Sum m (fun j => G i j * dot d (q i) (k j))).

  (** r_c = (sum_c' t_c') p_c - t_c *)
  Definition logit_gradient (C : nat) (p t : nat -> K.t) (c : nat) : K.t := Sum C t * p c - t c.

  (** (r W^T)_c = sum_c' r_c' W_cc' *)
  Definition back_through (C : nat) (r : nat -> K.t) (W : nat -> nat -> K.t) (c : nat) : K.t :=
    Sum C (fun c' => r c' * W c c').

  (** (x^T G)_rc = sum_i x_ir G_ic *)
  Definition weight_matrix_gradient (n : nat) (x G : nat -> nat -> K.t) (r c : nat) : K.t :=
    Sum n (fun i => x i r * G i c).

  (** ** Dynamics *)

  (** sum_l (a a^T)_il u_lc *)
  Definition value_step_context (n m : nat) (a u : nat -> nat -> K.t) (i c : nat) : K.t :=
    Sum n (fun l => dot m (a i) (a l) * u l c).

  (** sum_l a_lj u_i . u_l *)
  Definition feedback (n d : nat) (a u : nat -> nat -> K.t) (i j : nat) : K.t :=
    Sum n (fun l => a l j * dot d (u i) (u l)).

  (** a_j e_j / sum_k a_k e_k: Bayes' rule with prior a and likelihood e *)
  Definition bayes_rule (m : nat) (a e : nat -> K.t) (j : nat) : K.t := a j * e j / mean m a e.
End Formulas.

Module RealField <: FIELD.
  Definition t := R.
  Definition zero := 0%R.
  Definition one := 1%R.
  Definition add := Rplus.
  Definition sub := Rminus.
  Definition mul := Rmult.
  Definition div := Rdiv.
End RealField.

(** Rationals kept in lowest terms, so that evaluation stays small. *)
Module RationalField <: FIELD.
  Definition t := Q.
  Definition zero := 0%Q.
  Definition one := 1%Q.
  Definition add (x y : Q) := Qred (x + y).
  Definition sub (x y : Q) := Qred (x - y).
  Definition mul (x y : Q) := Qred (x * y).
  Definition div (x y : Q) := Qred (x / y).
End RationalField.

Module OverR := Formulas RealField.
Module OverQ := Formulas RationalField.
