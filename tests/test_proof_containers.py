"""Terms and claims are made of exactly what they say, and stay so: no list, no generator, no look-alike, no float."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest

from bayesgrad.symbolic.chain import Step
from bayesgrad.symbolic.claims import CLAIMS
from bayesgrad.symbolic.proof import AtMost, Chain, Entries, Equation, Induction, Minimum, Witness, check, every
from bayesgrad.symbolic.terms import (
    NODES,
    Add,
    At,
    Count,
    Delta,
    Diff,
    Entry,
    Fn,
    Index,
    Lookup,
    Mul,
    Num,
    Pow,
    Size,
    Sum,
    Tensor,
    Term,
    TermError,
    lift,
)

n = Size("n")
i, l = Index("i", n), Index("l", n)
c, x = Tensor("c"), Tensor("x", (n,))
look = Lookup("y", (n,), n)


class Text(str):
    """A name that could behave otherwise."""


class Whole(int):
    """A number that could."""


class Tuple(tuple):
    """A tuple that could."""


class Place(Index):
    """An index that could."""


class Letter(Tensor):
    """A tensor that could."""


class Product(Mul):
    """A term that could."""


class Part(Fraction):
    """A number that could."""


WRONG = {
    "size name": lambda: Size(Text("n")),
    "size flag": lambda: Size("n", 1),
    "index name": lambda: Index(Text("i"), n),
    "index size": lambda: Index("i", "n"),
    "lookup sizes": lambda: Lookup("y", [n], n),
    "lookup size": lambda: Lookup("y", (n,), "n"),
    "at": lambda: At(look, [i]),
    "at of a tensor": lambda: At(x, (i,)),
    "number": lambda: Num(Part(1, 2)),
    "number as int": lambda: Num(1),
    "count": lambda: Count(i),
    "entry of a list": lambda: Entry(x, [i]),
    "entry of a tuple that could": lambda: Entry(x, Tuple((i,))),
    "entry at an index that could": lambda: Entry(x, (Place("i", n),)),
    "entry of a tensor that could": lambda: Entry(Letter("x", (n,)), (i,)),
    "entry of a lookup": lambda: Entry(look, (i,)),
    "entry at a number": lambda: Entry(x, (0,)),
    "delta": lambda: Delta(i, 0),
    "sum of a generator": lambda: Add(x(i) for _ in range(1)),
    "sum of a list": lambda: Add([x(i)]),
    "sum of a number": lambda: Add((x(i), 1)),
    "product of a generator": lambda: Mul(c() for _ in range(2)),
    "product that could": lambda: Add((Product((c(), c())),)),
    "power of a number": lambda: Pow(2, 2),
    "power by a number that could": lambda: Pow(c(), Whole(2)),
    "power by a bool": lambda: Pow(c(), True),
    "sum over a lookup": lambda: Sum(look(i), x(look(i))),
    "sum of a number over an index": lambda: Sum(i, 1),
    "function name": lambda: Fn(Text("exp"), c()),
    "function argument": lambda: Fn("exp", 1),
    "derivative of a number": lambda: Diff(1, c()),
    "derivative by a sum": lambda: Diff(c(), c() + c()),
    "tensor sizes": lambda: Tensor("x", [n]),
    "tensor kind": lambda: Tensor("x", (n,), Text("positive")),
    "tensor through": lambda: Tensor("L", through=[c, c]),
    "tensor through three": lambda: Tensor("L", through=(c, c, c)),
    "bare term": lambda: lift(Term()),
    "lifted bool": lambda: lift(True),
    "lifted fraction that could": lambda: lift(Part(1, 2)),
    "claim of a number": lambda: Equation(c(), 1),
    "claim free": lambda: Equation(x(i), x(i), [i]),
    "claim given": lambda: Equation(c(), c(), given=[Equation(c(), c())]),
    "claim given a minimum": lambda: Equation(c(), c(), given=(Minimum(c(), lift(0)),)),
    "claim given a witness": lambda: Equation(c(), c(), given=(Witness(c(), c()),)),
    "claim says": lambda: Equation(c(), c(), says=Text("so")),
    "claim sample key": lambda: Equation(c(), c(), sample={"c": None}),
    "claim sample value": lambda: Equation(c(), c(), sample={c: 1}),
    "bound tight": lambda: AtMost(lift(0), c(), tight=[every(c)]),
    "bound tight tensor": lambda: AtMost(lift(0), c(), tight=(c,)),
    "bound turned": lambda: AtMost(lift(0), c(), at_most=False),
    "entries": lambda: Entries(x, (i, i)),
    "entries of another size": lambda: Entries(x, (Index("j", Size("m")),)),
    "entries at a lookup": lambda: Entries(x, (look(i),)),
    "minimum at": lambda: Minimum(c(), lift(0), at=c()),
    "witness relation": lambda: Witness(c(), c(), relation=">="),
    "witness size": lambda: Witness(c(), c(), sizes={n: 2.0}),
    "witness size that could": lambda: Witness(c(), c(), sizes={n: Whole(2)}),
    "witness size key": lambda: Witness(c(), c(), sizes={"n": 2}),
    "witness position": lambda: Witness(c(), c(), at={i: True}),
    "witness value": lambda: Witness(c(), c(), values={c: 0.5}),
    "witness list": lambda: Witness(c(), c(), values={x: [1]}),
    "witness key": lambda: Witness(c(), c(), values={"c": 1}),
    "witness lookup": lambda: Witness(c(), c(), values={look: (Fraction(0),)}),
    "induction base": lambda: Induction(c(), c(), base=Minimum(c(), lift(0))),
    "induction first": lambda: Induction(c(), c(), first={c: c()}),
    "step term": lambda: Step(1, "algebra", ""),
    "step tensors": lambda: Step(c(), "definition", "", [c]),
    "step rule": lambda: Step(c(), Text("algebra"), ""),
    "step equation": lambda: Step(c(), "rewrite", "", (), c()),
    "step context": lambda: Step(c(), "rewrite", "", (), None, c()),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_not_exactly_what_it_should_be_is_refused(name):
    with pytest.raises((TermError, TypeError)):
        WRONG[name]()


def test_every_node_and_every_claim_is_tried():
    """Each class of the language has at least one refusal above."""
    import inspect

    source = "".join(inspect.getsource(make) for make in WRONG.values())
    for kind in (*NODES, *CLAIMS, Size, Index, Lookup, At, Tensor, Entries, Step):
        assert f"{kind.__name__}(" in source, kind


def test_a_claim_does_not_change_when_what_it_was_made_from_does():
    values, sizes, at, sample = {x: (1, 2)}, {n: 2}, {i: 0}, {x: None}
    claim = Witness(x(i), lift(1), sizes=sizes, values=values, at=at, sample=sample)
    assert check(claim, Chain(x(i))).word == "proved"
    at[i], values[x], sizes[n] = 1, (5, 5), 7
    sample.clear()
    assert (claim.at[i], claim.values[x], claim.sizes[n], dict(claim.sample)) == (0, (1, 2), 2, {x: None})
    for mapping in (claim.at, claim.values, claim.sizes, claim.sample):
        with pytest.raises(TypeError):
            mapping[i] = 1  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        claim.rhs = lift(2)  # type: ignore[misc]


def test_the_steps_of_a_chain_are_read_once():
    """A list of steps that is another one at the second look proves nothing new."""

    class Fickle(list):
        looks = 0

        def __iter__(self):
            Fickle.looks += 1
            return super().__iter__()

    chain = Chain(c()).algebra(c() + 0, "add nothing")
    chain.steps = Fickle(chain.steps)
    assert check(Equation(c(), c()), chain).word == "proved"
    assert Fickle.looks == 1


def test_only_a_claim_and_a_chain_are_judged():
    class Sly(Equation):
        """An equation that could behave otherwise."""

    class Path(Chain):
        """A chain that could."""

    assert check(Sly(c(), c()), Chain(c())).reason == "got Sly and Chain, expected a claim and a chain"
    assert check(Equation(c(), c()), Path(c())).reason == "got Equation and Path, expected a claim and a chain"
    assert check("c = c", Chain(c())).word == "undecided"  # type: ignore[arg-type]
