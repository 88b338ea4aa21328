"""Plans, criteria and records of the experiments, on made-up runs: each judge must be able to say every verdict."""

from __future__ import annotations

import hashlib
import inspect
import re

import numpy as np
import pytest

from bayesgrad import evidence
from bayesgrad.training import claims, observed, records
from bayesgrad.training.config import from_json
from bayesgrad.training.experiments import EXPERIMENTS, sticky_markov
from bayesgrad.training.experiments import observations as obs
from bayesgrad.training.runs import Job, Run


def made_up(arm: str, seed: int, losses: list[float], kl: float = 0.1, role: str = "final", laws=None) -> Run:
    config = sticky_markov.tuned_config(sticky_markov.PUBLISHED[sticky_markov.PLAIN])
    metrics = [{"step": step, "loss": loss, "passes": step} for step, loss in enumerate(losses)]
    metrics[-1]["held_out_kl_bits"] = kl
    if laws is not None:
        metrics[-1]["laws"] = laws
    return Run(Job("sticky-markov", arm, config, seed, role), {"state": "finished", "seconds": 1.0}, metrics)


def falling(share: float, steps: int = 100) -> list[float]:
    """A straight curve that reaches SGD's final loss (1.0) after this share of the steps."""
    return [2.0 - step / (steps * share) for step in range(steps + 1)]


def pair(share: float) -> list[Run]:
    sgd = [made_up(sticky_markov.PLAIN, seed, falling(1.0)) for seed in range(5)]
    return sgd + [made_up(sticky_markov.VALUES, seed, falling(share + 0.01 * seed)) for seed in range(5)]


@pytest.mark.parametrize(("share", "verdict"), [(0.3, "supported"), (0.7, "conditional"), (1.2, "not supported")])
def test_em_like_faster_can_say_every_verdict(share, verdict):
    row = claims.judge("em-like-faster", pair(share))
    assert row["verdict"] == verdict
    low, high = row["interval"]
    assert low <= row["effect"] <= high


def test_without_runs_nothing_is_tested():
    for claim in claims.CRITERIA:
        assert claims.judge(claim, [])["verdict"] == "not tested", claim


@pytest.mark.parametrize(("shift", "verdict"), [(-0.1, "supported"), (0.0, "not supported"), (0.1, "not supported")])
def test_the_control_decides_whether_it_is_the_values(shift, verdict):
    noise = np.random.default_rng(0).normal(0, 0.01, 5)
    members = [made_up(sticky_markov.READ_OUT, seed, [2.0, 1.5]) for seed in range(5)]
    members += [made_up(sticky_markov.VALUES, seed, [2.0, 1.5 + shift + noise[seed]]) for seed in range(5)]
    assert claims.judge("em-effect-specific-to-values", members)["verdict"] == verdict


@pytest.mark.parametrize(("shift", "verdict"), [(-0.1, "supported"), (0.1, "not supported")])
def test_the_tuned_comparison_is_paired_and_held_out(shift, verdict):
    members = [made_up(sticky_markov.PLAIN_TUNED, seed, [2.0, 1.5], kl=0.3 + seed) for seed in range(5)]
    members += [made_up(sticky_markov.VALUES_TUNED, seed, [2.0, 1.5], kl=0.3 + seed + shift) for seed in range(5)]
    row = claims.judge("em-like-faster-tuned", members)
    assert row["verdict"] == verdict
    assert row["effect"] == pytest.approx(shift)


STEPS = [2.0**-k for k in range(5)]


def changes(c1: float = 0.0, c2: float = 1.0, c3: float = 0.0) -> dict:
    """Recorded changes whose residuals are |c1 t + c2 t^2 + c3 t^3|."""
    residual = [abs(c1 * t + c2 * t**2 + c3 * t**3) for t in STEPS]
    slope = float(np.polyfit(np.log(STEPS), np.log(residual), 1)[0])
    names = ("loss", "g", "b", "A")
    return {"slope": dict.fromkeys(names, slope), "t": STEPS, "residual": dict.fromkeys(names, residual)}


def law(holds: float = 0.5, agrees: float = 1.0, cosine: float = 0.8, m_step: float = 1e-14, error: float = 1e-15):
    return {
        "gradient_error": dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), error),
        "changes": changes(),
        "exact": {"value_step": 1e-14, "score_step": 1e-15, "feedback": 1e-14, "m_step": m_step},
        "feedback": {"law_agrees": agrees, "unconditional_holds": holds},
        "e_step": {"tokens": cosine, "weights": 0.1, "values": 0.2},
    }


@pytest.mark.parametrize(
    ("claim", "laws", "verdict"),
    [
        ("positive-feedback", law(holds=1.0), "supported"),
        ("positive-feedback", law(holds=0.5), "conditional"),
        ("positive-feedback", law(holds=0.5, agrees=0.99), "not supported"),
        ("em-structure", law(cosine=1.0), "supported"),
        ("em-structure", law(cosine=0.8), "conditional"),
        ("em-structure", law(cosine=1.0, m_step=1e-3), "not supported"),
        ("routing-law", law(), "supported"),
        ("routing-law", law(error=1e-6), "not supported"),
        ("value-law", law(), "supported"),
        ("value-law", law(error=1e-6), "not supported"),
    ],
)
def test_judges_of_single_steps_can_say_every_verdict(claim, laws, verdict):
    assert claims.judge(claim, [made_up("SGD", seed, [2.0, 1.0], laws=laws) for seed in range(3)])["verdict"] == verdict


def test_a_slope_outside_the_band_is_not_confirmed():
    good = [made_up("SGD", 0, [2.0, 1.0], laws=law())]
    assert {row["verdict"] for row in obs.observations(good).values()} == {"confirmed"}
    crooked = law()
    crooked["changes"]["slope"]["g"] = 1.85
    found = obs.observations([made_up("SGD", 0, [2.0, 1.0], laws=crooked)])
    assert found["dynamics.score-step"]["verdict"] == "not confirmed"
    assert found["dynamics.loss-decrease"]["verdict"] == "confirmed"


def test_signs_that_nobody_counted_are_not_confirmed():
    silent = law()
    silent["feedback"]["law_agrees"] = None
    found = obs.observations([made_up("SGD", 0, [2.0, 1.0], laws=silent)])
    assert found["dynamics.feedback"]["verdict"] == "not confirmed"
    found = obs.observations([made_up("SGD", seed, [2.0, 1.0], laws=rows) for seed, rows in enumerate((silent, law()))])
    assert found["dynamics.feedback"]["verdict"] == "confirmed"
    assert found["dynamics.feedback"]["sign_agreement"] == 1


def test_a_first_order_error_is_seen_and_a_vanishing_curvature_is_none():
    flat = obs.second_order_slope(STEPS, changes(c2=0.01, c3=1.0)["residual"]["loss"])
    assert changes(c2=0.01, c3=1.0)["slope"]["loss"] > 2.5
    assert flat == pytest.approx(2.0, abs=1e-9)
    for c1 in (1.0, 0.1, 0.02):
        wrong = law()
        wrong["changes"] = changes(c1=c1)
        found = obs.observations([made_up("SGD", 0, [2.0, 1.0], laws=wrong)])
        assert found["dynamics.loss-decrease"]["verdict"] == "not confirmed", c1


def test_criteria_are_named_by_their_text_and_code():
    for name, rule in claims.CRITERIA.items():
        assert name in claims.CLAIMS
        text, code = inspect.cleandoc(rule.judge.__doc__), inspect.getsource(rule.judge)
        assert rule.sha == hashlib.sha256(f"{text}\n{code}".encode()).hexdigest()
    with pytest.raises(ValueError, match="claim: got 'nonsense'"):
        claims.criterion("nonsense")


def test_the_tuning_plan_goes_from_ladder_to_multiples_to_fresh_seeds():
    done: dict[str, Run] = {}
    stages = []
    for _ in range(6):
        jobs = sticky_markov.plan("full", done)
        new = [job for job in jobs if job.name not in done]
        if not new:
            break
        stages.append({(job.role, job.seed) for job in new})
        for job in new:
            rate = job.config.update.rate
            # best at 0.32, diverging from 2 on
            state = "finished" if rate < 2 else "diverged"
            metrics = [{"step": 0, "loss": 2.0}, {"step": 1, "loss": 1.0, "held_out_kl_bits": abs(np.log(rate / 0.32))}]
            done[job.name] = Run(job, {"state": state}, metrics)
    assert {role for role, _ in stages[0]} == {"final", "tuning"}
    assert {seed for role, seed in stages[0] if role == "tuning"} == {1000}
    assert stages[1] == {("tuning", 1000), ("tuning", 1001)}
    assert stages[2] == {("final", seed) for seed in range(5)}
    assert len(stages) == 3
    finals = [job for job in sticky_markov.plan("full", done) if job.role == "final" and job.arm in sticky_markov.TUNED]
    assert len(finals) == 5 * len(sticky_markov.TUNED)
    assert {job.config.update.rate for job in finals} == {0.32}


def test_tuned_arms_spend_the_same_number_of_passes():
    for families in sticky_markov.TUNED.values():
        for family in families:
            update = family(0.1)
            cost = 1 + getattr(update, "e_steps", 0) + getattr(update, "m_steps", 0)
            assert abs(sticky_markov.tuned_config(update).steps * cost - sticky_markov.BUDGET) < cost


def test_committed_records_are_whole_small_and_judged_by_todays_criteria():
    total = 0
    for name, experiment in EXPERIMENTS.items():
        path = records.path_of(observed.CHECKOUT, name, "full")
        record = records.load(path)
        total += path.stat().st_size
        assert record["state"] == "finished"
        assert records.is_current(record, experiment), f"{path}: judged by other criteria; make it again"
        assert {row["id"] for row in record["claims"]} == set(experiment.claims)
        for arm in record["arms"].values():
            assert from_json(arm["config"]).hash == arm["config_hash"]
        for row in record["claims"]:
            assert row["criterion_sha"] == claims.CRITERIA[row["id"]].sha
            assert row["criterion"] == claims.CRITERIA[row["id"]].text
    assert total < 2 * 2**20


def test_the_fragment_without_records_judges_nothing_and_with_the_committed_ones_every_tested_claim(tmp_path):
    assert observed.fragment(tmp_path)["claims"] == observed.fragment(tmp_path)["records"] == []
    path = observed.write(tmp_path)
    assert evidence.load("observed", path.parent)["sources"]
    found = observed.fragment()
    judged = {row["id"]: {cell["record"] for cell in row["cells"]} for row in found["claims"]}
    assert {name for experiment in EXPERIMENTS.values() for name in experiment.claims} == set(judged)
    assert all(name.endswith("/full.json") and name in found["sources"] for names in judged.values() for name in names)


@pytest.fixture
def toy_experiment(tmp_path, monkeypatch):
    """X1 at toy size, with its record and runs in a temporary checkout; a thread stands in for the worker processes."""
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace

    from bayesgrad.training import cli, sweep
    from bayesgrad.training.config import SGD, Config, OneHead, StickyMarkov

    config = Config(
        task=StickyMarkov(length=30, symbols=3, d_x=4, held_out=1),
        model=OneHead(d_k=2, d_v=3),
        update=SGD(rate=0.3),
        steps=4,
        dtype="float64",
        gradients="closed",
        evaluate_every=2,
        laws=29,
    )
    toy = replace(
        EXPERIMENTS["laws-in-training"],
        plan=lambda size, done: [Job("laws-in-training", "SGD", config, seed) for seed in range(3)],
    )
    monkeypatch.setattr(sweep, "processes", lambda workers, threads: ThreadPoolExecutor(workers))
    monkeypatch.setattr(cli, "HOME", tmp_path)
    monkeypatch.setattr(cli, "record_key", lambda each, jobs: "key")
    monkeypatch.setitem(cli.EXPERIMENTS, "laws-in-training", toy)
    return ["run", "laws-in-training", "--runs", str(tmp_path / "runs"), "--workers", "1"]


def test_stages_that_were_done_before_are_all_in_the_record(toy_experiment, tmp_path, monkeypatch):
    """Each seed is planned only when the one before it is done: with all of them on disk, all must be asked for."""
    from dataclasses import replace

    from bayesgrad.training import cli

    toy = cli.EXPERIMENTS["laws-in-training"]
    every = toy.plan("quick", {})

    def staged(size, done):
        return every[: 1 + sum(job.name in done for job in every)][:3]

    monkeypatch.setitem(cli.EXPERIMENTS, "laws-in-training", replace(toy, plan=staged))
    path = records.path_of(tmp_path, "laws-in-training", "quick")
    for _ in range(2):
        assert cli.main(toy_experiment) == 0
        record = records.load(path)
        assert record["runs"] == {"done": 3, "planned": 3}
        path.unlink()


def test_a_record_is_made_once_and_then_fresh(toy_experiment, tmp_path, capsys):
    from bayesgrad.training import cli

    assert cli.main(toy_experiment) == 0
    path = tmp_path / "report" / "build" / "records" / "laws-in-training" / "quick.json"
    record = records.load(path)
    assert record["state"] == "finished"
    assert {row["verdict"] for row in record["results"].values()} == {"confirmed"}
    assert {row["id"]: row["verdict"] for row in record["claims"]}["routing-law"] == "supported"
    told = capsys.readouterr().out
    assert "a quick run decides no claim" in told
    assert not re.search(r"supported|conditional|not tested|not trained", told)
    cli.print_summary(record | {"size": "full"}, "here")
    assert "routing-law: supported (" in capsys.readouterr().out
    before = path.read_bytes()
    assert cli.main(toy_experiment) == 0
    assert "fresh" in capsys.readouterr().out
    assert path.read_bytes() == before
    path.write_text("{")  # a damaged record is made again from the runs
    assert cli.main(toy_experiment) == 0
    assert not list(records.differences(records.load(path), record))


def test_an_interrupt_leaves_a_partial_record_that_judges_nothing(toy_experiment, tmp_path, monkeypatch, capsys):
    from bayesgrad.training import cli, sweep
    from bayesgrad.training.runs import execute

    def stopped_after_one(jobs, root, fingerprint, **_):
        execute(jobs[0].config.as_json(), jobs[0].seed, str(jobs[0].folder(root)), fingerprint, label=jobs[0].arm)
        raise sweep.Stopped

    whole = sweep.run_jobs
    monkeypatch.setattr(sweep, "run_jobs", stopped_after_one)
    assert cli.main(toy_experiment) == 130
    assert "python -m bayesgrad.training run laws-in-training --size quick" in capsys.readouterr().err
    path = tmp_path / "report" / "build" / "records" / "laws-in-training" / "quick.json"
    record = records.load(path)
    assert record["state"] == "partial"
    assert record["runs"] == {"done": 1, "planned": 3}
    assert {row["verdict"] for row in record["claims"]} == {"not tested"}
    assert observed.fragment(tmp_path)["claims"] == []
    monkeypatch.setattr(sweep, "run_jobs", whole)
    assert cli.main(toy_experiment) == 0
    assert records.load(path)["state"] == "finished"
