"""The risk in one line, and the comparison with the published version."""

from __future__ import annotations

import pytest
from sample import make_evidence

from hone_runtime.values.decision import Verdict
from hone_runtime.values.judgement import GateOutcome, Judgement
from hone_runtime.values.unscored import Unscored
from kedro_hone.report.rendering import render_page
from kedro_hone.report.risk import describe_risk, list_changed_rows, list_changes


def test_the_largest_loss_that_is_not_excluded_comes_first():
    evidence = make_evidence()
    quality = evidence.subject_quality[0]

    assert quality.drop.high > 0
    assert describe_risk(evidence).startswith(f"accuracy may be worse by up to {quality.drop.high * 100:.2f} points (")
    assert "1,000 rows of the gate split" in describe_risk(evidence)


def test_a_proven_gain_is_no_loss():
    evidence = make_evidence()
    better = [
        one.model_copy(update={"drop": one.drop.model_copy(update={"estimate": -0.03, "low": -0.05, "high": -0.01})})
        for one in evidence.quality
    ]

    assert describe_risk(make_evidence(quality=better)).startswith("accuracy is not worse (")


@pytest.mark.parametrize("verdict", [Verdict.KEEP, Verdict.FAIL, Verdict.INCONCLUSIVE])
def test_without_a_winner_nothing_is_at_risk(verdict):
    assert describe_risk(make_evidence(verdict)) == ""


def test_limits_outputs_doubts_and_load_are_risks():
    evidence = make_evidence()
    unscored = (
        Unscored(output="hidden", largest=0.1, rows=7, of=600),
        Unscored(output="same", largest=0, rows=0, of=9),
    )
    candidates = [
        one.model_copy(update={"limits": ("At most 512 tokens.",), "unscored": unscored})
        if one.id == evidence.subject
        else one
        for one in evidence.candidates
    ]
    quality = [one.model_copy(update={"doubt": "They look shuffled."}) for one in evidence.quality]
    busy = evidence.confirmation.model_copy(update={"other_load": 0.5})

    line = describe_risk(make_evidence(candidates=candidates, quality=quality, confirmation=busy))

    assert "limit: At most 512 tokens;" in line
    assert "output hidden, which no metric scores, differs in 7 of 600 rows" in line
    assert "output same" not in line
    assert "doubtful: They look shuffled;" in line
    assert "the machine was busy" in line
    assert "the machine was busy" not in describe_risk(evidence)
    assert "\n" not in line


def test_what_changed_since_the_published_version_is_what_its_gates_found():
    evidence = make_evidence()
    row = {"name": "speedup", "candidate": evidence.subject, "reason": "It is 1.20 times as fast.", "shape": "batch1"}
    gates = (
        *evidence.gates,
        Judgement(**row, judgement=GateOutcome.HOLDS, against="honed"),
        Judgement(**{**row, "candidate": "another"}, judgement=GateOutcome.FAILS, against="honed"),
        Judgement(**{**row, "name": "drop"}, judgement=GateOutcome.NOT_ASKED, against="honed"),
    )
    changed = make_evidence(gates=gates)

    (found,) = list_changes(changed)

    assert found[1:] == ("It is 1.20 times as fast.", "holds")
    assert "against honed" in found[0]
    assert "Since the published version" in render_page(changed)
    assert list_changes(evidence) == ()
    assert "Since the published version" not in render_page(evidence)


def test_rows_that_changed_are_those_of_the_gate_split_where_it_was_used():
    evidence = make_evidence()
    candidates = [
        one.model_copy(update={"quality": one.quality.model_copy(update={"lost": 30 + at, "gained": 30})})
        if one.quality and at != 3
        else one
        for at, one in enumerate(evidence.candidates)
    ]
    quality = [one.model_copy(update={"lost": 4, "gained": 1234}) for one in evidence.quality]

    counted = make_evidence(candidates=candidates, quality=quality)
    found = {candidate.id: (one.split, one.lost) for candidate, one in list_changed_rows(counted)}

    assert "source" not in found
    assert found[evidence.subject] == ("gate", 4)
    assert evidence.candidates[3].id not in found or found[evidence.candidates[3].id][0] == "gate"
    assert {split for split, _ in found.values()} == {"gate", "search"}
    assert "1,234" in render_page(counted)
    assert list_changed_rows(evidence) == ()
    assert "Rows that changed" not in render_page(evidence)
