(** The vocabulary of the statements over the real numbers: what an auditor reads before Statements.v. *)

From Coq Require Export Reals Permutation.
From Coquelicot Require Export Coquelicot.
From Bayesgrad Require Export FieldFormulas.
Export OverR.
Open Scope R_scope.

(** ** Visibility and softmax *)

Definition every (j : nat) : bool := true.

(** a row that sees at least one key *)
Definition nonempty (vis : nat -> bool) (m : nat) : Prop := exists j, (j < m)%nat /\ vis j = true.

(** one row of attention weights: exp s_j / sum over the visible k of exp s_k, and 0 where masked *)
Definition softmax (vis : nat -> bool) (m : nat) (s : nat -> R) : nat -> R := normalise vis m (fun j => exp (s j)).

Definition weights (vis : nat -> nat -> bool) (m : nat) (s : nat -> nat -> R) (i : nat) : nat -> R :=
  softmax (vis i) m (s i).

(** g_i = sum_j a_ij v_j with a = softmax of the scores *)
Definition contexts (vis : nat -> nat -> bool) (m : nat) (s v : nat -> nat -> R) (i : nat) : nat -> R :=
  context m (weights vis m s i) v.

(** ** One changed entry *)

Definition put1 (s : nat -> R) (j : nat) (x : R) : nat -> R := fun j' => if Nat.eqb j' j then x else s j'.

Definition put (s : nat -> nat -> R) (i j : nat) (x : R) : nat -> nat -> R :=
  fun i' j' => if (Nat.eqb i' i && Nat.eqb j' j)%bool then x else s i' j'.

(** ** Gradients *)

(** G is the gradient at x of a function F of an (n, d) array: along every curve of arrays through x whose entries
    have a derivative, F has the derivative sum_ic G_ic (x_ic)'. Entries outside (n, d) are not looked at. *)
Definition gradient_at (n d : nat) (F : (nat -> nat -> R) -> R) (x G : nat -> nat -> R) : Prop :=
  forall (curve : R -> nat -> nat -> R) (t : R) (rate : nat -> nat -> R),
    (forall i c, (i < n)%nat -> (c < d)%nat -> curve t i c = x i c) ->
    (forall i c, (i < n)%nat -> (c < d)%nat -> is_derive (fun z => curve z i c) t (rate i c)) ->
    is_derive (fun z => F (curve z)) t (Sum n (fun i => dot d (G i) (rate i))).

(** the same for a function of H arrays of size (n, d): heads, or blocks of parameters *)
Definition gradients_at (H n d : nat) (F : (nat -> nat -> nat -> R) -> R) (x G : nat -> nat -> nat -> R) : Prop :=
  forall (curve : R -> nat -> nat -> nat -> R) (t : R) (rate : nat -> nat -> nat -> R),
    (forall h i c, (h < H)%nat -> (i < n)%nat -> (c < d)%nat -> curve t h i c = x h i c) ->
    (forall h i c, (h < H)%nat -> (i < n)%nat -> (c < d)%nat ->
      is_derive (fun z => curve z h i c) t (rate h i c)) ->
    is_derive (fun z => F (curve z)) t (Sum H (fun h => Sum n (fun i => dot d (G h i) (rate h i)))).

(** the same for blocks of different shapes: array h has [rows h] times [columns h] entries *)
Definition block_gradients_at (H : nat) (rows columns : nat -> nat) (F : (nat -> nat -> nat -> R) -> R)
  (x G : nat -> nat -> nat -> R) : Prop :=
  forall (curve : R -> nat -> nat -> nat -> R) (t : R) (rate : nat -> nat -> nat -> R),
    (forall h i c, (h < H)%nat -> (i < rows h)%nat -> (c < columns h)%nat -> curve t h i c = x h i c) ->
    (forall h i c, (h < H)%nat -> (i < rows h)%nat -> (c < columns h)%nat ->
      is_derive (fun z => curve z h i c) t (rate h i c)) ->
    is_derive (fun z => F (curve z)) t (Sum H (fun h => Sum (rows h) (fun i => dot (columns h) (G h i) (rate h i)))).

(** the sum of the sizes of all entries *)
Definition norm1 (n d : nat) (y : nat -> nat -> R) : R := Sum n (fun i => Sum d (fun c => Rabs (y i c))).

(** G is the Frechet derivative of F at x: what G leaves of F y - F x is small beside the distance of y from x *)
Definition frechet_at (n d : nat) (F : (nat -> nat -> R) -> R) (x G : nat -> nat -> R) : Prop :=
  forall eps, 0 < eps -> exists del, 0 < del /\ forall y,
    norm1 n d (fun i c => y i c - x i c) <= del ->
    Rabs (F y - F x - Sum n (fun i => dot d (G i) (fun c => y i c - x i c))) <=
    eps * norm1 n d (fun i c => y i c - x i c).

(** countable choice for arrays: from each of a sequence of sets that have a member one can be taken *)
Definition countable_choice : Prop := forall P : nat -> (nat -> nat -> R) -> Prop,
  (forall k, exists y, P k y) -> exists y, forall k, P k (y k).

(** ** Cross-entropy *)

(** sum_c t_c (-log p_c), p = softmax of the logits over all C classes; t is any soft target *)
Definition cross_entropy (C : nat) (t z : nat -> R) : R := Sum C (fun c => t c * - ln (softmax every C z c)).

(** the loss of n positions with soft targets t_ic *)
Definition total_loss (n C : nat) (t z : nat -> nat -> R) : R := Sum n (fun i => cross_entropy C (t i) (z i)).

(** r_i = tau_i p_i - t_i *)
Definition residual (C : nat) (t z : nat -> nat -> R) (i : nat) : nat -> R :=
  logit_gradient C (softmax every C (z i)) (t i).

(** ** Tiles of keys: what the kernels compute that never hold a row of weights *)

(** what is known of a row after some of its keys: exp(- reference) times their mass and their weighted values *)
Record partial := { reference : R; mass : R; output : nat -> R }.

Definition tile_state (vis : nat -> bool) (m : nat) (s : nat -> R) (v : nat -> nat -> R) (r : R) : partial :=
  {| reference := r;
     mass := visible_sum vis m (fun j => exp (s j - r));
     output := fun c => visible_sum vis m (fun j => exp (s j - r) * v j c) |}.

(** two states as one, over any common reference r *)
Definition merge (r : R) (x y : partial) : partial :=
  {| reference := r;
     mass := exp (reference x - r) * mass x + exp (reference y - r) * mass y;
     output := fun c => exp (reference x - r) * output x c + exp (reference y - r) * output y c |}.

(** in which order tiles are merged, each step with its reference: a sweep leans to the left, split keys are a tree *)
Inductive plan := Tile (keys : nat -> bool) (r : R) | Merge (r : R) (left right : plan).

Fixpoint follow (vis : nat -> bool) (m : nat) (s : nat -> R) (v : nat -> nat -> R) (p : plan) : partial :=
  match p with
  | Tile keys r => tile_state (fun j => vis j && keys j)%bool m s v r
  | Merge r x y => merge r (follow vis m s v x) (follow vis m s v y)
  end.

(** how many tiles of a plan hold key j *)
Fixpoint holders (p : plan) (j : nat) : nat :=
  match p with
  | Tile keys _ => if keys j then 1 else 0
  | Merge _ x y => (holders x j + holders y j)%nat
  end.

(** the logarithm of the row's mass *)
Definition log_mass (x : partial) : R := reference x + ln (mass x).

(** ** Tiles of queries: bayesgrad's own sweep *)

Fixpoint sees (vis : nat -> bool) (m : nat) : bool := match m with O => false | S k => (sees vis k || vis k)%bool end.

(** a context from values without their common part; 0 where the row sees nothing *)
Definition swept_context (vis : nat -> bool) (m : nat) (s : nat -> R) (v : nat -> nat -> R) (centre : nat -> R)
  (c : nat) : R :=
  if sees vis m then context m (softmax vis m s) (fun j c => v j c - centre c) c + centre c else 0.

(** a score gradient from the same values, its mean taken out once more *)
Definition swept_score_gradient (d : nat) (vis : nat -> bool) (m : nat) (s : nat -> R) (v : nat -> nat -> R)
  (centre u : nat -> R) (j : nat) : R :=
  let a := softmax vis m s in
  let w := fun j c => v j c - centre c in
  let first := fun j => a j * (dot d u (w j) - dot d u (context m a w)) in
  first j - a j * Sum m first.

(** the sum over tiles of the given sizes, from [start] on, of f (end of the tile) (row) over the tile's rows *)
Fixpoint swept (start : nat) (tiles : list nat) (f : nat -> nat -> R) : R :=
  match tiles with
  | nil => 0
  | (size :: rest)%list => Sum size (fun e => f (start + size)%nat (start + e)%nat) + swept (start + size) rest f
  end.

(** ** Finite probability, values in [-inf, +inf] where a logarithm may be infinite *)

Definition distribution (n : nat) (p : nat -> R) : Prop := (forall y, (y < n)%nat -> 0 <= p y) /\ Sum n p = 1.

Fixpoint extended_sum (n : nat) (f : nat -> Rbar) : Rbar :=
  match n with O => Finite 0 | S k => Rbar_plus (extended_sum k f) (f k) end.

(** P * (-log q), with 0 * (-log q) = 0 and -log 0 = +inf *)
Definition cost (P q : R) : Rbar :=
  if Rle_dec P 0 then Finite 0 else if Rle_dec q 0 then p_infty else Finite (P * - ln q).

(** p * log (p / q), with 0 * log (0 / q) = 0 and log (p / 0) = +inf *)
Definition log_ratio_cost (p q : R) : Rbar :=
  if Rle_dec p 0 then Finite 0 else if Rle_dec q 0 then p_infty else Finite (p * ln (p / q)).

(** KL(p || q) *)
Definition divergence (n : nat) (p q : nat -> R) : Rbar := extended_sum n (fun y => log_ratio_cost (p y) (q y)).

(** H(p) = sum_y p_y (-log p_y); Coq's ln 0 is 0, so 0 log 0 = 0 *)
Definition entropy (n : nat) (p : nat -> R) : R := Sum n (fun y => p y * - ln (p y)).

(** R(q) = E[-log q(y|c)] for contexts c < N of probability w_c and outcomes y < C of probability p_cy given c *)
Definition risk (N C : nat) (w : nat -> R) (p q : nat -> nat -> R) : Rbar :=
  extended_sum N (fun c => extended_sum C (fun y => cost (w c * p c y) (q c y))).

(** -log sum_j pi_j exp(-c_j) *)
Definition mixture_loss (m : nat) (pi c : nat -> R) : R := - ln (mean m pi (fun j => exp (- c j))).

(** r_j = pi_j exp(-c_j) / sum_k pi_k exp(-c_k) *)
Definition posterior (m : nat) (pi c : nat -> R) : nat -> R := bayes_rule m pi (fun j => exp (- c j)).

(** sum_j a_j b_j + KL(a || a0) / eta *)
Definition e_step_objective (m : nat) (eta : R) (b a0 a : nat -> R) : Rbar :=
  Rbar_plus (Finite (mean m a b)) (Rbar_mult (Finite (/ eta)) (divergence m a a0)).

(** sum_ij a_ij u_i . v_j + |v - v0|^2 / (2 eta) *)
Definition m_step_objective (n m d : nat) (eta : R) (a u v0 v : nat -> nat -> R) : R :=
  Sum n (fun i => Sum m (fun j => a i j * dot d (u i) (v j))) +
  Sum m (fun j => Sum d (fun c => (v j c - v0 j c) * (v j c - v0 j c))) / (2 * eta).

(** the density of a Gaussian with mean k and covariance I / scale in d dimensions *)
Definition gaussian (d : nat) (scale : R) (k q : nat -> R) : R :=
  Rpower (scale / (2 * PI)) (INR d / 2) * exp (- scale * dot d (fun c => q c - k c) (fun c => q c - k c) / 2).

(** ** Sequences *)

Local Open Scope list_scope.

(** y_0, ..., y_(t-1) *)
Definition prefix (y : nat -> nat) (t : nat) : list nat := List.map y (List.seq 0 t).

(** the sum of f over all lists of t states below S, the latest state first *)
Fixpoint sum_over_paths (states t : nat) (f : list nat -> R) : R :=
  match t with
  | O => f nil
  | S t' => Sum states (fun state => sum_over_paths states t' (fun path => f (state :: path)%list))
  end.

(** P(path, observations) of a hidden Markov model: start law pi, transitions T, emissions E; no transition first *)
Fixpoint path_probability (pi : nat -> R) (T E : nat -> nat -> R) (path observations : list nat) : R :=
  match path, observations with
  | state :: nil, o :: nil => pi state * E state o
  | state :: (before :: _) as rest, o :: earlier =>
      path_probability pi T E rest earlier * T before state * E state o
  | _, _ => 0
  end.

(** the forward recursion: alpha_1(s) = pi(s) E(s, o_1), alpha_(t+1)(s) = E(s, o_(t+1)) sum_s' alpha_t(s') T(s', s) *)
Fixpoint forward (states : nat) (pi : nat -> R) (T E : nat -> nat -> R) (observations : list nat) (s : nat) : R :=
  match observations with
  | nil => 0
  | o :: nil => pi s * E s o
  | o :: earlier => Sum states (fun s' => forward states pi T E earlier s' * T s' s) * E s o
  end.

(** ** Permutations *)

(** L lists every permutation of 0, ..., V-1 exactly once *)
Definition all_permutations (V : nat) (L : list (list nat)) : Prop :=
  List.NoDup L /\ forall l, List.In l L <-> Permutation l (List.seq 0 V).

(** the sum of w over the entries of a list that pass a test *)
Fixpoint sum_where {A : Type} (L : list A) (w : A -> R) (test : A -> bool) : R :=
  match L with
  | nil => 0
  | l :: rest => (if test l then w l else 0) + sum_where rest w test
  end.
