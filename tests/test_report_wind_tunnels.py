"""Figures and tables of the wind tunnels: what they must show, where they stand, and that absent data draws nothing."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from bayesgrad.evidence import BadEvidence
from report import panels
from report.document import Figure, Note, Table, walk
from report.sections import experiments, tables, wind_tunnels
from report.sections import searches as tuning
from tests import _report_sample as sample

FIGURES = {  # optional key -> figures that are drawn from it
    "by_position": {"entropy", "kl"}, "traces": {"sequences", "sequences-of-others"},
    "calibration": {"calibration", "calibration-of-others"},
    "memory": {"memory"}, "mislabelled": {"mislabelled"},
}  # fmt: skip


def drawings(record):
    base = f"experiment-{record['experiment']}-"
    return {
        name.removeprefix(base): drawn
        for piece in experiments.pieces(record).values()
        for name, drawn in piece.drawings.items()
    }


def words(drawn):
    """Everything that a drawing says, a line for each label."""
    labels = ElementTree.fromstring(drawn.svg()).iter("text")
    return "\n".join("".join(label.itertext()).replace("\u200b", "") for label in labels)


def blocks(record):
    return list(walk(experiments.experiment("a record", record).blocks))


def line(parts):
    return "".join(getattr(part, "text", "") or line(getattr(part, "parts", ())) for part in parts)


def table(record, name):
    return next(block for block in blocks(record) if isinstance(block, Table) and block.name == name)


def cells(found):
    return [[line(cell) for cell in row] for row in found.rows]


@pytest.fixture(params=["bijection", "hmm"])
def record(request):
    return sample.wind_tunnel(request.param)


def test_every_key_has_its_figures_and_each_is_told_once(record):
    names = set(drawings(record))
    wanted = {figure for key, figures in FIGURES.items() if key in record for figure in figures}
    assert wanted | {"loss", "held-out"} == names
    told = [block.name for block in blocks(record) if isinstance(block, Figure)]
    assert sorted(told) == sorted(f"experiment-{record['experiment']}-{name}" for name in names)


@pytest.mark.parametrize("key", [*FIGURES, "trained", "ranges", "tuning", "seconds"])
def test_absent_data_draws_nothing(record, key):
    before = set(drawings(record))
    record.pop(key, None)
    gone = {**FIGURES, "trained": {"calibration-of-others"}}.get(key, set())  # then none stands apart
    assert set(drawings(record)) == before - gone
    experiments.experiment("a record", record)


def test_another_form_of_by_position_is_left_alone(record):
    lists = {"exact_entropy_bits": [2.0, 1.0], "model_entropy_bits": [2.0, 1.1], "kl_bits": [0.0, 0.1]}
    for form in (lists, None, {"an arm": lists}):
        record["by_position"] = form
        assert not set(drawings(record)) & {"entropy", "kl"}


def test_axes_name_units_and_figures_name_bayes_floors_and_what_did_not_train(record):
    drawn = drawings(record)
    entropy, divergence = words(drawn["entropy"]), words(drawn["kl"])
    for label in ("entropy of the prediction (bits)", "position t", "exact (Bayes)", "uniform output", "rotary"):
        assert label in entropy.splitlines()
    for label in ("KL(Bayes ∥ model) (bits)", "uniform", "window filter of 1", "position-wise MLP (not trained)"):
        assert label in divergence.splitlines()
    assert re.search("^10−\\d", divergence, re.MULTILINE), "no powers of ten on the axis"
    assert "best constant entropy" not in divergence  # it has no KL
    for name in ("sequences", "calibration"):
        assert all(panel in words(drawn[name]) for panel in ("exact", "model"))
    assert "pairs" in words(drawn["calibration"])


def test_beyond_the_trained_range_is_marked_only_where_positions_go_there():
    assert "beyond" in words(drawings(sample.wind_tunnel("hmm"))["kl"]).splitlines()
    assert "beyond" not in words(drawings(sample.wind_tunnel("bijection"))["kl"]).splitlines()


def test_a_quick_record_is_brief_beside_the_full_one():
    quick, full = sample.wind_tunnel("hmm"), sample.wind_tunnel("hmm") | {"size": "full"}
    told = list(walk(experiments.experiment("quick", quick, full).blocks))
    names = {block.name.removeprefix("experiment-hmm-") for block in told if isinstance(block, Figure)}
    assert names == {"entropy", "kl", "held-out"}
    assert sum(isinstance(block, Note) for block in told) == 1
    assert not [block for block in told if "supported" in line(getattr(block, "line", ()))]
    (said,) = [block for block in told if "In brief" in line(getattr(block, "line", ()))]
    assert "#experiment-hmm-full" in [getattr(part, "url", "") for part in said.line]


def test_the_same_record_is_the_same_drawing(record):
    first, second = drawings(record), drawings(record)
    assert {n: (d.svg(), d.tikz()) for n, d in first.items()} == {n: (d.svg(), d.tikz()) for n, d in second.items()}


def test_curves_are_the_record(record):
    canvas = drawings(record)["entropy"]
    exact = next(iter(record["by_position"].values()))["exact_entropy_bits"]
    positions = next(iter(record["by_position"].values()))["position"]
    assert [[p, round(value, 5)] for p, value in zip(positions, exact, strict=True)] in canvas.data["lines"]
    kl = record["by_position"]["rotary"]["kl_bits"]
    logs = [[p, round(math.log10(value), 5)] for p, value in zip(positions, kl, strict=True)]
    assert logs in drawings(record)["kl"].data["lines"]
    counts = record["calibration"]["LSTM"]["counts"]
    assert [counts] in [panel.data["matrices"] for panel in drawings(record)["calibration"].panels]


def stops(path):
    """The points that a path visits."""
    x = y = 0.0
    for command, rest in re.findall("([MLlhvaZ])([^MLlhvaZ]*)", path):
        numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", rest)]
        if command in "ML":
            x, y = numbers
        elif command == "h":
            x += numbers[0]
        elif command == "v":
            y += numbers[0]
        elif command in "al":
            x, y = x + numbers[-2], y + numbers[-1]
        yield x, y


def test_nothing_is_drawn_outside(record):
    for name, drawn in drawings(record).items():
        for canvas in getattr(drawn, "panels", (drawn,)):
            root = ElementTree.fromstring(canvas.svg())
            for path in root.iter("path"):
                for x, y in stops(path.get("d")):
                    assert -1 <= x <= canvas.width + 1, name
                    assert -1 <= y <= canvas.height + 1, name
            for text in root.iter("text"):
                assert 0 <= float(text.get("x")) <= canvas.width, name
                assert 0 <= float(text.get("y")) <= canvas.height, name


def test_tasks_that_differ_have_figures_of_their_own(record):
    other = record["by_position"]["LSTM"]
    other["exact_entropy_bits"] = [value + 0.5 for value in other["exact_entropy_bits"]]
    drawn = drawings(record)
    assert {"entropy", "entropy-2", "kl", "kl-2"} <= set(drawn)
    assert "LSTM" not in words(drawn["entropy"])
    assert "LSTM" in words(drawn["entropy-2"])
    assert len(drawn["entropy-2"].panels) == 1  # alone it takes little room
    assert len(wind_tunnels.groups(wind_tunnels.by_position(record))) == 2


def test_floors_belong_to_the_task():
    record = sample.wind_tunnel("bijection")
    for n, arm in enumerate(record["arms"].values()):
        arm["config"] = {"task": {"kind": "bijection", "values": 20 if n == 3 else 8, "batch": n}}
    told = [block for block in blocks(record) if isinstance(block, Table) and block.name == "floors"]
    assert [line(block.caption).split("Task of: ")[1] for block in told] == ["learned positions, rotary, LSTM."]
    record["floors"] = {"position-wise MLP": {"uniform": {"kl_bits": 1.1}}}
    told = [block for block in blocks(record) if isinstance(block, Table) and block.name == "floors"]
    assert len(told) == 2
    assert cells(told[1]) == [["uniform", "1.10"]]
    assert set(drawings(record)) >= {"held-out", "held-out-2"}


def test_figures_stand_beside_their_claims():
    told = blocks(sample.wind_tunnel("hmm") | {"size": "full"})
    claims = {
        line(block.blocks[0].line).split(":")[0].strip(): n for n, block in enumerate(told) if isinstance(block, Note)
    }
    places = {
        block.name.removeprefix("experiment-hmm-full-"): n for n, block in enumerate(told) if isinstance(block, Figure)
    }
    order = ["transformer-reaches-bayes", "entropy", "kl", "calibration", "tracks-single-sequences", "sequences"]
    order += ["hmm-transformer-filters", "memory", "length-generalisation-smooth"]
    found = [claims.get(name, places.get(name)) for name in order]
    assert None not in found
    assert found == sorted(found)


def test_ranges_are_never_pooled():
    rows = cells(table(sample.wind_tunnel("hmm"), "ranges"))
    assert [row[:2] for row in rows[:2]] == [
        ["learned positions", "trained, 1\u00a0to\u00a08"],
        ["learned positions", "beyond, 9\u00a0to\u00a012"],
    ]
    assert rows[0][2] != rows[1][2]


def test_arms_show_parameters_time_and_whether_they_trained(record):
    found = table(record, "models")
    heads = [line(cell) for cell in found.header]
    rows = cells(found)
    assert {"parameters", "seconds a run", "beats the floors"} <= set(heads)
    assert rows[1][heads.index("parameters")] == "453\u202f000 (+0.44\u00a0%)"
    assert [row[-1] for row in rows] == ["yes", "yes", "yes", "no: not trained"]
    assert rows[3][0] == "position-wise MLP (not trained)"
    warned = [block for block in blocks(record) if isinstance(block, Note) and block.kind == "warn"]
    assert len(warned) == 1


def test_memory_says_at_least_where_the_windows_end():
    rows = {row[0]: row[2] for row in cells(table(sample.wind_tunnel("hmm"), "memory"))}
    assert rows["rotary"] == "at least 12"
    assert rows["learned positions"] == "8.0"
    assert wind_tunnels.equivalent({"equivalent_memory": None}) == "–"


def test_memory_of_the_stationary_filter_and_bounds():
    record = sample.wind_tunnel("hmm")
    for row in record["memory"].values():
        row |= {"stationary_kl_bits": 0.08, "interval": [2.0, 3.0]}
    record["memory"]["position-wise MLP"] |= {"relation": "<=", "equivalent_memory": 0.0, "interval": [0.0, 0.0]}
    assert [0.0, round(math.log10(0.08), 5)] in drawings(record)["memory"].data["dots"]
    rows = {row[0]: row[2] for row in cells(table(record, "memory"))}
    assert rows["position-wise MLP (not trained)"] == "at most 0"
    assert rows["learned positions"] == "8.0 [2.00,\u00a03.00]"


def test_single_sequences_are_those_of_an_arm_whose_sequences_differ(record):
    same = record["traces"]["rotary"][0]
    record["traces"]["rotary"] = [same] * 4
    told = next(block for block in blocks(record) if isinstance(block, Figure) and block.name.endswith("-sequences"))
    assert "learned positions" in line(told.caption)


def test_quantiles_over_sequences(record):
    quantiles = {"level": [0.5, 0.95, 1.0], "entropy_mae_bits": [0.01, 0.02, 0.5], "kl_bits": [0.0, 0.1, 0.2]}
    share = {"mean": 0.9, "interval": [0.8, 1.0], "unit": "share of held-out sequences"}
    record["by_sequence"] = {
        "LSTM": {"share_followed": share, "quantiles": quantiles},
        "rotary": {"share_followed": None, "quantiles": quantiles},
    }
    found = table(record, "followed")
    assert [line(cell) for cell in found.header][2:] == ["50.0 %", "95.0 %", "worst"]
    assert cells(found)[0] == ["LSTM", "0.9000 [0.800,\u00a01.00]", "0.0100", "0.0200", "0.500"]
    assert cells(found)[1][1] == "–"


def test_a_reason_for_not_testing_is_told():
    claim = sample.wind_tunnel("hmm")["claims"][0] | {"verdict": "not tested", "detail": {"reason": "it did not train"}}
    (said, _) = experiments.judged(claim).blocks
    assert line(said.line).endswith("Not tested: it did not train.")


def test_tuning_marks_the_best_and_the_edge(record):
    (fold,) = tuning.tuning(record).blocks
    (found,) = fold.blocks
    assert cells(found)[0] == ["learned positions", "rate 0.00100: 0.00605; rate 0.00300: 0.00805", "2", "yes"]
    strong = next(part for part in found.rows[0][1] if hasattr(part, "strong"))
    assert line(strong.parts).startswith("rate 0.00100")


def test_the_tuning_of_the_sticky_chain_has_the_same_form():
    update = {"kind": "sgd", "factors": {"W_V": 10.0}}
    rows = [
        {"arm": "a", "update": {**update, "rate": rate}, "seed": 1000, "held_out_kl_bits": kl}
        for rate, kl in ((0.02, 0.3), (0.32, None), (0.08, 0.2))
    ]
    (fold,) = tuning.tuning({"experiment": "x", "size": "full", "tuning": rows}).blocks
    assert cells(fold.blocks[0])[0] == ["a", "rate 0.0200: 0.300; rate 0.0800: 0.200; rate 0.320: diverged", "1", "no"]


def test_lists_that_do_not_fit_are_refused(record):
    record["by_position"]["LSTM"]["kl_bits"].append(1.0)
    with pytest.raises(BadEvidence, match="by_position of LSTM has"):
        experiments.pieces(record)


def test_seconds_of_a_run_are_not_the_seconds_in_all(record):
    assert "in all" not in "".join(line(getattr(block, "line", ())) for block in blocks(record))
    record["seconds"] = 12.5
    assert "12.5 s in all" in "".join(line(getattr(block, "line", ())) for block in blocks(record))
    assert "seconds a run" not in [line(cell) for cell in table(record, "models").header]


def test_parts_settle_in_figure_and_table():
    estimate = {"mean": 0.5, "interval": [0.4, 0.6], "unit": "fraction of training"}
    row = {
        "step": [0, 10, 20], "distance": {"attention": [0.5, 0.2, 0.0], "values": [0.9, 0.5, 0.0]},
        "kl_bits": [1.0, 0.1, 0.01], "settled_at": {"attention": estimate, "values": estimate},
    }  # fmt: skip
    record = {"experiment": "frame-precision", "size": "quick", "arms": {}, "stability": {"a": row, "b": row}}
    piece = experiments.PIECES["stability"](record)
    strip = piece.drawings["experiment-frame-precision-stability"]
    assert len(strip.panels) == 2
    assert [[0.0, 1.0], [0.5, 0.4], [1.0, 0.0]] in strip.panels[0].data["lines"]
    assert cells(piece.blocks[1])[0][1] == "0.5000 [0.400,\u00a00.600]"
    assert tables.estimate(None) == tables.estimate({"mean": None})


def test_bayes_is_a_broad_pale_line_under_the_arms(record):
    drawn = drawings(record)["entropy"].svg()
    pale = [path for path in ElementTree.fromstring(drawn).iter("path") if path.get("stroke-opacity")]
    assert [path.get("class") for path in pale] == ["s-ink", "s-ink"]  # the line and its sample
    assert min(float(path.get("stroke-width")) for path in pale) > 4
    arms = [drawn.index(f'class="s-c{n}"') for n in range(1, 5)]
    assert drawn.index("stroke-opacity") < min(arms)


def test_a_model_that_is_too_low_lies_below_the_diagonal():
    counts = [[0] * 5 for _ in range(5)]
    counts[0][4] = 7  # the model's probability in the lowest bin, the exact one in the highest
    canvas = panels.calibration("an arm", [n / 5 for n in range(6)], counts, limit=7, x="exact", y="model")
    first = next(path for path in ElementTree.fromstring(canvas.svg()).iter("path") if path.get("fill-opacity"))
    xs, ys = zip(*stops(first.get("d")), strict=True)
    assert (min(xs), max(ys)) == pytest.approx(canvas.at((0.8, 0.0)))
    assert (max(xs), min(ys)) == pytest.approx(canvas.at((1.0, 0.2)))


def test_a_last_panel_stands_on_the_left(record):
    three = drawings(record)["sequences-of-others"]
    assert len(three.panels) == 3
    first, second = three.tikz().split(r"\par\medskip")
    assert (first.count(r"\begin{tikzpicture}"), second.count(r"\begin{tikzpicture}")) == (2, 1)
    assert r"\rule{211.2pt}{0pt}" in second  # glue would vanish at the end of the line


def test_the_marks_of_a_sequence_are_the_models_and_thinned_on_request():
    position, exact = [1, 2, 3, 4], [1.0, 0.9, 0.8, 0.7]

    def drawn(model: list[float], **options: int) -> str:
        return panels.sequence("a", position, exact, model, slot=0, y="bits", top=1.2, **options).svg()

    assert drawn([0.1, 0.2, 0.3, 0.4]) != drawn([0.1, 0.2, 0.3, 0.9])
    assert drawn([0.1, 0.2, 0.3, 0.4], every=2) == drawn([0.1, 0.8, 0.3, 0.9], every=2)
    assert drawn([0.1, 0.2, 0.3, 0.4], every=2) != drawn([0.1, 0.2, 0.5, 0.4], every=2)
