"""Changed certificates are refused, or say the same: a seeded sample of them; the command changes every field."""

from __future__ import annotations

from checks.mutation.certificate_changes import Hunt, hunted, main, paths


def test_a_changed_certificate_is_refused_or_says_the_same():
    labels = ["lemma.gibbs", "softmax.jacobian", "bayes.chain-rule", "em.not-variational", "softmax.fisher"]
    hunt = hunted(labels, sample=60, seed=1)
    assert hunt.harmful == []
    assert hunt.refused > 100


def test_a_term_that_says_something_else_is_told_apart():
    """The comparison itself can fail: a step that is changed, and taken for accepted, does not say the same."""
    hunt = Hunt()
    certificate = hunt.certificate("softmax.jacobian")
    ((name, proof),) = list(certificate["proofs"].items())[:1]
    assert hunt.same(certificate, certificate, ("proofs", name))
    assert any(place[-1] == "after" for place in paths(proof))
    other = {**proof, "steps": [{**step, "after": ["mul", ["num", "2"], step["after"]]} for step in proof["steps"]]}
    changed = {**certificate, "proofs": {name: other}}
    assert not hunt.same(certificate, changed, ("proofs", name, "steps", 0, "after"))


def test_a_label_that_is_none(capsys):
    assert main(["no.such"]) == 2
    assert "no.such" in capsys.readouterr().err
