"""What the program's worker measured, as a score with an interval."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from toolchains.toy.model import make_model

from hone_runtime.contract.job import Job, JobInput
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.judgement import GateOutcome
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import Score
from kedro_hone.core.stats.intervals import smallest_provable_drop
from kedro_hone.core.workers.host.run import open_session
from kedro_hone.derivation.splits import round_up
from kedro_hone.search import scores
from kedro_hone.search.gates.drop import GATE, judge_drop
from kedro_hone.search.scores import UNBOUNDED, has_nothing_to_lose, predict, read_quality

N = 1000
REACH = smallest_provable_drop(N, 0.95)


@pytest.fixture
def read(tmp_path):
    """Read the score of a candidate that does not differ from the source at all."""

    def read(kind, *, source, higher_is_better=False, span=0.0):
        name = "differences" if kind == "mean" else "replicates"
        np.savez(tmp_path / "same.npz", **{name: np.zeros(N)})
        row = {
            "metric": "root_mean_squared_error",
            "higher_is_better": higher_is_better,
            "source": source,
            "candidate": source,
            "n": N,
            "kind": kind,
            "span": span,
            name: str(tmp_path / "same.npz"),
        }
        return read_quality("it", row, 0.95, split="gate", limit=0.01).drop

    return read


@pytest.mark.parametrize("kind", ["mean", "bootstrap"])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
def test_where_nothing_differs_the_interval_is_in_the_unit_of_the_metric(read, kind, unit):
    drop = read(kind, source=12.0 * unit, span=40.0 * unit)
    assert (drop.low, drop.high) == pytest.approx((-40 * unit * REACH, 40 * unit * REACH))


@pytest.mark.parametrize("kind", ["mean", "bootstrap"])
@pytest.mark.parametrize("span", [0.0, 0.7, 1.9])
def test_a_metric_that_is_best_at_1_may_lose_1_or_more(read, kind, span):
    """More is lost of r2 and of correlations, which do not end at 0."""
    assert read(kind, source=0.9, higher_is_better=True, span=span).high == pytest.approx(max(1.0, span) * REACH)


@pytest.mark.parametrize("kind", ["mean", "bootstrap"])
def test_where_nothing_tells_the_size_of_a_loss_nothing_is_proved(read, kind):
    assert read(kind, source=0.0).high > UNBOUNDED * REACH / 2


@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_what_rows_that_are_right_or_wrong_could_prove_is_noted(confidence):
    row = {
        "metric": "accuracy", "higher_is_better": True, "source": 0.9, "candidate": 0.9, "n": 300, "kind": "proportion",
        "lost": 0, "gained": 0,
    }  # fmt: skip
    found = read_quality("fast", row, confidence, split="gate", limit=0.01)
    # Nothing lost in n rows has the upper end z² / (n + z²): Wilson 1927, JASA 22:209-212.
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    assert (found.id, found.split, found.limit, found.spread) == ("fast", "gate", 0.01, None)
    assert found.provable == pytest.approx(z**2 / (300 + z**2), rel=1e-3)


@pytest.mark.parametrize(
    ("span", "best_at_one", "wanted"),
    [(1.9, True, 1.9), (0.3, True, 1.0), (14000.0, False, 14000.0), (0.0, False, None)],
    ids=["more than 1", "less than 1", "of another unit", "unknown"],
)
def test_what_rows_can_prove_is_of_the_most_that_one_may_lose(tmp_path, span, best_at_one, wanted):
    np.savez(tmp_path / "same.npz", replicates=np.zeros(300))
    source = 0.95 if best_at_one else 5000.0
    row = {
        "metric": "m", "higher_is_better": best_at_one, "source": source, "candidate": source, "n": 300,
        "kind": "bootstrap", "span": span, "replicates": str(tmp_path / "same.npz"),
    }  # fmt: skip
    found = read_quality("fast", row, 0.95, split="gate", limit=0.01)
    assert found.span == wanted
    assert found.provable == (wanted and pytest.approx(found.drop.high))  # of equal scores, as these


def test_rows_that_changed_are_counted_in_both_directions():
    row = {
        "metric": "accuracy", "higher_is_better": True, "source": 0.9, "candidate": 0.89, "n": 300,
        "kind": "proportion", "lost": 7, "gained": 4,
    }  # fmt: skip

    found = read_quality("fast", row, 0.95, split="gate", limit=0.01)

    assert (found.lost, found.gained) == (7, 4)


def test_so_few_rows_of_a_graded_metric_prove_no_limit(tmp_path):
    np.savez(tmp_path / "same.npz", replicates=np.zeros(300))
    row = {
        "metric": "m", "higher_is_better": False, "source": 5.0, "candidate": 5.0, "n": 19, "kind": "bootstrap",
        "span": 2.0, "replicates": str(tmp_path / "same.npz"),
    }  # fmt: skip
    found = read_quality("fast", row, 0.95, split="gate", limit=0.01)
    assert (found.span, found.provable) == (2.0, None)


@pytest.mark.parametrize(
    ("told", "nothing"),
    [
        ({"value": 0.0, "kind": "proportion"}, True),
        ({"value": 0.0, "kind": "bootstrap"}, True),
        ({"value": 0.0, "kind": "bootstrap", "span": 1.0}, False),
        ({"value": 0.01, "kind": "proportion", "span": 1.0}, False),
        ({"value": 0.0, "kind": "mean", "higher_is_better": False}, False),
    ],
)
def test_a_score_of_nothing_has_nothing_to_lose(told, nothing):
    assert has_nothing_to_lose(Score(metric="m", n=300, **told)) is nothing


@pytest.mark.parametrize("higher", [True, False])
def test_a_quality_knows_which_direction_is_better(higher):
    row = {"metric": "m", "higher_is_better": higher, "source": 0.5, "candidate": 0.5, "n": 30, "kind": "proportion"}
    found = read_quality("fast", {**row, "lost": 1, "gained": 1}, 0.95, split="gate", limit=None)

    assert found.higher_is_better is higher


WORKER = """
class Session:
    def run(self, feeds):
        b"\\1" * (300 << 20)  # for a moment
        return {"y": feeds["x"]}

def load(job): return Session()
"""


def run_predict(tmp_path, monkeypatch, *, before_end=lambda _: None):
    (tmp_path / "worker.py").write_text(WORKER)
    artifact = make_model(tmp_path / "model")
    np.savez(tmp_path / "feeds.npz", x=np.zeros((4, 4), np.float32))

    @contextmanager
    def launch(artifact, *, name, context, output, feeds, stopped):
        job = Job(
            function="load",
            worker=tmp_path / "worker.py",
            adaptor=name,
            input=JobInput.of(artifact, tmp_path / "model"),
            output=output,
            reads=tuple(feeds),
        )
        limits = Limits(seconds=600, memory_mb=1024)
        opened = open_session(job, python=Path(sys.executable), folder=tmp_path / "step", limits=limits)
        with closing(opened) as session:
            close = session.close
            session.close = lambda: (before_end(session), close())[1]
            yield session

    monkeypatch.setattr(scores, "launch", launch)
    feeds = tmp_path / "feeds.npz"
    context = SimpleNamespace(batches={"b4": feeds}, recipe=SimpleNamespace(shapes=["b4"]))
    output = tmp_path / "output" / "y.npz"
    predicted = predict(artifact, name="it", runs=[(feeds, output, 4)], context=context)
    assert output.exists()
    return predicted


def test_the_memory_of_predictions_is_the_peak_and_not_what_is_left(tmp_path, monkeypatch):
    assert run_predict(tmp_path, monkeypatch).peak_memory_bytes > 300 << 20


def test_a_memory_that_is_not_known_is_never_0(tmp_path, monkeypatch):
    def kill_the_guard(session):
        session._guarded._process.kill()  # nothing where it has ended

    failed = run_predict(tmp_path, monkeypatch, before_end=kill_the_guard)

    assert isinstance(failed, Failed)
    assert "guard was killed" in failed.reason


def read_classes(*classes, confidence=0.983):
    """Read the score by a balanced accuracy from each class's n, right, lost and gained."""
    fields = ("name", "n", "right", "lost", "gained")
    rows = [dict(zip(fields, (f"c{at}", *one), strict=True)) for at, one in enumerate(classes)]
    source = sum(one["right"] / one["n"] for one in rows) / len(rows)
    candidate = sum((one["right"] - one["lost"] + one["gained"]) / one["n"] for one in rows) / len(rows)
    row = {
        "metric": "balanced_accuracy", "higher_is_better": True, "source": source, "candidate": candidate,
        "n": sum(one["n"] for one in rows), "kind": "balanced", "classes": rows,
    }  # fmt: skip
    return read_quality("fast", row, confidence, split="gate", limit=0.01)


def judge(quality):
    return judge_drop(GATE, round_up(quality.provable or 0.0253), "fast", quality).judgement


def test_of_a_rare_class_no_loss_is_proved_by_its_own_rows():
    found = read_classes((3492, 3450, 0, 0), (108, 60, 0, 0))
    assert found.provable == pytest.approx(found.drop.high)
    assert found.provable > 10 * 5.7 / 3600
    assert judge(found) is GateOutcome.HOLDS


@pytest.mark.parametrize(("lost", "judgement"), [(1, GateOutcome.UNDECIDED), (20, GateOutcome.FAILS)])
def test_rows_lost_of_a_rare_class_are_not_made_up_for_by_the_others(lost, judgement):
    found = read_classes((3492, 3450, 0, 20), (108, 60, lost, 0))
    assert judge(found) is judgement
    assert f"class c1: {lost} of 108 rows lost" in judge_drop(GATE, 0.02, "fast", found).reason


def test_a_constant_answer_fails_though_more_of_its_rows_are_right():
    right, caught = 3426, 60  # the accuracy of the source is 0.9683, of "always the first class" 0.97
    found = read_classes((3492, right, 0, 3492 - right), (108, caught, caught, 0))
    assert judge(found) is GateOutcome.FAILS


def test_nothing_is_proved_against_a_source_that_is_a_constant_answer():
    found = read_classes((3492, 3492, 0, 0), (108, 0, 0, 0))
    assert judge(found) is GateOutcome.UNDECIDED
    assert "one class at most" in found.doubt
    assert (found.span, found.provable) == (None, None)


def test_a_bootstrap_proves_no_more_than_the_rows_that_count(tmp_path):
    np.savez(tmp_path / "same.npz", replicates=np.zeros(300))
    row = {
        "metric": "f1 of class fraud", "higher_is_better": True, "source": 0.5, "candidate": 0.5, "n": 3600,
        "kind": "bootstrap", "span": 0.5, "replicates": str(tmp_path / "same.npz"), "units": 108,
    }  # fmt: skip
    found = read_quality("fast", row, 0.95, split="gate", limit=0.01)
    assert found.drop.high == pytest.approx(3.84 / (108 + 3.84), rel=1e-3)
    assert found.provable == pytest.approx(found.drop.high)
    assert read_quality("fast", {**row, "units": 19}, 0.95, split="gate", limit=0.01).drop.high == UNBOUNDED
