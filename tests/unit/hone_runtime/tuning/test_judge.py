"""The metrics of a recipe in a worker: the same numbers as the gates'."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score

from hone_runtime.tuning.judge import Judge
from hone_runtime.tuning.search import read_settings
from hone_runtime.worker.refusal import UnsuitedError
from kedro_hone.programs import LIBRARY

TARGET = np.array([0] * 12 + [1] * 4)
SCORES = (np.random.default_rng(3).normal(size=(16, 2)) + np.eye(2)[TARGET]).astype(np.float32)
OUTPUTS = {"y": SCORES}
OWN = """
HIGHER_IS_BETTER = False
def count_wrong(given, wanted, options): return float((given != wanted["target"]).sum())
"""


@pytest.fixture
def make(tmp_path):
    def make(metric=None, drops=None, program="tabular_classification", **options):
        np.savez(tmp_path / "targets.npz", target=TARGET)
        np.savez(tmp_path / "source.npz", y=SCORES)
        row = {
            "path": str(LIBRARY / program / "__init__.py"),
            "library": str(LIBRARY),
            "options": options,
            "targets": str(tmp_path / "targets.npz"),
            "source": str(tmp_path / "source.npz"),
            "outputs": ["y"],
            "metric": metric,
            "drops": {name: {"metric": name, "limit": limit} for name, limit in (drops or {}).items()},
        }
        return Judge(row)

    return make


def test_the_programs_own_metric_is_the_default(make):
    judge = make()
    assert (judge.metric, judge.sign, judge.limits) == ("accuracy", 1.0, {})
    assert judge.measure(OUTPUTS) == (SCORES.argmax(1) == TARGET).mean()
    assert judge.measure_all(OUTPUTS) == judge.measure_source() == {"accuracy": judge.measure(OUTPUTS)}


def test_the_recipes_metrics_are_measured_each_with_its_limit(make):
    judge = make("balanced_accuracy", {"roc_auc": 0.02, "log_loss": 0.1, "f1": 0.03}, positive="1", scores="logits")
    found, given = judge.measure_all(OUTPUTS), SCORES.argmax(1)
    assert judge.limits == {"roc_auc": 0.02, "log_loss": 0.1, "f1": 0.03}
    assert [*found] == ["balanced_accuracy", "roc_auc", "log_loss", "f1"]
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(TARGET, given))
    assert found["f1"] == pytest.approx(f1_score(TARGET, given))
    assert found["roc_auc"] == pytest.approx(roc_auc_score(TARGET, SCORES[:, 1] - SCORES[:, 0]))
    assert found["log_loss"] < 0, "lower is better"


def test_a_metric_of_ones_own_is_read_from_its_file(make, tmp_path):
    (tmp_path / "wrong.py").write_text(OWN)
    judge = make(f"{tmp_path / 'wrong.py'}:count_wrong")
    assert (judge.metric, judge.sign) == ("count_wrong", -1.0)
    assert judge.measure(OUTPUTS) == -(SCORES.argmax(1) != TARGET).sum()
    assert judge.score(OUTPUTS, range(16)) == (judge.measure(OUTPUTS), None)


def test_a_metric_that_cannot_be_computed_here_is_left_out(make, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    (tmp_path / "broken.py").write_text("def (")
    judge = make("accuracy", {"recall_macro": 0.01, "neg_accuracy": 0.02, f"{tmp_path / 'broken.py'}:x": 0.1})
    assert (judge.metric, judge.missing, judge.limits) == ("accuracy", "", {"neg_accuracy": 0.02})
    assert "recall_macro cannot be computed in this environment: it needs scikit-learn" in capsys.readouterr().out


def test_the_limit_of_a_missing_metric_is_none_of_the_programs_own(make, monkeypatch):
    """A limit of 500 for an error in euros was taken for r2, which any candidate held."""
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    judge = make("f1_macro")
    assert judge.metric == "accuracy", "for the progress of a training"
    with pytest.raises(UnsuitedError, match="the metric f1_macro cannot be computed in this environment"):
        judge.require()
    with pytest.raises(UnsuitedError, match="f1_macro"):
        read_settings({"options": {"evaluations": 5}, "drop": 500}, judge, began=0.0)


def test_two_limits_of_one_name_both_apply(make, tmp_path):
    (tmp_path / "own.py").write_text("def accuracy(given, wanted, options): return 28.0")
    judge = make(f"{tmp_path / 'own.py'}:accuracy", {"accuracy": 1.0})
    assert judge.limits == {"accuracy (gates.drops)": 1.0}
    assert judge.measure_all(OUTPUTS) == {
        "accuracy": 28.0,
        "accuracy (gates.drops)": (SCORES.argmax(1) == TARGET).mean(),
    }
    limits = read_settings(
        {"options": {"evaluations": 5}, "drop": 0.01}, make(None, {"accuracy": 1.0}), began=0.0
    ).limits
    assert limits == {"accuracy": 0.01, "accuracy (gates.drops)": 1.0}


def test_a_metric_that_raises_for_a_candidate_is_not_a_number(make, tmp_path):
    """All operators in int8 may predict a single class, for which many metrics have no value."""
    (tmp_path / "own.py").write_text("def precision(given, wanted, options): return 1 / int((given == 1).sum())")
    judge = make(f"{tmp_path / 'own.py'}:precision", {"log_loss": 0.1, "accuracy": 0.1}, scores="logits")
    found = judge.measure_all({"y": np.where([True, False], np.nan, SCORES)})
    assert np.isnan(found["precision"])
    assert np.isnan(found["log_loss"])
    assert np.isfinite(found["accuracy"])


def test_a_metric_without_a_value_for_one_row_has_none(make, tmp_path):
    (tmp_path / "wrong.py").write_text("def variance(given, wanted, options): return 1 / (len(given) - 1)")
    judge = make(f"{tmp_path / 'wrong.py'}:variance")
    value, scores = judge.score({"y": SCORES[:1]}, [0])
    assert (np.isnan(value), scores) == (True, None)
    (tmp_path / "wrong.py").write_text("def variance(given, wanted, options): raise KeyError('spread')")
    with pytest.raises(KeyError, match="spread"):
        make(f"{tmp_path / 'wrong.py'}:variance").score(OUTPUTS, range(16))
    value, scores = make("balanced_accuracy").score({"y": SCORES[:1]}, [0])
    assert scores == [value]


CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from hone_runtime.worker.imports import load_program
load_program(sys.argv[2] + "/tabular_classification/__init__.py", sys.argv[2])
from hone_programs.worker import metrics
print(*{name.split(".")[0] for name in sys.modules})
"""


def test_most_metrics_need_nothing_but_numpy(tmp_path):
    """Environments of toolchains may have no scikit-learn, and have nothing of kedro-hone."""
    command = [sys.executable, "-c", CODE, str(LIBRARY.parents[1]), str(LIBRARY)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout.split()
    assert "numpy" in found
    assert {"sklearn", "kedro_hone", "kedro", "pyarrow", "pydantic"}.isdisjoint(found)
