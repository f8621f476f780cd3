"""A bad candidate that would pass its gate by data, or by outputs, that prove nothing."""

from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.values.judgement import GateOutcome
from kedro_hone import programs
from kedro_hone.search.gates.drop import GATE, judge_drop
from kedro_hone.search.scores import read_quality

N = 1000


@pytest.mark.attack(
    what="data on which the source itself is right in no row, so that any candidate is as good",
    who="data",
    stopped_by="where nothing can be lost the drop has no known end, and the gate is undecided",
)
@pytest.mark.parametrize("kind", ["proportion", "bootstrap"])
def test_a_source_that_is_never_right_proves_nothing(tmp_path, kind):
    np.savez(tmp_path / "same.npz", replicates=np.zeros(N))
    told = {"metric": "m", "higher_is_better": True, "source": 0.0, "candidate": 0.0, "n": N, "kind": kind}
    row = {**told, "lost": 0, "gained": 0, "span": 0.0, "replicates": str(tmp_path / "same.npz")}
    quality = read_quality("garbage", row, 0.95, split="gate", limit=0.02)
    assert judge_drop(GATE, 0.02, "garbage", quality).judgement is GateOutcome.UNDECIDED
    assert "nothing could be lost" in quality.doubt


@pytest.mark.attack(
    what="questions without an answer, for a candidate whose scores are no numbers",
    who="data",
    stopped_by="a row with scores that are no numbers is never right",
)
def test_no_number_is_no_answer(tmp_path):
    qa = programs.load_program("question-answering")
    options = {**qa.OPTIONS}
    spans = np.array([[[-1, -1], [0, 3], [4, 8]]] * 2)
    targets = {"answers": np.array([[""], [""]]), "context": np.array(["the film"] * 2), "spans": spans}
    none = np.array([[9.0, 0.0, 0.0], [9.0, 0.0, 0.0]], np.float32)
    broken = none.copy()
    broken[1] = np.nan
    for scores, wanted in ((none, [1, 1]), (broken, [1, 0])):
        found = qa.decode({"start_logits": scores, "end_logits": scores.copy()}, options)
        assert qa.score(found, targets, options).tolist() == wanted
        assert qa.METRICS["exact_match"].score(found, targets, options).tolist() == wanted
