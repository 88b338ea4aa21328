"""Wrong kernels are rejected with the verdict and the mistake that is theirs, and right ones are not."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import bayesgrad
from bayesgrad.evidence import ROOT
from bayesgrad.testing import Block, Claims, Recipe, judge
from bayesgrad.testing.demonstrations import DEMONSTRATIONS
from bayesgrad.testing.kernels.formats import FORMATS
from bayesgrad.testing.kernels.ledger import WIDTH, Case, Judgement

FILE = ROOT / "tests" / "_kernels.py"
SMALL = "dtypes=float32,largest=17,widest=16"
FEW = "dtypes=float32,seconds=5,memory=600"
EVERYTHING = (
    "layout=bhnd,groups,bias=gradient,alibi=lower-right,softcap,sink=gradient,dropout,lse=gradient,empty_rows,"
    "unseen_nan,no_keys,largest=33,widest=32"
)


def judged(name: str, claims: str = FEW, *only: str, **how: Any) -> Judgement:
    return judge(backward=f"{FILE}:{name}", claims=claims, only=only, **how)


def first_bad(judgement: Judgement) -> Case:
    return next(case for case in judgement.cases if not case.good)


def test_a_right_kernel_passes_everything_at_default_claims() -> None:
    said: list[str] = []
    judgement = judge(DEMONSTRATIONS["right"], tell=said.append)
    assert judgement.good, judgement.table()
    assert judgement.verdict == "ok"
    assert {case.verdict for case in judgement.cases} == {"ok"}
    assert all(case.tried > 0 for case in judgement.cases)
    assert max(case.worst for case in judgement.cases) > 0.01  # rounding is seen: tolerances are not slack
    assert said == judgement.table().splitlines()
    assert "2212 of 2212 pairs of levels" in judgement.covered
    assert not any("NaN" in case.name or "no keys" in case.name for case in judgement.cases)
    assert "NaN at keys that nobody sees" in judgement.table().replace("\n  ", " ")


@pytest.mark.parametrize("name", ["full", "prints"])
def test_right_kernels_raise_no_alarm(name: str) -> None:
    judgement = judged(name, EVERYTHING if name == "full" else FEW + ",largest=17")
    assert judgement.good, judgement.table()


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("causal_lower", "masks=causal-lower-right"),
        ("causal_upper", "masks=causal-upper-left"),
        ("causal_upper", "masks=causal,square"),
        ("window_lower", "masks=window-lower-right,window=4:1"),
        ("padding", "masks=keys,layout=bhnd"),
        ("inner_layout", "layout=bnhd,groups,bias=gradient,lse=yes"),
        ("blocks_only", "lengths=16,widths=8"),
        ("half_precision", "dtypes=float16"),
        ("last_bits", "dtypes=float32,deterministic=no"),
        ("needs_writable", "dtypes=float32,readonly=no"),
    ],
)
def test_right_kernels_pass_what_they_claim(name: str, claims: str) -> None:
    claims += "" if "dtypes" in claims else ",dtypes=float32"
    judgement = judged(name, f"{claims},largest=65,widest=72")
    assert judgement.good, judgement.table()


CONDITIONS: dict[str, Any] = {
    "deep": lambda at: np.abs(at.the_scale * (at.q @ at.k.swapaxes(2, 3))).max() > 10,
    "deeper": lambda at: np.abs(at.the_scale * (at.q @ at.k.swapaxes(2, 3))).max() > 50,
    "large_scale": lambda at: at.scale > 1,
    "small_scale": lambda at: at.scale < 0.05,
    "negative_scale": lambda at: at.scale < 0,
    "tail": lambda at: at.q.shape[3] == 65,
    "odd_values": lambda at: at.v.shape[3] in (6, 7, 9),
    "strided": lambda at: at.memory in ("transposed", "sliced", "every"),
    "strided_upstream": lambda at: at.memory == "expanded",
    "hidden_tile": lambda at: at.k.shape[2] > 65 and not at.mask.all(),
    "padded_left": lambda at: at.mask.ravel().tolist() == [False, True],
    "long_keys": lambda at: at.k.shape[2] == 129,
    "long_queries": lambda at: at.q.shape[2] == 128,
    "tiny_values": lambda at: np.abs(at.v).max() < 1e-8,
    "tiny_upstream": lambda at: np.abs(at.u).max() < 1e-8,
    "large_upstream": lambda at: np.abs(at.u).max() > 1e8,
    "one_in_a_thousand": lambda at: at.q.shape[2:] == at.k.shape[2:] == (1, 1),
    "last_key": lambda at: at.k.shape[2] == 127,
    "tf32_inputs": lambda at: at.q.shape[2:] == (1, 1),
    "tf32_scores": lambda at: at.k.shape[2] <= 3,
}
"""A fault that needs a condition -> what is true of the smallest block that shows it."""


LONG = ("tail", "hidden_tile", "padded_left", "long_keys", "long_queries", "last_key")
"""Those that only the default lengths and widths show; the others are looked for in a smaller design, in less time."""


@pytest.mark.parametrize("name", CONDITIONS)
def test_faults_that_need_a_condition_are_met_and_shrink_to_it(name: str) -> None:
    (case,) = judged(name, "dtypes=float32" if name in LONG else SMALL, "design").cases
    assert case.verdict == "wrong", case
    assert case.failed > 0
    smallest = eval(case.example, {"np": np, "Block": Block, "Recipe": Recipe})
    block = smallest if isinstance(smallest, Block) else smallest.block(Claims(), FORMATS["float32"])
    assert CONDITIONS[name](block), case
    # It fails again, with the same words.
    (again,) = judged(name, "dtypes=float32", blocks=[smallest]).cases
    assert (again.verdict, again.detail) == ("wrong", case.detail)
    where = {"last_key": "key 126 only", "tail": "column 64 and later", "long_keys": "all with m >= 129"}
    assert where.get(name, "") in case.where


VERDICTS = {
    "raises": ("raised", "ZeroDivisionError: no answer"),
    "exits": ("died", "exited with status 0"),
    "exits_at_last": ("raised", "SystemExit: 0"),
    "crashes": ("died", "ended by signal 11"),
    "hangs": ("timed out", "no answer after 1 s"),
    "grows": ("memory", "used more than 300 MB"),
    "forges": ("no verdict", "no answer to what was asked"),
    "two_results": ("shape", "expected three arrays"),
    "no_array": ("shape", "dk is no array"),
    "other_shape": ("shape", "dq has shape"),
    "nan": ("nan", "= nan, expected"),
    "writes": ("wrote", "changed its input u"),
    "upstream_itself": ("shared", "dv lies in the memory of its input u"),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_each_way_to_fail_is_one_line(name: str) -> None:
    limits = {"hangs": ",seconds=1", "grows": ",memory=300,seconds=20"}.get(name, ",seconds=20")
    claims = f"dtypes=float32{limits}"
    case = judged(name, claims, "design" if name == "exits_at_last" else "small", fail_fast=name == "grows").cases[0]
    verdict, detail = VERDICTS[name]
    assert case.verdict == verdict, case
    assert detail in case.detail
    assert "\n" not in case.detail


MEMORIES = {
    "writes_mask": ("small", "wrote", "changed its input mask"),
    "needs_writable": ("read-only", "raised", "read-only"),
    "one_buffer": ("asked twice", "held", "its buffer is reused"),
    "last_bits": ("asked often", "varies", "other last digits"),
    "race": ("asked often", "varies", "but not each of"),
    "chance": ("asked often", "varies", "but not each of"),
    "worn": ("", "varies", "the very first block has other results at the end"),
    "cached_by_pointer": ("refilled", "wrong", "dq["),
    "cached_by_shape": ("asked twice", "wrong", "d"),
    "cached_by_content": ("one number changed", "wrong", "differs in u alone"),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_what_a_kernel_remembers_is_noticed(name: str) -> None:
    only, verdict, detail = MEMORIES[name]
    judgement = judged(name, "dtypes=float32,largest=33,widest=8", *filter(None, [only]))
    case = first_bad(judgement)
    assert case.verdict == verdict, judgement.table()
    assert detail in case.detail


def test_another_dtype_is_refused_and_both_formats_are_told_apart() -> None:
    judgement = judged("other_dtype", "largest=5", "small")
    assert [case.verdict for case in judgement.cases] == ["dtype", "ok"]
    assert judgement.cases[0].detail == "dq is float32, expected float64, as the inputs"


MISTAKES = {
    "sign": ("", "dq: the opposite sign"),
    "half": ("", "dv: 0.5 times what it must be"),
    "scale_twice": ("", "dq and dk: the scale is applied twice"),
    "scale_missing": ("", "dk: the scale is missing"),
    "no_mean": ("", "the mean of b under the weights is missing"),
    "mask_forgotten": ("", "the mask is ignored, in the backward pass only"),
    "transposed": ("square,equal_widths", "dq: transposed"),
    "single": ("dtypes=float64", "the errors are those of arithmetic in float32"),
    "tf32_inputs": ("", "the errors are those of arithmetic in TF32"),
    "causal_upper": ("masks=causal-lower-right", "the mask is aligned upper-left"),
    "window_off_by_one": ("masks=window-lower-right,window=4:1", "aligned lower-right, and one key narrower"),
    "ring": ("masks=causal-lower-right", "the mask is aligned upper-left, in the backward pass only"),
    "cap_forgotten": ("layout=bhnd,softcap", "the derivative of the soft cap is missing"),
    "dropout_transposed": ("layout=bhnd,dropout,square", "the dropout multiplier is transposed"),
    "dlse_forgotten": ("layout=bhnd,lse=gradient", "the gradient of the log-sum-exp is ignored"),
    "one_of_the_group": ("layout=bhnd,groups", "taken from the first head alone"),
    "context_wrong": ("layout=bhnd", "context: 1.001 times what it must be"),
    "half_precision_no_mean": ("dtypes=float16", "the mean of b under the weights is missing"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_likely_mistake_is_named(name: str) -> None:
    claims, said = MISTAKES[name]
    claims = ",".join(filter(None, (claims, "" if "dtypes" in claims else "dtypes=float32", "largest=17,widest=16")))
    (case,) = judged(name, claims, "small").cases
    assert case.verdict == "wrong", case
    assert said in case.likely, case


@pytest.mark.parametrize(
    ("name", "claims", "said"),
    [
        ("bias_scaled", "layout=bhnd,bias=gradient", "dbias["),
        ("later_heads", "layout=bhnd", "dv["),
        ("full", "layout=bhnd,masks=none", ""),
    ],
)
def test_more_than_three_results_are_judged(name: str, claims: str, said: str) -> None:
    judgement = judged(name, f"{claims},dtypes=float32,largest=17,widest=16", "small", "design")
    assert judgement.good == (not said), judgement.table()
    assert not said or said in first_bad(judgement).detail
    if name == "later_heads":
        assert "head 1 and later" in first_bad(judgement).where


def test_the_wrong_alignment_of_a_backward_pass_is_shown_by_one_query_and_two_keys() -> None:
    case = judged("ring", f"masks=causal-lower-right,{SMALL}", "design").cases[0]
    block = eval(case.example, {"np": np, "Block": Block, "Recipe": Recipe})
    assert block.sizes == {"n": 1, "m": 2, "d_k": 1, "d_v": 1, "batch": 1, "heads": 1, "key heads": 1}
    assert "only with n < m, and always there" in case.where
    # It keeps a log-sum-exp, in which huge ties are lost.
    assert judged("ring", "masks=causal,square,huge=no,dtypes=float32,largest=17").good


def test_functions_of_this_process_are_judged_in_another() -> None:
    factor = 2.0

    def doubled(q: Any, k: Any, v: Any, u: Any, *, mask: Any, scale: float) -> Any:
        got = bayesgrad.attention_gradients(q, k, v, u, mask=mask, scale=scale)
        return got.queries, got.keys, got.values * factor

    judgement = judge(doubled, claims={"dtypes": ("float32",), "largest": 17}, only=["small"])
    assert judgement.function.startswith("test_functions_of_this_process")
    assert judgement.cases[0].likely == "dv: 2 times what it must be"
    factor = 1.0
    assert judge(doubled, claims=Claims(dtypes=("float64",), largest=17, no_keys=True, empty_rows=True)).good


def test_a_reference_must_be_right_too() -> None:
    right, wrong = f"{FILE}:right", f"{FILE}:sign"
    how: dict[str, Any] = {"claims": "dtypes=float32,largest=17", "only": ["small"]}
    assert judge(right, reference=right, **how).good
    case = judge(right, reference=wrong, **how).cases[0]
    assert case.verdict == "reference"
    assert case.detail.startswith("the reference is not what is claimed: dq[")
    assert judge(wrong, reference=right, **how).cases[0].verdict == "wrong"


def test_it_stops_at_the_first_failure_and_gives_up_on_a_kernel_that_never_answers() -> None:
    judgement = judged("sign", SMALL, fail_fast=True)
    assert len(judgement.cases) == 1
    assert judgement.cases[0].tried < 10
    assert "stopped after the first failure" in judgement.stopped
    assert not judgement.good
    never = judged("exits", SMALL)
    assert len(never.cases) == 3
    assert "6 calls without an answer" in never.stopped
    assert not never.good


def test_the_ledger_is_readable_and_machines_can_read_it() -> None:
    judgement = judged("strided", SMALL, "small", "design")
    lines = judgement.table().splitlines()
    assert max(map(len, lines)) <= WIDTH
    data = json.loads(judgement.json())
    assert data["verdict"] == "not ok"
    assert [case["name"] for case in data["cases"]] == ["float32: small blocks", "float32: design"]
    suite = ET.fromstring(judgement.junit())
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "wrong"
    stopped = judged("sign", SMALL, fail_fast=True)
    assert ET.fromstring(stopped.junit()).find("testcase/error") is not None


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "got 0 kernels, expected one"),
        ({"candidate": "a:b", "forward": "a:b"}, "got 2 kernels"),
        ({"candidate": "nothing"}, "expected module:name or file.py:name"),
        ({"candidate": "no_such_module:f"}, "no_such_module cannot be imported"),
        ({"candidate": "math:nothing"}, "has no function 'nothing'"),
        ({"candidate": "math:pi"}, "has no function 'pi'"),
        ({"candidate": f"{FILE}:causal_lower"}, "cannot be called as q, k, v, u, mask, scale"),
        ({"candidate": f"{FILE}:right", "claims": "bias=yes"}, "cannot be called as q, k, v, u, mask, scale, bias"),
        ({"candidate": "a:b", "framework": "tensorflow"}, "framework: got 'tensorflow'"),
        ({"forward": "a:b"}, "expected one that takes derivatives"),
        ({"candidate": "a:b", "device": "cuda"}, "device: got 'cuda'"),
        ({"candidate": "a:b", "examples": -1}, "examples: got -1"),
        ({"candidate": "a:b", "only": ["nothing"]}, "no case has 'nothing' in its name"),
        ({"candidate": "a:b", "claims": "forward_mode"}, "expected a forward function"),
        ({"candidate": "math:sin", "reference": "math:nothing", "claims": "masks=none"}, "cannot be called"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_one_sentence(how: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")) as refused:
        judge(**how)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed", "got 'speed', expected some of layout"),
        ("largest=many", "largest: got 'many', expected a whole number of at least 2"),
        ("widths=0", "at least 1"),
        ("huge=perhaps", "huge: got 'perhaps', expected yes or no"),
        ("masks=some", "masks: got 'some'"),
        ("masks=none+any", "at most one of none, keys, any"),
        ("masks=causal", "expected causal-upper-left (the first query at the first key), causal-lower-right"),
        ("masks=window-upper-left", "window=left:right, both or neither"),
        ("window=3:0", "window=left:right, both or neither"),
        ("masks=window-upper-left,window=3", "expected left:right, such as 4:0"),
        ("dtypes=float8", "expected some of float64"),
        ("layout=hnd", "expected one of nd, bhnd, bnhd"),
        ("groups", "expected a layout with heads"),
        ("lengths=64,largest=32", "multiples of 64 up to 32"),
        ("bias=maybe", "expected one of no, yes, gradient"),
        ("masks=causal-upper-left,alibi=lower-right", "expected the same alignment"),
    ],
)
def test_claims_that_make_no_sense_are_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        Claims.parse(text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_claims_in_words() -> None:
    text = "equal_widths, masks=keys+causal-lower-right,scale=no,dtypes=float32+float16,largest=300,widths=8,bias"
    claims = Claims.parse(text)
    assert (claims.handed, claims.band) == ("keys", {"align": "lower-right", "left": None, "right": 0})
    assert (claims.equal_widths, claims.scale, claims.widths, claims.bias) == (True, False, 8, "yes")
    assert Claims.parse(claims.sentence()) == claims
    assert "other scales than 1/sqrt(d_k)" in claims.unclaimed()
    assert Claims.parse({"largest": 7}) == Claims(largest=7)
    with pytest.raises(ValueError, match="got 'larger'"):
        Claims.parse({"larger": 7})
