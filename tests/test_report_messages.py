"""The message catalogue: complete in three languages, and complete for what the page says."""

from __future__ import annotations

import re

import pytest

from bayesgrad.theorems import THEOREMS
from report.context import TONES
from report.meanings import MEANINGS
from report.messages import LANGUAGES, NAMES_OF_LIBRARIES, Messages, messages


def test_every_entry_has_every_language():
    assert set(LANGUAGES) == {"en", "zh-Hant", "ja"}
    for id, entry in messages().entries.items():
        assert set(entry) == set(LANGUAGES), id
        assert all(text.strip() for text in entry.values()), id


def test_translations_are_translations():
    for id, entry in messages().entries.items():
        if id not in NAMES_OF_LIBRARIES:
            assert len(set(entry.values())) > 1 or not re.search("[a-z]{4}", entry["en"]), id
            for language in ("zh-Hant", "ja"):
                assert re.search("[\u3040-\u30ff\u4e00-\u9fff]", entry[language]), (id, language)


def test_every_verdict_and_title_is_in_the_catalogue():
    assert {f"verdict.{word}" for word in TONES} <= set(messages().entries)
    for theorem in THEOREMS:
        assert messages().english(f"title.{theorem.label}") == theorem.title
    titles = {f"title.{theorem.label}" for theorem in THEOREMS}
    assert {id for id in messages().entries if id.startswith("title.")} == titles


def test_every_experiment_is_in_the_catalogue():
    from bayesgrad.training.experiments import EXPERIMENTS

    for experiment in EXPERIMENTS.values():
        assert messages().english(f"experiment.{experiment.id}") == experiment.title


def test_every_result_has_a_meaning_in_words():
    assert set(MEANINGS) == {theorem.label for theorem in THEOREMS}
    for label, meaning in MEANINGS.items():
        assert len(meaning.says) > 40, label
        assert not re.search(r"\d{2,}|\d\.\d", meaning.says + meaning.fails), f"{label}: a figure typed into prose"
        assert set(re.findall(r"\[\[([^\]]+)\]\]", meaning.says + meaning.fails)) <= set(MEANINGS)


@pytest.mark.parametrize(
    "entry",
    [
        {"en": "a", "ja": "b"},
        {"en": "a", "ja": "b", "zh-Hant": ""},
        {"en": "{n} a", "ja": "{n} b", "zh-Hant": "c"},
        {"en": "a", "ja": "b", "zh-Hant": "c", "de": "d"},
    ],
)
def test_an_incomplete_entry_is_refused(entry):
    with pytest.raises(ValueError, match="messages"):
        Messages({"x": entry})
