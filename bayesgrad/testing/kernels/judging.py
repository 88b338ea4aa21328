"""The judge: every case against a kernel that runs in a process of its own, and a verdict that is computed here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesgrad.testing.examples import Array
from bayesgrad.testing.kernels import design, diagnosis
from bayesgrad.testing.kernels.blocks import Block
from bayesgrad.testing.kernels.calls import Answer, Question, keywords, known, spoken
from bayesgrad.testing.kernels.claims import Claims
from bayesgrad.testing.kernels.design import Plan
from bayesgrad.testing.kernels.formats import FORMATS
from bayesgrad.testing.kernels.frameworks import FRAMEWORKS
from bayesgrad.testing.kernels.ledger import Case, Judgement
from bayesgrad.testing.kernels.recipes import Recipe
from bayesgrad.testing.kernels.shrink import smallest
from bayesgrad.testing.kernels.suspect import Finding, Suspect

HARD = ("died", "timed out", "memory", "no verdict")
"""Verdicts that cost a process: after two a case ends, after :data:`PATIENCE` the whole run does."""

PATIENCE = 6

OFTEN = (2.0, 250)
"""The same block is asked for at most so many seconds, and so many times."""

Kernel = Callable[..., Any] | str


class Court:
    """A kernel with its claims, ready to be asked case by case. Use it as a context, or close it.

    Raises ValueError, with one sentence, for what cannot be judged: see :func:`judge`.
    """

    def __init__(
        self,
        candidate: Kernel | None = None,
        *,
        backward: Kernel | None = None,
        forward: Kernel | None = None,
        reference: Kernel | None = None,
        framework: str = "numpy",
        device: str = "",
        layout: str = "",
        claims: str | Mapping[str, Any] | Claims = "",
        names: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        examples: int = 0,
        seed: int = 0,
        only: Sequence[str] = (),
        blocks: Sequence[Recipe | Block] = (),
    ) -> None:
        given = [x for x in (candidate, backward, forward) if x is not None]
        if len(given) != 1:
            raise ValueError(f"judge: got {len(given)} kernels, expected one: a candidate, backward=... or forward=...")
        if framework not in FRAMEWORKS:
            raise ValueError(f"framework: got {framework!r}, expected one of {', '.join(FRAMEWORKS)}")
        if device and not FRAMEWORKS[framework].placed:
            raise ValueError(f"device: got {device!r}, expected none for {framework}")
        derives = FRAMEWORKS[framework].derives
        self.kind = "forward" if forward is not None or (candidate is not None and derives) else "backward"
        if self.kind == "forward" and not derives:
            able = ", ".join(name for name, of in FRAMEWORKS.items() if of.derives)
            raise ValueError(f"framework: got {framework!r}, expected one that takes derivatives, of {able}")
        if layout and not isinstance(claims, Claims):
            claims = f"{claims},layout={layout}" if isinstance(claims, str) else {**claims, "layout": layout}
        can = claims if isinstance(claims, Claims) else Claims.parse(claims)
        self.can = replace(can, layout=layout) if layout else can
        for name, needs in (("forward_mode", "jvp"), ("second", "second")):
            if getattr(self.can, name) and (self.kind == "backward" or needs not in derives):
                raise ValueError(f"claims: {name}: expected a forward function of torch, jax, or mlx (jvp only)")
        if examples < 0:
            raise ValueError(f"examples: got {examples}, expected 0 (the whole design) or more")
        self.framework, self.seed = framework, seed
        self.mutable = FRAMEWORKS[framework].mutable
        self.plans, covered = self._plans(examples, only, blocks)
        start: dict[str, Any] = {"kind": self.kind, "framework": framework, "device": device, "names": names}
        start |= {"options": options, "seconds": self.can.seconds, "memory": self.can.memory}
        start |= {"keywords": keywords(self.can, self.kind)}
        start["optional"] = ("mask", "scale") if self.kind == "backward" else ()
        self._kernels, self._how = (given[0], reference), start
        self.suspects: list[Suspect] = []
        name = given[0] if isinstance(given[0], str) else getattr(given[0], "__qualname__", repr(given[0]))
        self.judgement = Judgement(
            f"{name} ({self.kind}, {framework})",
            self.can.sentence(),
            unclaimed=self.can.unclaimed(),
            cells=list(design.cells(self.can, self.mutable and self.can.strided)) if covered else [],
            covered=covered,
        )
        self._hard = 0
        self._first: dict[str, bytes] | None = None

    def _plans(self, examples: int, only: Sequence[str], blocks: Sequence[Recipe | Block]) -> tuple[list[Plan], str]:
        if blocks:
            return [Plan(f"{name}: given blocks", FORMATS[name], tuple(blocks)) for name in self.can.dtypes], ""  # type: ignore
        made, covered = design.plans(
            self.can,
            mutable=self.mutable,
            readonly=self.framework == "numpy",
            kind=self.kind,
            examples=examples,
            seed=self.seed,
        )
        asked = [plan for plan in made if not only or any(text in plan.name for text in only)]
        if not asked:
            raise ValueError(
                f"only: no case has {' or '.join(map(repr, only))} in its name, "
                f"expected some of {'; '.join(plan.name for plan in made)}"
            )
        return asked, covered if any(plan.name.endswith("design") for plan in asked) else ""

    def start(self) -> Court:
        """Start the kernel's process, unless it runs. Raises ValueError if the kernel cannot be imported or called."""
        if not self.suspects:
            try:
                self.suspects.extend(Suspect(kernel, **self._how) for kernel in self._kernels if kernel is not None)
            except ValueError:
                self.close()
                raise
        return self

    def __enter__(self) -> Court:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the kernel's process."""
        while self.suspects:
            self.suspects.pop().close()

    def case(self, plan: Plan, fail_fast: bool = False) -> Case:
        """Judge one case, and add it to the ledger."""
        self.start()
        case, began = Case(plan.name), time.perf_counter()
        if self._hard >= PATIENCE:
            case.verdict, case.detail = "no verdict", f"not asked, after {self._hard} calls without an answer"
        else:
            _Trial(self, plan, case, fail_fast).run()
        case.seconds = time.perf_counter() - began
        self.judgement.cases.append(case)
        return case

    def run(self, *, fail_fast: bool = False, tell: Callable[[str], None] | None = None) -> Judgement:
        """Judge every case; ``tell`` gets the lines of the ledger as they come."""
        say = tell or (lambda line: None)
        for line in self.judgement.head():
            say(line)
        for number, plan in enumerate(self.plans):
            case = self.case(plan, fail_fast)
            for line in self.judgement.told(case):
                say(line)
            left = len(self.plans) - number - 1
            if left and ((fail_fast and not case.good) or self._hard >= PATIENCE):
                why = "the first failure" if fail_fast else f"{self._hard} calls without an answer"
                self.judgement.stopped = f"stopped after {why}: {left} more cases were not judged"
                break
        for line in self.judgement.tail():
            say(line)
        return self.judgement


class _Trial:
    """One case on its way."""

    def __init__(self, court: Court, plan: Plan, case: Case, fail_fast: bool) -> None:
        self.court, self.plan, self.case, self.fail_fast = court, plan, case, fail_fast
        self.question = Question(court.suspects[0], court.can, plan.format, court.kind, court.framework)
        self._last: tuple[Answer, dict[str, tuple[Array, Array]]] | None = None
        self._seen: list[diagnosis.Seen] = []

    def run(self) -> None:
        """Ask about every block; the first that fails is shrunk and explained."""
        first: tuple[int, Finding] | None = None
        failed: list[int] = []
        hard = 0
        for number, recipe in enumerate(self.plan.recipes):
            self.case.tried += 1
            finding = self.finding(recipe)
            if finding is None:
                continue
            failed.append(number)
            first = first or (number, finding)
            self._remember(recipe, finding)
            if finding.verdict in HARD:
                self.court._hard += 1
                hard += 1
            if self.fail_fast or hard >= 2 or finding.verdict == "reference":
                break
        self.case.failed = len(failed)
        if first is not None:
            self._explain(*first, failed)

    def _remember(self, recipe: Recipe | Block, finding: Finding) -> None:
        """Keep what came back from the first few blocks that failed, for the diagnosis."""
        if self._last is not None and finding.verdict in ("wrong", "nan") and len(self._seen) < 10:
            block = self.block(recipe)
            self._seen.append((block, self._arrays(block, self._last[0]), self._last[1]))

    def _explain(self, number: int, finding: Finding, failed: list[int]) -> None:
        recipe, case = self.plan.recipes[number], self.case
        small: Recipe | Block = recipe
        repeatable = finding.verdict not in ("varies", "timed out", "memory", "no verdict", "reference")
        case.where = self._common(failed)
        case.where = "; ".join(text for text in (diagnosis.located(self._seen), case.where) if text)
        if isinstance(recipe, Recipe) and repeatable and self.plan.kind in ("blocks", "read-only inputs"):
            calls = 40 if finding.verdict == "died" else 300
            small, finding = smallest(
                self.finding, recipe, finding, self.court.can, self.plan.format, calls=calls, seconds=8.0
            )
            if len(self._seen) < 2 and self.finding(small) is not None:
                self._remember(small, finding)
        case.likely = diagnosis.likely(self._seen, self.plan.format) if self._seen else ""
        case.verdict, case.detail, case.example = finding.verdict, finding.detail, repr(small)

    def block(self, recipe: Recipe | Block) -> Block:
        """The block of a recipe."""
        return recipe if isinstance(recipe, Block) else recipe.block(self.court.can, self.plan.format)

    def _arrays(self, block: Block, answer: Answer) -> dict[str, Array]:
        found = {}
        for name, (x, _) in answer.results.items():
            if not isinstance(x, dict):
                of = self.question.back(name, x, block)
                if of.shape == self.question.shape(name, block):
                    found[name] = of.astype(np.float64)
        return found

    def finding(self, recipe: Recipe | Block) -> Finding | None:
        """What is wrong on one block, or None."""
        self._last = None
        block = self.block(recipe)
        further = self._further(block)
        exact = isinstance(recipe, Recipe) and recipe.exact_scores
        exact = exact or (
            isinstance(recipe, Block) and any(r.exact_scores for r in self.plan.recipes if isinstance(r, Recipe))
        )
        truth = known(block, self.plan.format, exact, further)
        try:
            if self.plan.kind in ("blocks", "again", "read-only inputs"):
                self._once(block, truth, further)
            elif self.plan.kind == "one number changed":
                self._changed(block)
            elif self.plan.kind == "asked often":
                self._often(block, truth)
            else:
                self._twice(recipe, block, truth)
        except Finding as finding:
            return finding
        self.case.vacuous += all(np.all(np.abs(truth[name][0]) <= truth[name][1]) for name in "qkv")
        return None

    def _further(self, block: Block) -> dict[str, Array]:
        """Directions for forward mode and second derivatives, as large as what they move."""
        if not self.plan.further:
            return {}
        rng = np.random.Generator(np.random.PCG64(block.q.size))
        return {
            f"{self.plan.further} {name}": self.plan.format.round(
                rng.uniform(-1, 1, x.shape) * np.abs(x).max(initial=0)
            )
            for name, x in (("q", block.q), ("k", block.k), ("v", block.v))
        }

    def _once(self, block: Block, truth: dict[str, tuple[Array, Array]], further: dict[str, Array]) -> None:
        message = self.question.message(block, further=further, readonly=self.plan.kind == "read-only inputs")
        answer = self.question.ask(message)[0]
        self._last = (answer, truth)
        court = self.court
        try:
            worst = self.question.verdict(block, answer, truth)
        except Finding as finding:
            self._again(message, answer, finding)
            raise
        self.case.worst = max(self.case.worst, worst)
        if court._first is None:
            court._first = answer.bits()
            answer = self.question.ask(message)[0] if self.plan.kind == "again" else answer
        if self.plan.kind == "again" and court.can.deterministic and answer.bits() != court._first:
            raise Finding("varies", "the very first block has other results at the end of the run")
        if len(court.suspects) > 1 and not further:
            other = replace(self.question, suspect=court.suspects[1])
            try:
                other.verdict(block, other.ask(message)[0], truth)
            except Finding as finding:
                raise Finding("reference", f"the reference is not what is claimed: {finding.detail}") from None

    def _again(self, message: Any, answer: Answer, finding: Finding) -> None:
        """Ask the same a few times more: another answer is a finding of its own."""
        for other in self.question.ask(message, message, message):
            if other.report.get("failed") != answer.report.get("failed"):
                now = other.report.get("why", "answers")
                raise Finding("varies", f"{finding.detail}; asked again, it {now}") from None
            if other.bits() != answer.bits():
                raise Finding("varies", f"{finding.detail}; asked again, the result is another") from None

    def _often(self, block: Block, truth: dict[str, tuple[Array, Array]]) -> None:
        """The same block many times: one answer in a hundred that differs is a race, or chance."""
        message = self.question.message(block)
        began = time.perf_counter()
        (first,) = self.question.ask(message)
        times = int(min(max(OFTEN[0] / (time.perf_counter() - began), 2), OFTEN[1], 2**24 // block.q.size))
        failed: Finding | None = None
        for number, answer in enumerate([first, *self.question.ask(*[message] * times)]):
            try:
                self.case.worst = max(self.case.worst, self.question.verdict(block, answer, truth))
                now = None
            except Finding as finding:
                now = finding
                if finding.verdict not in ("wrong", "nan", "raised"):
                    raise
            if number and (failed is None) != (now is None):
                raise Finding("varies", f"{(failed or now).detail}; but not each of {number + 1} times")  # type: ignore[union-attr]
            failed = failed or now
            if failed is None and self.court.can.deterministic and answer.bits() != first.bits():
                name = next(name for name, x in first.bits().items() if answer.bits().get(name) != x)
                raise Finding(
                    "varies", f"{spoken(name)} has other last digits after {number} calls with the same block"
                )
        if failed is not None:
            raise failed

    def _twice(self, recipe: Recipe | Block, block: Block, truth: dict[str, tuple[Array, Array]]) -> None:
        """A block, another of the same shape, and the first again, all results held to the end."""
        assert isinstance(recipe, Recipe)
        other = self.block(replace(recipe, seed=recipe.seed + 7919))
        reuse = self.plan.kind == "the same buffers refilled"
        pair = [(block, truth), (other, known(other, self.plan.format, recipe.exact_scores))]
        order = (0, 1, 0)
        hold = not reuse
        answers = self.question.ask(
            *(
                self.question.message(pair[at][0], hold=hold, reuse=reuse and place > 0)
                for place, at in enumerate(order)
            )
        )
        for at, answer in zip(order, answers, strict=True):
            self.case.worst = max(self.case.worst, self.question.verdict(pair[at][0], answer, pair[at][1]))
        first, last = answers[0].bits(), answers[2].bits()
        if self.court.can.deterministic and first != last:
            name = next(name for name in first if first[name] != last.get(name))
            raise Finding("varies", f"{spoken(name)} has other last digits when the same block is asked again")
        for answer in answers if hold else ():
            if answer.bits("held") != answer.bits():
                name = next(name for name, x in answer.bits().items() if answer.bits("held")[name] != x)
                raise Finding("held", f"{spoken(name)} changes when the kernel is called again: its buffer is reused")

    def _changed(self, block: Block) -> None:
        """A block, and others that differ from it in one number of one input: whoever keeps results mixes them up."""
        blocks = [block, *_neighbours(block, self.court.can)]
        answers = self.question.ask(*map(self.question.message, blocks))
        for other, answer in zip(blocks, answers, strict=True):
            truth = known(other, self.plan.format, False)
            try:
                self.case.worst = max(self.case.worst, self.question.verdict(other, answer, truth))
            except Finding as finding:
                if other is block:
                    raise
                given, now = block.inputs(), other.inputs()
                changed = next((name for name, x in now.items() if _differs(x, given.get(name))), "nothing")
                raise Finding(
                    finding.verdict, f"after a call that differs in {changed} alone: {finding.detail}"
                ) from None

    def _common(self, failed: list[int]) -> str:
        """What the failing blocks of a design have in common, and the others have not."""
        recipes = self.plan.recipes[: self.case.tried]
        passed = [number for number in range(len(recipes)) if number not in set(failed)]
        if len(failed) < 2 or not passed or not all(isinstance(r, Recipe) for r in recipes):
            return ""
        said = []
        for name in ("n", "m", "d_k", "d_v"):
            of = [getattr(r, name) for r in recipes]
            low, high = min(of[i] for i in failed), max(of[i] for i in passed)
            if low > high:
                said.append(f"all with {name} >= {low}")
        for name in self.plan.levels[0] if self.plan.levels else ():
            of_failed = {self.plan.levels[i][name] for i in failed}
            of_passed = {self.plan.levels[i][name] for i in passed}
            if not of_failed & of_passed and name not in ("n", "m", "d_k", "d_v"):
                said.append(f"all with {name} {' or '.join(sorted(of_failed))}, and no others")
            elif len(of_failed) == 1 and len(failed) > 3:
                said.append(f"only with {name} {of_failed.pop()}")
        for word, of_pair in (("n < m", lambda r: r.n < r.m), ("n > m", lambda r: r.n > r.m)):
            spared = sum(of_pair(recipes[i]) for i in passed)  # a block may say too little to show it
            if all(of_pair(recipes[i]) for i in failed) and spared <= len(failed) // 20:
                said.append(f"only with {word}, and {'nearly ' * (spared > 0)}always there")
        return ", ".join(said)


def _differs(x: Any, y: Any) -> bool:
    return not np.array_equal(x, y)


def _neighbours(block: Block, can: Claims) -> list[Block]:
    """Blocks that differ from one in the last number of one input, or in the mask of one pair, or in the scale."""
    found = []
    for name in ("u", "v", "k", "q", "bias", "sink", "dlse"):
        x = getattr(block, name)
        if x is not None and x.size and name in block.inputs():
            y = x.copy()
            y.flat[-1] = -2 * y.flat[-1] or 1.0
            found.append(replace(block, **{name: y}))
    if can.scale:
        found.append(replace(block, scale=2 * block.the_scale))
    if block.mask is not None and can.handed != "none":
        for at in np.argwhere(block.mask):
            mask = block.mask.copy()
            mask[tuple(at)] = False
            other = replace(block, mask=mask)
            if other.visible.any(-1).all():
                found.append(other)
                break
    return [*found, replace(block)]


def judge(
    candidate: Kernel | None = None,
    *,
    backward: Kernel | None = None,
    forward: Kernel | None = None,
    reference: Kernel | None = None,
    fail_fast: bool = False,
    tell: Callable[[str], None] | None = None,
    **how: Any,
) -> Judgement:
    """Judge an attention kernel. Never raises for what the kernel does; ValueError, with one sentence, for bad input.

    Args:
        candidate, backward, forward: the kernel, one of the three: a function, or "module:name" or "file.py:name".
            ``backward`` is f(q, k, v, u, *, mask, scale, ...) -> (dq, dk, dv) or a dict with these as q, k, v and
            whatever else it knows (context, lse, bias, sink); ``forward`` is f(q, k, v, ...) -> context, or (context,
            lse), whose derivative ``framework`` takes. A candidate is a forward function where the framework can.
        reference: a function of the same form that must agree with the claims, too: a harness that holds candidates
            against a reference learns first whether that is right.
        fail_fast: stop at the first block that fails.
        tell: gets each line of the ledger as it comes.
        how: framework, device, layout, claims, names, options, examples, seed, only, blocks; see docs/judge.md.

    Returns:
        The :class:`Judgement`.
    """
    with Court(candidate, backward=backward, forward=forward, reference=reference, **how) as court:
        return court.run(fail_fast=fail_fast, tell=tell)
