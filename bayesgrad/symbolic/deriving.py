"""derive: the gradient of a loss by anything that it depends on, from definitions alone, with steps one can read.

Nothing on the right side is given. For dL/dx, with the gradients of what uses x derived before:

    1. chain rule       dL/dx = sum over the uses y of x of dL/dy dy/dx
    2. what is known    the gradients dL/dy, then the Jacobians dy/dx; each is an equation of its own, proved before
    3. contraction      deltas pick their terms, like factors merge
    4. folding          into the letters that the definitions and the caller give (folding.py), the shortest term wins

A Jacobian is derived by writing out what stands under the derivative, and nothing else, until none is left. Where uses
of x depend on one another (a residual connection), the derivative is opened at the next tensor that every way to the
loss passes, downwards, and what multiplies dy/dx on the way is gathered into dL/dy. A gradient that is a sum gets a
letter of its own, such as ds, for those that follow.

Each step is a rule of the kernel, which decides; a wrong step here costs a proof and cannot make one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bayesgrad.symbolic import rules
from bayesgrad.symbolic.chain import Chain
from bayesgrad.symbolic.claims import Equation
from bayesgrad.symbolic.folding import Rule, followed, normalised, rules_of, unmasked
from bayesgrad.symbolic.graph import Graph
from bayesgrad.symbolic.index_calculus import Mono, Poly, flatten
from bayesgrad.symbolic.proof import Verdict, check
from bayesgrad.symbolic.terms import (
    Add,
    Diff,
    Entry,
    Index,
    Size,
    Sum,
    Tensor,
    Term,
    TermError,
    children,
    indices_of,
    rebuild,
    rename,
    tensors_of,
)
from bayesgrad.symbolic.tex import name as tex_name
from bayesgrad.symbolic.text import text
from bayesgrad.symbolic.tidying import names, pool_of, tidy, written


@dataclass(frozen=True)
class Derivation:
    """A law that was derived: the claim, the steps that lead to it, the verdict, and the lemmas that it rests on."""

    claim: Equation
    chain: Chain
    verdict: Verdict
    lemmas: tuple[Derivation, ...] = ()
    opened: frozenset[Tensor] = field(default=frozenset(), repr=False)  # definitions used, in the lemmas too


def derive(loss: Entry, wrt: Entry, *, letters: Sequence[Tensor] = (), given: Sequence[Equation] = ()) -> Derivation:
    """The gradient of ``loss``, one number, by ``wrt``, an entry at free indices; folded into ``letters`` too."""
    if not isinstance(loss, Entry) or loss.indices:
        raise TermError(f"loss: got {text(loss)}, expected one number that has a definition")
    return Deriver(loss.tensor, letters=letters, given=given, at=(wrt,)).law(wrt.tensor)


class Deriver:
    """All gradients of one loss; each is derived once and leans on those before it."""

    def __init__(
        self,
        loss: Tensor,
        *,
        letters: Sequence[Tensor] = (),
        given: Sequence[Equation] = (),
        at: Sequence[Entry] = (),
        seed: int = 0,
    ):
        self.graph, self.given, self.seed = Graph(loss), tuple(given), seed
        if odd := [t.name for t in letters if t.body is None]:
            raise TermError(f"letter {odd[0]}: it has no definition to fold into")
        self.letters = tuple(letters)
        self.adjoints: dict[Tensor, Tensor] = {}  # by what it is the gradient of
        self.spelt: dict[Tensor, tuple[Term, Term]] = {}  # an adjoint at free indices, and what it stands for
        self._laws: dict[Tensor, Derivation] = {}
        self._named: dict[Tensor, Derivation] = {}
        self._jacobians: dict[tuple[Tensor, Tensor], Derivation] = {}
        self._gathered: dict[tuple, Derivation] = {}
        seen = [t for root in (loss, *self.letters) for t in tensors_of(_anywhere(root))]
        self.defined = tuple(dict.fromkeys(t for t in (*self.graph.order, *self.letters, *seen) if t.body is not None))
        self.everything = tuple(dict.fromkeys((*self.graph.order, *self.letters, *seen)))
        self.at = {entry.tensor: tuple(i for i in entry.indices if isinstance(i, Index)) for entry in at}
        self.pool = pool_of(self.everything, [i for indices in self.at.values() for i in indices])
        letters_first = [r for t in self.defined for r in rules_of(t, self.pool)]
        sums = [r for t in self.defined if t.kind != "real" for r in normalised(t, letters_first, self.pool)]
        self.folds: tuple[Rule, ...] = (*letters_first, *sums)

    # -- the laws ----------------------------------------------------------------------------------------------

    def law(self, tensor: Tensor) -> Derivation:
        """dL/dx at free indices: the claim whose right side was computed, its steps, its verdict."""
        if tensor not in self._laws:
            if tensor not in self.graph or tensor is self.graph.loss:
                raise TermError(f"{self.graph.loss.name} does not depend on {tensor.name}: there is nothing to derive")
            work = _Work(self, Diff(self.graph.loss(), tensor(*self._indices(tensor))))
            middles = self.graph.middles(tensor)
            if middles != [self.graph.loss]:
                if self.graph.independent(middles):
                    work.through(middles)
                    work.use(map(self.named, middles))
                    work.use(self.jacobian(y, tensor) for y in middles)
                else:
                    self._open_to(work, tensor)
            self._laws[tensor] = work.finished()
        return self._laws[tensor]

    def named(self, tensor: Tensor) -> Derivation:
        """The law, with a letter for its right side if that is a sum."""
        if tensor not in self._named:
            law = self.law(tensor)
            if _has_sum(law.claim.rhs):
                at = tuple(i for i in law.claim.lhs.wrt.indices)  # type: ignore[attr-defined]
                right = law.claim.rhs
                body = lambda *r: rename(right, dict(zip(at, r, strict=True)))
                taken = {t.name for t in (*self.everything, *self.adjoints.values())}
                name = next(x for x in names(Size(""), {Size(""): [f"d{tensor.name}"]}) if x not in taken)
                d = Tensor(name, tensor.sizes, body=body, tex=rf"\mathrm{{d}}{tensor.tex or tex_name(tensor.name)}")
                self.adjoints[tensor], self.spelt[d] = d, (d(*at), right)
                claim = Equation(law.claim.lhs, d(*at), given=law.claim.given, sample=law.claim.sample)
                chain = Chain(claim.lhs).rewrite(right, "the law", law.claim)
                chain.definition(claim.rhs, f"called {name}", d)
                law = Derivation(claim, chain, check(claim, chain, seed=self.seed), (law,), law.opened)
            self._named[tensor] = law
        return self._named[tensor]

    def jacobian(self, over: Tensor, by: Tensor) -> Derivation:
        """d over / d by, entry by entry: a lemma that says nothing of the loss."""
        if (over, by) not in self._jacobians:
            taken: set[str] = set()
            entry, other = (t(*self._indices(t, taken)) for t in (over, by))
            self._jacobians[over, by] = _Work(self, Diff(entry, other)).finished()
        return self._jacobians[over, by]

    def _indices(self, tensor: Tensor, taken: set[str] | None = None) -> tuple[Index, ...]:
        """Free indices for the slots of a tensor: those of the caller, or new ones with names of their sizes."""
        if taken is None and tensor in self.at:
            return self.at[tensor]
        taken, out = set() if taken is None else taken, []
        for size in tensor.sizes:
            out.append(Index(next(x for x in names(size, self.pool) if x not in taken), size))
            taken.add(out[-1].name)
        return tuple(out)

    # -- uses that depend on one another -----------------------------------------------------------------------

    def _open_to(self, work: _Work, tensor: Tensor) -> None:
        """Open the derivative from the gate downwards, until what is left acts through independent uses."""
        gate, done = self.graph.gate(tensor), []  # type: tuple[Tensor, list[Tensor]]
        self._enter(work, gate)
        while True:
            front = work.front(tensor)
            middles = self.graph.middles(tensor, front)
            if self.graph.independent(middles) and not set(front) & set(done):
                statistics = [t for t in front if t in self.graph.uses(tensor) and t not in middles]
                work.use(self.jacobian(t, tensor) for t in statistics)
                work.through(middles)
                for y in middles:
                    self._gather(work, y, tensor, (*done, tuple(middles)))
                work.use(self.jacobian(y, tensor) for y in middles)
                return
            last = max(front, key=self.graph.order.index) if done else gate
            if done:
                self._gather(work, last, tensor, tuple(done))
            work.open([last])
            work.differentiate()
            done.append(last)

    def _enter(self, work: _Work, gate: Tensor) -> None:
        """Start at the gate: whatever is below acts on the loss through it alone."""
        if gate is not self.graph.loss:
            work.through([gate])
            work.use([self.named(gate)])

    def _gather(self, work: _Work, y: Tensor, tensor: Tensor, done: tuple) -> None:
        """What multiplies dy/dx is dL/dy: a lemma from the same openings, used from right to left."""
        if work.gather(y, tensor, lambda: self._gathering(y, done).claim):
            work.lemmas.append(self._gathering(y, done))
            work.use([self.named(y)])

    def _gathering(self, y: Tensor, done: tuple) -> Derivation:
        """dL/dy as the sum over what was opened, before it is folded."""
        if (y, done) not in self._gathered:
            work = _Work(self, Diff(self.graph.loss(), y(*self._indices(y, set()))))
            self._enter(work, done[0])
            for n, step in enumerate(done):
                if isinstance(step, tuple):
                    work.through(step)
                    continue
                if n:
                    self._gather(work, step, y, done[:n])
                work.open([step])
                work.differentiate()
                while work.holds(y, y):
                    work.differentiate()
            work.contract()
            self._gathered[y, done] = work.judged()
        return self._gathered[y, done]


class _Work:
    """A chain that is being written, and the term that it has arrived at."""

    def __init__(self, deriver: Deriver, start: Diff):
        self.deriver, self.start = deriver, start
        self.chain = Chain(start)
        self.term: Term = start
        self.lemmas: list[Derivation] = []
        self.opened: set[Tensor] = set()

    def _shown(self, term: Term) -> Term:
        return written(flatten(term), self.deriver.pool)

    def holds(self, over: Tensor, by: Tensor) -> bool:
        return any(t.body.tensor is over and t.wrt.tensor is by for t in derivatives(self.term))  # type: ignore[attr-defined]

    def front(self, by: Tensor) -> list[Tensor]:
        """The tensors whose derivative by ``by`` is left."""
        return list(dict.fromkeys(t.body.tensor for t in derivatives(self.term) if t.wrt.tensor is by))  # type: ignore[attr-defined]

    def through(self, middles: Iterable[Tensor]) -> None:
        chosen = tuple(middles)
        after = self._shown(rules.through(self.term, chosen))
        if text(after) != text(self.term):
            x, listed = self.start.wrt.tensor.name, ", ".join(t.name for t in chosen)
            self.chain.through(after, f"{x} acts through {listed}", *chosen)
            self.term = after

    def use(self, known: Iterable[Derivation]) -> None:
        """Rewrite by equations that were proved before."""
        for lemma in known:
            left, right = lemma.claim.lhs, lemma.claim.rhs
            new, count = rules.replace(self.term, left, right, tuple(indices_of(left)[0]), True)
            if count:
                self.chain.rewrite(self._shown(new), f"{text(left)} = {text(right)}", lemma.claim)
                self.term = self.chain.steps[-1].after
                self.lemmas.append(lemma)

    def open(self, tensors: Sequence[Tensor]) -> None:
        """Definitions written out under derivatives; outside, values keep their letters."""
        chosen = tuple(t for t in tensors if t.body is not None)
        if chosen:
            after = opened(self.term, chosen)
            self.opened |= set(chosen)
            self.chain.definition(after, f"the definition of {', '.join(t.name for t in chosen)}", *chosen)
            self.term = after

    def differentiate(self) -> None:
        self.term = self._shown(rules.carry_out(self.term, (), set()))
        self.chain.differentiate(self.term, "the rules of calculus")

    def contract(self) -> None:
        """Nothing but the canonical order of what is there."""
        after = self._shown(self.term)
        if text(after) != text(self.term):
            self.chain.algebra(after, "deltas pick their terms")
            self.term = after

    def gather(self, y: Tensor, x: Tensor, equation: Callable[[], Equation]) -> bool:
        """Replace what multiplies dy/dx by the left side of an equation that has it on the right."""
        poly = tidy(flatten(self.term))
        factors, rest = list[Mono](), list[Mono]()
        for mono in poly:
            (rest if _factor(mono, y, x) is None else factors).append(mono)
        if not factors:
            return False
        claim = equation()
        slots = claim.lhs.wrt.indices  # type: ignore[attr-defined]
        free = sorted(indices_of(claim.lhs)[0], key=lambda i: i.uid)
        by = self.start.wrt
        other = written(tuple(rest), self.deriver.pool) if rest else None

        def around(hole: Callable[..., Term]) -> Term:
            at = tuple(Index(i.name, i.size) for i in slots)
            where = dict(zip(slots, at, strict=True))
            out: Term = hole(*(where[i] for i in free)) * Diff(y(*at), by)
            for index in reversed(at):
                out = Sum(index, out)
            return out if other is None else Add((out, other))

        after = self._shown(around(lambda *at: rename(claim.lhs, dict(zip(free, at, strict=True)))))
        self.chain.rewrite(after, f"what multiplies it is the gradient in {y.name}", claim, around)
        self.term = after
        return True

    def finished(self) -> Derivation:
        """No derivative left, hypotheses used, deltas contracted, folded; and the verdict."""
        by = self.start.wrt.tensor
        while found := list(derivatives(self.term)):
            self.open(list(dict.fromkeys(t.body.tensor for t in found if t.body.tensor is not by)))  # type: ignore[attr-defined]
            self.differentiate()
        for known in self.deriver.given:
            new, count = rules.replace(self.term, known.lhs, known.rhs, known.free, False)
            if count:
                self.term = self._shown(new)
                self.chain.rewrite(self.term, known.says, known)
        self.fold()
        return self.judged()

    def fold(self) -> None:
        poly: Poly = tidy(flatten(self.term))
        clean, needed = unmasked(poly)
        after = written(clean, self.deriver.pool)
        if needed:
            self.chain.definition(after, "a weight is 0 where its mask is", *needed)
            self.opened |= needed
        elif text(after) != text(self.term):
            self.chain.algebra(after, "deltas pick their terms")
        self.term = after
        folds = [r for r in self.deriver.folds if self.start.wrt.tensor not in r.tensors]
        letters = list(self.deriver.adjoints.values())
        for term, tensors, why in followed(self.term, clean, folds, letters, self.deriver.pool):
            self.chain.definition(term, why, *tensors)
            self.opened |= set(tensors)
            self.term = term

    def judged(self) -> Derivation:
        known = frozenset(self.opened.union(*(lemma.opened for lemma in self.lemmas)))
        by = self.start.wrt.tensor
        # what does not depend on the variable and is opened nowhere is drawn: every step is as true of any values
        drawn = [t for t in self.deriver.defined if t is by or (t not in known and not rules.mentions(t, by))]
        claim = Equation(self.start, self.term, given=self.deriver.given, sample=dict.fromkeys(drawn))
        verdict = check(claim, self.chain, seed=self.deriver.seed)
        return Derivation(claim, self.chain, verdict, tuple(self.lemmas), known)


def _anywhere(tensor: Tensor) -> Entry:
    return tensor(*(Index("r", size) for size in tensor.sizes))


def derivatives(term: Term) -> Iterable[Diff]:
    """The derivatives that are left in a term."""
    if isinstance(term, Diff):
        yield term
    for child in children(term):
        yield from derivatives(child)


def opened(term: Term, chosen: tuple[Tensor, ...]) -> Term:
    """A term with some definitions written out under its derivatives, and nowhere else."""
    if isinstance(term, Diff):
        return Diff(rules.unfold(term.body, tuple(t for t in chosen if t is not term.wrt.tensor)), term.wrt)
    return rebuild(term, lambda t: opened(t, chosen))


def _factor(mono: Mono, y: Tensor, x: Tensor) -> int | None:
    for n, (atom, _) in enumerate(mono.factors):
        if atom.kind == "diff" and atom.head is x and len(atom.arg) == 1:
            ((inner, _),) = atom.arg[0].factors
            if inner.kind == "entry" and inner.head is y:
                return n
    return None


def _has_sum(term: Term) -> bool:
    return isinstance(term, Add | Sum) or any(map(_has_sum, children(term)))
