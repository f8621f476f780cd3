"""The gate ``slices``: a class that is lost is found, whatever the mean says, and chance passes it no more often."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import pytest

from hone_runtime.values.judgement import GateOutcome
from hone_runtime.values.measurement import Interval, Quality, SliceQuality
from hone_runtime.values.slices import SliceLimit
from hone_runtime.worker.imports import load_file
from kedro_hone import programs
from kedro_hone.core.gates import Measurements
from kedro_hone.core.stats.intervals import interval_of_paired_proportions
from kedro_hone.core.stats.levels import share_among_slices, share_confidence
from kedro_hone.search.gates import drop, slices
from kedro_hone.search.scores import read_quality, read_slice

SOURCE = Measurements(id="source")
LIMIT = SliceLimit(by="label", drop=0.03)


def make_slice(name, low, high, **changes):
    interval = Interval(estimate=(low + high) / 2, low=low, high=high)
    return SliceQuality(**{"name": name, "n": 400, "source": 0.9, "candidate": 0.9, "drop": interval, **changes})


def judge(*parts, limit=LIMIT):
    whole = Interval(estimate=0.0, low=-0.01, high=0.01)
    quality = Quality(metric="accuracy", split="gate", source=0.9, candidate=0.9, drop=whole, n=900, slices=parts)
    (judgement,) = slices.GATE.evaluate(limit, Measurements(id="a", quality=quality), SOURCE)
    return judgement


def test_every_slice_must_hold():
    found = judge(make_slice("cat", -0.01, 0.02), make_slice("dog", 0.0, 0.029))
    assert (found.judgement, found.limit, found.high) == (GateOutcome.HOLDS, 0.03, 0.029)
    assert "no slice loses more than is allowed" in found.reason
    assert "label = dog" in found.reason


def test_one_slice_that_loses_more_fails_whatever_the_others_do():
    found = judge(make_slice("cat", -0.01, 0.02), make_slice("dog", 0.04, 0.2), make_slice("owl", 0.0, 0.5))
    assert (found.judgement, found.low) == (GateOutcome.FAILS, 0.04)
    assert "label = dog, 400 rows of 900, a drop of at least 0.0400 where 0.03 is allowed" in found.reason


@pytest.mark.parametrize("high", [0.03, 0.2])
def test_an_undecided_slice_is_no_pass(high):
    found = judge(make_slice("cat", -0.01, 0.02), make_slice("dog", 0.0, high))
    assert found.judgement is GateOutcome.UNDECIDED
    assert "cannot be proved" in found.reason


def test_the_undecided_slices_are_named_and_counted():
    found = judge(*(make_slice(name, 0.0, 0.2) for name in "abcdef"))
    assert "so it is in b, c, d and 2 more" in found.reason


def test_a_slice_on_which_the_metric_is_not_defined_is_undecided():
    end = sys.float_info.max
    found = judge(make_slice("cat", -end, end, source=None, candidate=None, reason="The metric is nan."))
    assert (found.judgement, found.measured, found.high) == (GateOutcome.UNDECIDED, None, None)
    assert "The metric is nan, a drop without a known end where 0.03 is allowed" in found.reason


def test_rows_that_were_prepared_without_slices_decide_nothing():
    found = judge()
    assert found.judgement is GateOutcome.UNDECIDED
    assert "run all pipelines again" in found.reason
    (unscored,) = slices.GATE.evaluate(LIMIT, Measurements(id="a"), SOURCE)
    assert unscored.judgement is GateOutcome.UNDECIDED


@pytest.fixture
def score(tmp_path, monkeypatch):
    """Score a candidate's logits in the worker of programs, and read them as the host does."""
    worker = load_file("hone_worker_of_programs", str(programs.LIBRARY / "worker" / "__init__.py"))
    monkeypatch.setattr(worker.scores, "REPLICATES", 50)

    def save(name, **arrays):
        np.savez(tmp_path / name, **arrays)
        return str(tmp_path / name)

    def score(source, candidate, labels, *, codes=None, metric=None):
        codes = labels if codes is None else codes
        count = int(codes.max()) + 1
        (tmp_path / "output").mkdir(exist_ok=True)
        options = {
            "program": programs.find_program("image-classification", project=tmp_path).path,
            "program_options": {},
            "project": str(tmp_path),
            "seed": 0,
            "metric": metric,
            "source": save("source.npz", out=source),
            "targets": save("targets.npz", target=labels),
            "candidates": {"a": save("a.npz", out=candidate)},
            "slices": {"codes": save("codes.npz", codes=codes), "count": count},
        }
        row = worker.evaluate({"output": str(tmp_path / "output"), "options": options})["candidates"]["a"]
        level = share_confidence(0.95, finalists=3)
        quality = read_quality("a", row, level, split="gate", limit=0.02)
        each = share_among_slices(level, slices=count)
        sizes = np.bincount(codes, minlength=count)
        parts = [
            read_slice(one, each, name=str(at), n=int(n))
            for at, (one, n) in enumerate(zip(row["slices"], sizes, strict=True))
        ]
        return quality.model_copy(update={"slices": tuple(parts)})

    return score


def test_a_candidate_that_forgot_one_class_is_stopped_although_its_mean_hardly_drops(score):
    """The planted fault: 60 of 6,000 rows are of class 3, and the candidate takes each of them for class 0."""
    labels = np.repeat([0, 1, 2, 3], [1980, 1980, 1980, 60])
    logits = np.eye(4)[labels]
    forgot = np.where((labels == 3)[:, None], np.eye(4)[0], logits)
    quality = score(logits, forgot, labels)
    measured = Measurements(id="a", quality=quality)

    (mean,) = drop.GATE.evaluate(0.02, measured, SOURCE)
    (found,) = slices.GATE.evaluate(SliceLimit(by="label", drop=0.15), measured, SOURCE)

    assert quality.drop.estimate == pytest.approx(0.01)
    assert mean.judgement is GateOutcome.HOLDS
    assert found.judgement is GateOutcome.FAILS
    assert found.low > 0.7
    assert "from 1.0000 to 0.0000 in the slice label = 3, 60 rows of 6000" in found.reason


def test_a_candidate_that_loses_nothing_holds_where_the_rows_suffice(score):
    labels = np.repeat([0, 1], [400, 400])
    quality = score(np.eye(2)[labels], np.eye(2)[labels], labels)
    (found,) = slices.GATE.evaluate(SliceLimit(by="label", drop=0.05), Measurements(id="a", quality=quality), SOURCE)
    assert found.judgement is GateOutcome.HOLDS


@pytest.mark.parametrize("metric", ["balanced_accuracy", "f1_macro", "log_loss", "mean_absolute_error"])
def test_every_kind_of_metric_has_an_interval_in_each_slice(score, metric):
    random = np.random.default_rng(3)
    labels, codes = random.integers(0, 3, 600), np.repeat([0, 1], [400, 200])
    logits = np.eye(3)[labels] * 4 + random.normal(size=(600, 3))
    quality = score(logits, logits + random.normal(size=logits.shape) * 0.1, labels, codes=codes, metric=metric)
    assert [one.n for one in quality.slices] == [400, 200]
    for one in quality.slices:
        assert -10 < one.drop.low < one.drop.estimate < one.drop.high < 10
        assert one.drop.high - one.drop.low > quality.drop.high - quality.drop.low
        assert one.source is not None


def test_the_balanced_accuracy_of_one_class_is_the_share_of_its_right_rows(score):
    labels = np.repeat([0, 1], [400, 100])
    logits = np.eye(2)[labels]
    worse = np.where((np.arange(500) >= 490)[:, None], np.eye(2)[0], logits)
    last = score(logits, worse, labels, metric="balanced_accuracy").slices[1]
    expected = interval_of_paired_proportions(n=100, lost=10, gained=0, confidence=last.drop.confidence)
    assert last.drop == expected


def test_a_metric_that_is_not_defined_in_a_slice_has_no_interval_there(score):
    labels = np.tile([0, 1, 2], 100)
    codes = (labels == 2).astype(np.int64)
    logits = np.eye(3)[labels] * 3
    first, second = score(logits, logits, labels, codes=codes, metric="roc_auc").slices
    assert second.source is None
    assert "roc_auc" in second.reason
    assert second.drop.high == sys.float_info.max
    del first


def test_so_few_rows_of_a_graded_metric_have_no_interval(score):
    labels = np.tile([0, 1], 100)
    codes = np.where(np.arange(200) < 19, 0, 1)
    few, many = score(np.eye(2)[labels], np.eye(2)[labels], labels, codes=codes, metric="log_loss").slices
    assert few.drop.high == sys.float_info.max
    assert many.drop.high < sys.float_info.max


@cache
def find_end(n, lost, gained, level):
    return interval_of_paired_proportions(n=n, lost=lost, gained=gained, confidence=level).high


@pytest.mark.parametrize(("count", "n"), [(1, 300), (8, 200)])
@pytest.mark.parametrize("gains", [0.0, 0.03])
def test_a_loss_of_exactly_the_limit_in_one_slice_passes_no_more_often_than_the_level(count, n, gains):
    """Simulated: one slice truly loses the limit, and the others lose nothing that they do not gain."""
    random, limit, runs = np.random.default_rng(20), 0.05, 4000
    level = share_among_slices(0.95, slices=count)
    passes = np.ones(runs, dtype=bool)
    for at in range(count):
        loses = gains + (limit if at == 0 else 0.0)
        drawn = random.multinomial(n, [loses, gains, 1 - loses - gains], size=runs)
        passes &= [find_end(n, int(lost), int(gained), level) < limit for lost, gained, _ in drawn]
    assert passes.mean() <= 0.025 + 2 * np.sqrt(0.025 / runs)  # the error level of one end, with two standard errors


def test_slices_without_a_loss_fail_no_more_often_than_the_level():
    """Many slices have many chances to fail: the shared level keeps them together at the level of one."""
    random, limit, n, count, runs = np.random.default_rng(21), 0.001, 200, 8, 4000
    level = share_among_slices(0.95, slices=count)
    fails = np.zeros(runs, dtype=bool)
    for _ in range(count):
        drawn = random.multinomial(n, [0.05, 0.05, 0.9], size=runs)
        fails |= [-find_end(n, int(gained), int(lost), level) > limit for lost, gained, _ in drawn]
    assert fails.mean() <= 0.025 + 2 * np.sqrt(0.025 / runs)
