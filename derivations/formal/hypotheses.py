"""What a statement may assume: a list, and a reader that finds every premise of a Coq proposition.

A premise is whatever stands to the left of an arrow, at any depth, also inside another premise. Each must match a row
of :data:`LISTED`; the build refuses a statement with any other. Nothing in the list mentions a law's right-hand side.

A binder can assume as much as an arrow does: ``forall (absurd : False), ...`` is ``False -> ...``. So the type that is
written at a binder must be one of :data:`BINDER_TYPES`, and the type that Coq infers for one without is asked for
(:mod:`derivations.formal.audit`).
"""

from __future__ import annotations

import re

_BINDER_TYPE = re.compile(r"\((\w[\w' ]*) : (?:[^()]|\([^()]*\))*\)")
_BINDER = re.compile(r"[({\[]\s*[\w' ]+? : ")
_BARE_BINDER = re.compile(r"\b(?:forall|exists|fun)!? [\w' ]+? : ([^,=]*)")
_DELIMITERS = (" -> ", ",", " in ", " /\\ ", " <=> ", " := ")
_RANGE = r"\(\w'? <=? (?:\w+|length earlier)\)%nat"
_FOR_ALL = rf"\(forall [\w' ]+, (?:{_RANGE} -> )+"

# Numbers, indices, arrays, functions of arrays: each type is inhabited, so that none of them is a hypothesis.
BINDER_TYPES = frozenset(
    {
        "nat", "nat -> nat", "nat -> bool", "nat -> nat -> bool", "nat -> nat -> nat -> bool",
        "R", "nat -> R", "nat -> nat -> R", "nat -> nat -> nat -> R", "nat -> nat -> nat -> nat -> R",
        "R -> nat -> R", "R -> nat -> nat -> R", "(nat -> nat -> R) -> R", "(nat -> nat -> nat -> R) -> R",
        "list nat", "list (list nat)", "list nat -> R", "plan",
    }
)  # fmt: skip

# (what the whole premise looks like, what it says)
LISTED: tuple[tuple[str, str], ...] = (
    (_RANGE, "an index is in range"),
    (r"\w'? <> \w'?", "two indices differ"),
    (
        r"gradient_at n d Phi (?:\(contexts vis m (?:s|\(scores dk scale q k bias\)) v\)|"
        r"\(fun i => context m \(a i\) v\)|g|\(g x\)|\(g x y\)|\(g \(three q k v\)\)) u|"
        r"gradients_at H n d Phi \(g q k v\) u",
        "u is the gradient of the downstream loss at the contexts",
    ),
    (r"gradients?_at (?:H )?n d F x G|block_gradients_at H rows columns F x G", "G is the gradient of F at x"),
    (r"frechet_at n d F x G", "G is the Frechet derivative of F at x"),
    (r"countable_choice", "countable choice, which is a premise here and no axiom"),
    (_FOR_ALL + r"vis j = true -> holders p j = 1%nat\)", "each visible key lies in exactly one tile"),
    (_FOR_ALL + r"vis j = true -> holders p j = holders q j\)", "two plans hold each visible key equally often"),
    (
        r"\(forall stop, \(limit stop <= m\)%nat\)|"
        + _FOR_ALL + r"vis i j = true -> \(j < limit stop\)%nat\)",
        "a tile is given all keys that its rows see",
    ),
    (
        _FOR_ALL + r"vis k = true -> is_derive \(fun x => S x k\) t \(rate k\)\)",
        "the visible scores have derivatives",
    ),
    (_FOR_ALL + r"0 <= Sum C \(t i\)\)", "no position's total target is negative"),
    (r"nonempty \(?vis(?: i\))? m", "the row sees at least one key"),
    (r"vis (?:i )?\w = (?:true|false)", "a key is visible, or masked"),
    (r"0 < (?:eta|scale|t)", "a step size, a scale, an argument of the logarithm is positive"),
    (r"0 < (?:w c|a k|Pcx c x|effective_count n a j)", "a probability or a weight is positive"),
    (r"0 < dot d \(u i\) \(u i\)", "an upstream gradient is not zero"),
    (r"0 < Sum n \(fun i => dot d \(G i\) \(G i\)\)", "the gradient is not zero"),
    (r"0 < eta < bound", "the step is small enough"),
    (
        _FOR_ALL + r"Sum m \(fun k => fisher a j k \* x k\) = score_gradient m a b j\)",
        "x solves F x = dL/ds",
    ),
    (r"a 0%nat j = a 1%nat j|u 1%nat c = - u 0%nat c", "two rows are equal and pull in opposite directions"),
    (r"distribution (?:n|m) (?:p|q|a|a0|\(a t\))|Sum m a = 1", "weights are a distribution, or sum to one"),
    (_FOR_ALL + r"distribution (?:C|states) \([pqP] [csx]\)\)", "a distribution of outcomes for every context"),
    (_FOR_ALL + r"0 <= (?:w c|w s x|pi j|P h c x y)\)", "probabilities, priors, joint laws are not negative"),
    (r"\(exists j, \(j < m\)%nat /\\ 0 < pi j\)", "some prior is positive"),
    (_FOR_ALL + r"\(vis j = true <=> 0 < pi j\)\)", "a key is masked exactly where its prior is zero"),
    (_FOR_ALL + r"\(vis k = true <=> k = j(?: \\/ k = l)?\)\)", "the row sees exactly one key, exactly two"),
    (_FOR_ALL + r"\(seen i = true <=> nonempty \(vis i\) m\)\)", "a predicate marks the non-empty rows"),
    (_FOR_ALL + r"(?:vis k = true|0 < a k) -> lo <= b k <= hi\)", "lo and hi bound b on the visible keys"),
    (_FOR_ALL + r"a k <= M\)|\(exists k, \(k < m\)%nat /\\ a k = M\)", "M is the largest weight"),
    (_FOR_ALL + r"vis k = true -> s' k = s k \+ shift\)", "two rows of scores differ by a shift on the visible keys"),
    (_FOR_ALL + r"a l k = / INR m\)", "attention is uniform"),
    (_FOR_ALL + r"l <> i -> dot d \(u i\) \(u l\) = 0\)", "the upstream gradients are orthogonal"),
    (_FOR_ALL + r"\(kv h < groups\)%nat\)", "every query head reads one of the groups"),
    (
        _FOR_ALL + r"is_derive \(fun (?:x => c x j\) t \(rate j\)|"
        r"y => (?:V y j c|W y r c|c_O y c)\) x \(d[VWc](?: [jr])? c\))\)",
        "the costs (values, read-out, output bias) have derivatives",
    ),
    (
        _FOR_ALL + r"is_derive \(fun x => a x j\) t \(- score_gradient m \(a t\) b j\)\)",
        "the weights follow the replicator flow",
    ),
    (
        _FOR_ALL + r"vis j = true -> "
        r"is_derive \(fun x => ln \(softmax vis m \(put1 s k' x\) j\)\) \(s k'\) \(D j k'\)\)",
        "D is the score function of the categorical (its derivative of log a)",
    ),
    (_FOR_ALL + r"l <> i -> a step l j = a_other l j\)", "the other queries' weights stay"),
    (r"is_lim_seq \(fun step => a step i j\) 1", "one weight tends to one"),
    (_FOR_ALL + r"P h c x y \* Phx h x = Phcx h c x \* Phxy h x y\)", "(i) y is independent of c given (x, h)"),
    (_FOR_ALL + r"Phcx h c x \* Pc c = Phc h c \* Pcx c x\)", "(ii) x is independent of h given c"),
    (r"all_permutations V L|List\.In pi0 L", "L lists all permutations, pi0 is one of them"),
    (r"List\.NoDup keys|\(forall k, List\.In k keys -> \(k < V\)%nat\)", "the keys are distinct and in range"),
    (r"(?:~ )?List\.In [xk] keys", "the key has been shown, or has not"),
    (
        r"0 < w pi0|\(forall l, consistent l = true -> w l = w pi0\)|consistent l = true",
        "the choice of keys is ignorable",
    ),
    (r"p nil = 1|" + _FOR_ALL + r"0 < p \(prefix y t\)\)", "p gives prefixes positive probability, the empty one 1"),
    (_FOR_ALL + r"0 < total \(List\.skipn k \(o :: earlier\)%list\)\)", "the normalisers are positive"),
    (
        r"mean m \(posterior m pi c0\) c1 <= mean m \(posterior m pi c0\) c0",
        "the M-step does not raise the expected cost (its definition)",
    ),
    (r"dot m \(a i\) \(a i\) < a i j", "a weight lies above the mean level (the refuted claim's own condition)"),
)  # fmt: skip


def premises(text: str) -> tuple[str, ...]:
    """Every premise of a proposition, in order; ``<->`` is written ``<=>`` in them."""
    source = " ".join(text.split()).replace("<->", "<=>")
    # An arrow in the type of a bound variable is no implication.
    source = _BINDER_TYPE.sub(r"\1", source)
    found, starts, at = [], [0], 0
    while at < len(source):
        if source[at] == "(":
            starts.append(at + 1)
        elif source[at] == ")":
            starts.pop()
        else:
            delimiter = next((d for d in _DELIMITERS if source.startswith(d, at)), None)
            if delimiter is not None:
                if delimiter == " -> ":
                    found.append(source[starts[-1] : at].strip())
                at += len(delimiter)
                starts[-1] = at
                continue
        at += 1
    return tuple(found)


def meaning(premise: str) -> str | None:
    """What a premise says, or None for one that is not listed."""
    return next((words for pattern, words in LISTED if re.fullmatch(pattern, premise)), None)


def binder_types(text: str) -> tuple[str, ...]:
    """Every type that is written at a bound variable, in order."""
    source = " ".join(text.split())
    found = []
    for binder in _BINDER.finditer(source):
        depth, at = 1, binder.end()
        while at < len(source) and depth:
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(source[at], 0)
            at += 1
        found.append((binder.start(), source[binder.end() : at - 1].strip()))
    found += [(bare.start(), bare[1].strip()) for bare in _BARE_BINDER.finditer(source)]
    return tuple(words for _, words in sorted(found))


def unlisted(text: str) -> tuple[str, ...]:
    """The premises of a proposition that no row of the list allows, and the binder types that are not listed."""
    premised = [premise for premise in premises(text) if meaning(premise) is None]
    return (*premised, *(f"a variable of type {kind}" for kind in binder_types(text) if kind not in BINDER_TYPES))


def said(text: str) -> tuple[str, ...]:
    """What a proposition assumes, in words, each once; indices in range are left out."""
    words = [meaning(premise) or premise for premise in premises(text) if not re.fullmatch(_RANGE, premise)]
    return tuple(dict.fromkeys(words))
