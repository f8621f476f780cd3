"""Metrics of one class and of all classes alike: which class counts, and how many rows an interval is made from."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics

from kedro_hone.programs.shared.positive import NAMES

N = 400
ONE_CLASS = {
    "recall": sklearn.metrics.recall_score,
    "precision": sklearn.metrics.precision_score,
    "f1": sklearn.metrics.f1_score,
    "jaccard": sklearn.metrics.jaccard_score,
}


@pytest.fixture
def labels(random):
    return (random.random(N) < 0.1).astype(np.int64)


@pytest.fixture
def scores(random, labels):
    odds = labels * 2.5 + random.normal(size=N)
    return np.stack([1 / (1 + np.exp(odds - 1.2)), 1 / (1 + np.exp(1.2 - odds))], axis=1)


@pytest.fixture
def worse(random, scores):
    return np.clip(scores + random.normal(size=scores.shape) / 4, 0.01, 0.99)


@pytest.fixture
def evaluate(worker, make_job, save, monkeypatch):
    """Compare one candidate of a tabular classifier."""
    monkeypatch.setattr(worker.scores, "REPLICATES", 50)

    def evaluate(metric, *, source, candidate, labels, names=None, **options):
        targets = {"target": labels, **({} if names is None else {NAMES: np.array(names)})}
        job = make_job(
            "tabular-classification",
            program_options=options,
            source=save("source.npz", out=source),
            targets=save("targets.npz", **targets),
            candidates={"one": save("one.npz", out=candidate)},
            metric=metric,
            seed=3,
        )
        found = worker.evaluate(job)
        return found["candidates"]["one"] if "candidates" in found else found["error"]

    return evaluate


@pytest.mark.parametrize("metric", ONE_CLASS)
def test_a_metric_of_one_class_is_that_of_the_class_that_is_named(evaluate, labels, scores, worse, metric):
    compute, given = ONE_CLASS[metric], {"source": scores, "candidate": worse, "labels": labels}
    for positive, pos_label in (("fraud", 0), ("legit", 1)):
        row = evaluate(metric, names=["fraud", "legit"], positive=positive, **given)
        assert row["metric"] == f"{metric} of class {positive}"
        assert row["source"] == pytest.approx(compute(labels, scores.argmax(1), pos_label=pos_label))
        assert row["candidate"] == pytest.approx(compute(labels, worse.argmax(1), pos_label=pos_label))


def test_average_precision_is_that_of_the_class_that_is_named(evaluate, labels, scores, worse):
    given = {"source": scores, "candidate": worse, "labels": labels, "names": ["fraud", "legit"]}
    row = evaluate("average_precision", positive="fraud", **given)
    assert row["metric"] == "average_precision of class fraud"
    assert row["source"] == pytest.approx(sklearn.metrics.average_precision_score(labels == 0, scores[:, 0]))


@pytest.mark.parametrize("names", [None, ["0", "1"], ["False", "True"]])
def test_of_0_and_1_the_class_1_counts_and_is_named(evaluate, labels, scores, worse, names):
    row = evaluate("recall", source=scores, candidate=worse, labels=labels, names=names)
    assert row["metric"] == f"recall of class {names[1] if names else 1}"
    assert row["source"] == pytest.approx(sklearn.metrics.recall_score(labels, scores.argmax(1)))


@pytest.mark.parametrize("metric", [*ONE_CLASS, "average_precision"])
@pytest.mark.parametrize("names", [["fraud", "legit"], ["legit", "fraud"]])
def test_named_classes_need_the_positive_one(evaluate, labels, scores, metric, names):
    error = evaluate(metric, source=scores, candidate=scores, labels=labels, names=names)
    assert error["slug"] == "recipe-invalid"
    assert metric in error["what"]
    assert ", ".join(names) in error["why"]
    assert f"program.options.positive: {names[int(labels.mean() < 0.5)]}" in error["hint"]


def test_a_positive_class_that_does_not_exist_is_refused(evaluate, labels, scores, worse):
    given = {"source": scores, "candidate": worse, "labels": labels}
    error = evaluate("recall", names=["fraud", "legit"], positive="frauds", **given)
    assert "'frauds'" in error["what"]
    assert "fraud, legit" in error["why"]
    assert evaluate("recall", positive=True, **given)["metric"] == "recall of class 1"


def test_one_of_three_classes_may_be_positive(evaluate, random):
    labels, scores = random.integers(0, 3, N), random.random((N, 3))
    given = {"source": scores, "candidate": scores, "labels": labels}
    row = evaluate("f1", positive=2, **given)
    assert row["source"] == pytest.approx(sklearn.metrics.f1_score(labels == 2, scores.argmax(1) == 2))
    assert evaluate("f1", **given)["slug"] == "recipe-invalid"


def test_a_recall_is_compared_by_the_rows_of_its_class(evaluate, labels, scores, worse):
    row = evaluate("recall", source=scores, candidate=worse, labels=labels)
    own = labels == 1
    before, after = scores.argmax(1)[own] == 1, worse.argmax(1)[own] == 1
    assert (row["kind"], row["n"]) == ("proportion", own.sum())
    assert (row["lost"], row["gained"]) == ((before & ~after).sum(), (after & ~before).sum())


@pytest.mark.parametrize("metric", ["f1", "precision", "jaccard", "f1_macro", "matthews_corrcoef", "cohen_kappa"])
@pytest.mark.parametrize("shift", [0.3, 0.0, -0.3])
def test_a_bootstrap_counts_no_more_rows_than_the_rare_class_has(evaluate, labels, scores, metric, shift):
    source = np.stack([1 - (mine := np.clip(scores[:, 1] + shift, 0, 1)), mine], axis=1)
    row = evaluate(metric, source=source, candidate=source, labels=labels)
    predicted = int((source.argmax(axis=1) == 1).sum())
    assert row["units"] == min(labels.sum(), predicted)  # a precision has the predicted ones below its fraction


@pytest.mark.parametrize("metric", ["average_precision", "roc_auc"])
def test_an_area_of_two_classes_may_be_lost_with_the_rare_one(evaluate, labels, scores, metric):
    assert evaluate(metric, source=scores, candidate=scores, labels=labels)["units"] == labels.sum()


def test_of_three_classes_each_counts_as_many_rows_as_the_rarest(evaluate, random):
    labels, scores = random.choice(3, N, p=[0.7, 0.2, 0.1]), random.dirichlet(np.ones(3), N)
    for metric in ("roc_auc", "average_precision", "matthews_corrcoef"):
        row = evaluate(metric, source=scores, candidate=scores, labels=labels)
        assert row["units"] == 3 * np.bincount(labels).min()


def test_a_class_without_a_row_has_no_recall(evaluate, scores):
    error = evaluate("recall", source=scores, candidate=scores, labels=np.zeros(N, np.int64))["error"]
    assert error["slug"] == "program-failed"
    assert "no row is of class 1" in error["why"]


def test_a_balanced_accuracy_is_compared_by_the_rows_of_each_class(evaluate, labels, scores, worse):
    row = evaluate("balanced_accuracy", source=scores, candidate=worse, labels=labels, names=["legit", "fraud"])
    compute = sklearn.metrics.balanced_accuracy_score
    assert row["source"] == pytest.approx(compute(labels, scores.argmax(1)))
    assert row["candidate"] == pytest.approx(compute(labels, worse.argmax(1)))
    assert row["kind"] == "balanced"
    assert [one["name"] for one in row["classes"]] == ["legit", "fraud"]
    drops = [(one["lost"] - one["gained"]) / one["n"] for one in row["classes"]]
    assert np.mean(drops) == pytest.approx(row["source"] - row["candidate"])


def test_a_name_with_signs_of_markup_is_written_without_them(evaluate, labels, scores, worse):
    names, given = ["<b>|`x`", "y"], {"source": scores, "candidate": worse, "labels": labels}
    assert evaluate("recall", names=names, positive=names[0], **given)["metric"] == "recall of class _b___x_"
