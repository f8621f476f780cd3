"""Scoring candidates: metrics, kinds of comparison, and what is said of labels that do not match."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.metrics

N = 60


def read(path, name):
    with np.load(path) as archive:
        return archive[name]


@pytest.fixture
def labels(random):
    return random.integers(0, 3, N)


@pytest.fixture
def logits(random, labels):
    return np.eye(3)[labels] * 2 + random.normal(size=(N, 3))


@pytest.fixture
def worse(random, logits):
    return logits + random.normal(size=logits.shape)


@pytest.fixture
def evaluate(worker, make_job, save, monkeypatch):
    """Score candidates of a classifier."""
    monkeypatch.setattr(worker.scores, "REPLICATES", 50)

    def evaluate(program, *, source, targets, metric=None, options=None, **candidates):
        source = source if isinstance(source, dict) else {"out": source}
        paths = {
            name: save(f"{name}.npz", **(arrays if isinstance(arrays, dict) else {"out": arrays}))
            for name, arrays in candidates.items()
        }
        job = make_job(
            program,
            program_options=options,
            source=save("source.npz", **source),
            targets=save("targets.npz", **({} if targets is None else {"target": targets})),
            candidates=paths,
            metric=metric,
            seed=3,
        )
        return worker.evaluate(job)

    return evaluate


def test_accuracy_is_compared_by_rows_lost_and_gained(evaluate, logits, worse, labels):
    row = evaluate("image-classification", source=logits, targets=labels, worse=worse)["candidates"]["worse"]
    before, after = logits.argmax(1) == labels, worse.argmax(1) == labels
    assert row == {
        "metric": "accuracy",
        "outputs": ["out"],
        "higher_is_better": True,
        "source": before.mean(),
        "candidate": after.mean(),
        "n": N,
        "kind": "proportion",
        "lost": int((before & ~after).sum()),
        "gained": int((~before & after).sum()),
    }
    assert row["lost"] > row["gained"] > 0


@pytest.mark.parametrize(
    ("metric", "function", "arguments"),
    [
        ("f1_macro", "f1_score", {"average": "macro"}),
        ("recall_weighted", "recall_score", {"average": "weighted"}),
        ("matthews_corrcoef", "matthews_corrcoef", {}),
        ("cohen_kappa", "cohen_kappa_score", {}),
    ],
)
def test_metrics_of_scikit_learn_are_bootstrapped(evaluate, logits, worse, labels, metric, function, arguments):  # noqa: PLR0917 - fixtures
    row = evaluate("image-classification", source=logits, targets=labels, metric=metric, worse=worse)
    row = row["candidates"]["worse"]
    compute = getattr(sklearn.metrics, function)
    assert row["source"] == pytest.approx(compute(labels, logits.argmax(1), **arguments))
    assert row["candidate"] == pytest.approx(compute(labels, worse.argmax(1), **arguments))
    drops = read(row["replicates"], "replicates")
    assert (row["kind"], row["higher_is_better"], drops.shape) == ("bootstrap", True, (50,))
    assert drops.mean() == pytest.approx(row["source"] - row["candidate"], abs=0.05)


def test_the_source_against_itself_drops_nothing(evaluate, logits, labels):
    row = evaluate("image-classification", source=logits, targets=labels, metric="f1_macro", same=logits)
    assert not read(row["candidates"]["same"]["replicates"], "replicates").any()


@pytest.mark.parametrize(
    ("metric", "higher", "kind"),
    [
        ("mean_absolute_error", False, "mean"),
        ("neg_mean_absolute_error", True, "mean"),
        ("mean_squared_error", False, "mean"),
        ("r2", True, "bootstrap"),
        ("root_mean_squared_error", False, "bootstrap"),
        ("neg_median_absolute_error", True, "bootstrap"),
    ],
)
def test_a_positive_drop_is_worse_whatever_the_direction(evaluate, random, metric, higher, kind):
    wanted = random.normal(size=(N, 1))
    good, bad = wanted + random.normal(size=(N, 1)) * 0.1, wanted + random.normal(size=(N, 1)) * 0.5
    row = evaluate("tabular-regression", source=good, targets=wanted, metric=metric, bad=bad)["candidates"]["bad"]
    assert (row["higher_is_better"], row["kind"]) == (higher, kind)
    drops = read(row["differences"], "differences") if kind == "mean" else read(row["replicates"], "replicates")
    sign = 1 if higher else -1
    drop = sign * (row["source"] - row["candidate"])
    assert drop > 0
    assert drops.mean() == pytest.approx(drop, rel=1e-9 if kind == "mean" else 0.3)


@pytest.mark.parametrize("unit", [1.0, 1000.0])
@pytest.mark.parametrize("metric", ["root_mean_squared_error", "mean_absolute_error"])
def test_the_size_of_a_loss_is_what_the_predictions_of_other_rows_would_lose(evaluate, random, metric, unit):
    wanted = random.normal(size=(N, 1)) * unit
    given = wanted + 0.1 * unit
    row = evaluate("tabular-regression", source=given, targets=wanted, metric=metric, same=given)["candidates"]["same"]
    errors = np.abs(given - np.roll(wanted, -(N // 2), axis=0))
    lost = errors.max() if row["kind"] == "mean" else np.sqrt((errors**2).mean())
    assert row["span"] == pytest.approx(lost - 0.1 * unit)


def test_the_default_of_regression_is_r2_as_scikit_learn_has_it(evaluate, random):
    wanted, given = random.normal(size=(N, 2)), random.normal(size=(N, 2))
    row = evaluate("tabular-regression", source=wanted, targets=wanted, given=given)["candidates"]["given"]
    assert (row["metric"], row["source"]) == ("r2", 1.0)
    assert row["candidate"] == pytest.approx(sklearn.metrics.r2_score(wanted, given))


@pytest.mark.parametrize("metric", ["log_loss", "roc_auc"])
@pytest.mark.parametrize("classes", [2, 3])
def test_metrics_of_probabilities(evaluate, random, metric, classes):
    labels = random.integers(0, classes, N)
    logits = np.eye(classes)[labels] + random.normal(size=(N, classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    row = evaluate("image-classification", source=logits, targets=labels, metric=metric, same=logits)
    value = row["candidates"]["same"]["source"]
    if metric == "log_loss":
        assert value == pytest.approx(sklearn.metrics.log_loss(labels, probabilities))
    else:
        scores = probabilities[:, 1] if classes == 2 else probabilities
        assert value == pytest.approx(sklearn.metrics.roc_auc_score(labels, scores, multi_class="ovr"))


def test_fidelity_is_a_mean_over_rows_and_needs_no_labels(evaluate, random):
    source = {"a": random.normal(size=(N, 3)), "b": random.normal(size=(N, 8))}
    near = {name: array * 1.01 for name, array in source.items()}
    far = {name: array.copy() for name, array in near.items()}
    far["a"][:10] *= -1
    far["b"][5:15] = np.nan
    rows = evaluate("fidelity", source=source, targets=None, near=near, far=far, same=source)["candidates"]
    assert (rows["near"]["metric"], rows["near"]["source"]) == ("cosine_similarity", 1.0)
    assert {row["kind"] for row in rows.values()} == {"mean"}, "the source against itself too: its kind plans the gate"
    near_drops, far_drops = (read(rows[name]["differences"], "differences") for name in ("near", "far"))
    np.testing.assert_allclose(near_drops, 1 - 2 * 1.01 / (1 + 1.01**2))
    np.testing.assert_allclose(far_drops, [1.0] * 15 + [near_drops[0]] * (N - 15))
    assert rows["far"]["candidate"] == pytest.approx(1 - far_drops.mean())


def test_fidelity_by_argmax_counts_rows(evaluate, logits):
    changed = logits * 3
    changed[0] = -changed[0]
    rows = evaluate("fidelity", source=logits, targets=None, options={"compare": "argmax"}, changed=changed)
    row = rows["candidates"]["changed"]
    assert (row["metric"], row["kind"], row["lost"]) == ("argmax_agreement", "proportion", 1)


def test_fidelity_by_argmax_of_one_number_is_refused(evaluate, random):
    error = evaluate("fidelity", source=random.normal(size=(N, 1)), targets=None, options={"compare": "argmax"})[
        "error"
    ]
    assert (error["slug"], "one number" in error["why"]) == ("recipe-invalid", True)


def test_a_metric_of_the_table_keeps_its_name_under_fidelity(evaluate, random):
    source = random.normal(size=(N, 2))
    row = evaluate("fidelity", source=source, targets=None, metric="agreement", same=source)["candidates"]["same"]
    assert row["metric"] == "cosine_similarity"


def test_scores_that_are_not_finite_are_wrong(evaluate, logits, labels):
    broken = logits.copy()
    broken[:, 1] = np.nan
    row = evaluate("image-classification", source=logits, targets=labels, broken=broken)["candidates"]["broken"]
    assert row["candidate"] == 0


@pytest.mark.parametrize("scores", ["probabilities", "logits"])
def test_one_number_for_two_classes(evaluate, scores):
    given = np.array([0.2, 0.7, 0.4, -0.1]) if scores == "logits" else np.array([0.2, 0.7, 0.6, 0.4])
    wanted = np.array([1, 1, 1, 0]) if scores == "logits" else np.array([0, 1, 1, 0])
    row = evaluate("tabular-classification", source=given, targets=wanted, options={"scores": scores}, same=given)
    assert row["candidates"]["same"]["source"] == 1.0


def test_a_model_that_names_the_class_itself(evaluate, labels, logits):
    source = {"label": labels, "probabilities": logits}
    row = evaluate("tabular-classification", source=source, targets=labels, same=source)
    assert row["candidates"]["same"]["source"] == 1.0


def test_labels_beyond_the_outputs(evaluate, logits, labels):
    error = evaluate("image-classification", source=logits, targets=labels + 2, same=logits)["error"]
    assert (error["slug"], error["why"]) == ("labels-mismatch", "label 4 is not one of the model's 3 classes (0 to 2)")


def test_other_numbers_of_rows(evaluate, logits, labels):
    error = evaluate("image-classification", source=logits, targets=labels[:-1], same=logits)["error"]
    assert (error["slug"], "there are 59 rows" in error["why"]) == ("labels-mismatch", True)


def test_one_bad_candidate_does_not_hide_the_others(evaluate, logits, labels):
    rows = evaluate("image-classification", source=logits, targets=labels, short=logits[:1], same=logits)["candidates"]
    assert rows["short"]["error"]["slug"] == "labels-mismatch"
    assert rows["same"]["lost"] == 0


@pytest.mark.parametrize(("name", "near"), [("f1_marco", "f1_macro"), ("acuracy", "accuracy"), ("zzz", "accuracy")])
def test_an_unknown_metric(evaluate, logits, labels, name, near):
    error = evaluate("image-classification", source=logits, targets=labels, metric=name, same=logits)["error"]
    assert (error["slug"], near in error["why"]) == ("metric-unknown", True)


def test_a_metric_that_does_not_suit_the_task(evaluate, random):
    wanted = random.normal(size=(N, 1))
    error = evaluate("tabular-regression", source=wanted, targets=wanted, metric="f1_macro", same=wanted)["error"]
    assert error["slug"] == "program-failed"


@pytest.mark.parametrize("place", ["mine.py", "hone_mine.metrics"])
def test_the_users_own_metric(evaluate, tmp_path, logits, labels, monkeypatch, place):  # noqa: PLR0917 - fixtures
    monkeypatch.setattr("sys.path", __import__("sys").path.copy())
    code = "HIGHER_IS_BETTER = False\ndef missed(predictions, targets, options):\n"
    code += "    return (predictions != targets['target']).mean()\n"
    (tmp_path / "hone_mine").mkdir()
    (tmp_path / "hone_mine" / "metrics.py").write_text(code)
    (tmp_path / "mine.py").write_text(code)
    row = evaluate("image-classification", source=logits, targets=labels, metric=f"{place}:missed", same=logits)
    row = row["candidates"]["same"]
    assert (row["metric"], row["higher_is_better"], row["kind"]) == ("missed", False, "bootstrap")
    assert row["source"] == pytest.approx((logits.argmax(1) != labels).mean())


@pytest.mark.parametrize("name", ["mine.py:missed", "hone_nowhere.metrics:missed", "json:missed"])
def test_the_users_metric_does_not_exist(evaluate, logits, labels, name):
    error = evaluate("image-classification", source=logits, targets=labels, metric=name, same=logits)["error"]
    assert error["slug"] == "metric-unknown"


def test_rows_that_do_not_average_to_the_metric(evaluate, tmp_path, logits, labels):
    (tmp_path / "liar.py").write_text(
        "METRIC, HIGHER_IS_BETTER = 'mine', True\n"
        "def decode(outputs, options):\n    return outputs['out'].argmax(1)\n"
        "def score(predictions, targets, options):\n    return predictions * 0.0\n"
        "def metric(predictions, targets, options):\n    return 0.9\n"
    )
    rows = evaluate("liar.py", source=logits, targets=labels, same=logits)["candidates"]
    assert (rows["same"]["error"]["slug"], "average" in rows["same"]["error"]["what"]) == ("program-failed", True)


def test_rows_whose_sign_is_not_that_of_the_direction(evaluate, tmp_path, random):
    """The mean of the error itself, not of its negative: a worse candidate would look better."""
    (tmp_path / "wrong_sign.py").write_text(
        "import numpy as np\n"
        "METRIC, HIGHER_IS_BETTER = 'error', False\n"
        "def decode(outputs, options):\n    return outputs['out']\n"
        "def score(predictions, targets, options):\n    return np.abs(predictions - targets['target']).mean(axis=1)\n"
        "def metric(predictions, targets, options):\n    return score(predictions, targets, options).mean()\n"
    )
    wanted = random.normal(size=(N, 2))
    found = evaluate("wrong_sign.py", source=wanted + 0.1, targets=wanted, bad=wanted + 3.0)["candidates"]["bad"]

    assert found["error"]["slug"] == "program-failed"
    assert "higher is better" in found["error"]["why"]


def test_a_metric_that_has_no_value_for_one_candidate_costs_only_that_one(evaluate, tmp_path, logits, labels):
    """All in int8 may predict a single class, and a precision then divides by zero."""
    code = "def precision(given, wanted, options):\n    mine = given == 1\n"
    code += "    return int((wanted['target'][mine] == 1).sum()) / int(mine.sum())\n"
    (tmp_path / "mine.py").write_text(code)
    ruined = np.eye(logits.shape[1])[np.zeros(len(logits), dtype=int)]
    given = {"source": logits, "targets": labels, "metric": "mine.py:precision"}
    found = evaluate("image-classification", **given, same=logits, ruined=ruined)["candidates"]
    assert found["ruined"]["error"]["slug"] == "program-failed"
    assert "division by zero" in found["ruined"]["error"]["why"]
    assert found["same"]["candidate"] == found["same"]["source"]


def test_a_class_that_many_resamples_lack(evaluate, random):
    labels = np.zeros(N, dtype=int)
    labels[0] = 1
    logits = random.normal(size=(N, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = evaluate("image-classification", source=logits, targets=labels, metric="roc_auc", same=logits)
    assert (rows["candidates"]["same"]["error"]["slug"]) == "program-failed"


@pytest.mark.parametrize("program", ["image-classification", "tabular-classification"])
def test_labels_of_which_the_model_knows_nothing_are_doubted(evaluate, labels, program):
    right = np.eye(3)[labels]
    shifted = evaluate(program, source=right, targets=(labels + 1) % 3, source_=right)["candidates"]["source_"]
    share = np.bincount((labels + 1) % 3).max() / N
    often = np.bincount((labels + 1) % 3).argmax()
    assert shifted["doubt"] == (
        f"the predictions are right in 0.0% of the rows, and the most frequent label, {often}, would be in "
        f"{share:.1%}: check that the labels are the model's"
    )
    assert "doubt" not in evaluate(program, source=right, targets=labels, source_=right)["candidates"]["source_"]


def test_a_label_that_is_written_otherwise_is_doubted(evaluate, labels):
    names = np.array(["stays", "leaving", "unsure"])
    outputs, written = names[labels], np.array(["stays", "Leaving", "unsure"])[labels]
    row = evaluate("tabular-classification", source=outputs, targets=written, one=outputs)["candidates"]["one"]
    assert "'Leaving' in no row" in row["doubt"]
    row = evaluate("tabular-classification", source=outputs, targets=names[labels], one=outputs)["candidates"]["one"]
    assert "doubt" not in row


def test_numbers_of_which_the_model_knows_nothing_are_doubted(evaluate):
    wanted = np.random.default_rng(0).normal(size=(N, 1))
    row = evaluate("tabular-regression", source=wanted, targets=wanted + 100, one=wanted)["candidates"]["one"]
    assert "no better than the mean" in row["doubt"]
    row = evaluate("tabular-regression", source=wanted, targets=wanted + 0.1, one=wanted)["candidates"]["one"]
    assert "doubt" not in row


def test_labels_that_are_all_the_same_say_nothing_about_the_model(evaluate):
    ones = np.zeros(N, int)
    row = evaluate("image-classification", source=np.eye(3)[ones], targets=ones, one=np.eye(3)[ones])
    assert "doubt" not in row["candidates"]["one"]


def test_a_program_without_classes_has_no_doubt(evaluate, logits):
    row = evaluate("fidelity", source=logits, targets=None, one=logits)["candidates"]["one"]
    assert "doubt" not in row


RMSE = """
import numpy as np

{direction}

def rmse(predictions, targets, options):
    return float(np.sqrt(np.mean((predictions.reshape(-1) - targets["target"].reshape(-1)) ** 2)))
"""


@pytest.mark.parametrize(
    ("direction", "doubted"), [("", True), ("HIGHER_IS_BETTER = True", True), ("HIGHER_IS_BETTER = False", False)]
)
def test_a_direction_that_the_targets_of_other_rows_contradict_is_doubted(
    evaluate, tmp_path, random, direction, doubted
):
    (tmp_path / "own.py").write_text(RMSE.format(direction=direction))
    wanted = random.normal(size=(N, 1))
    given = wanted + 0.1 * random.normal(size=(N, 1))

    row = evaluate("tabular-regression", source=given, targets=wanted, metric=f"{tmp_path}/own.py:rmse", same=given)

    doubt = row["candidates"]["same"].get("doubt", "")
    assert bool(doubt) is doubted
    if doubted:
        assert doubt.startswith("'rmse' is better with the targets of other rows (1.")
        assert "although higher counts as better: check the metric's HIGHER_IS_BETTER" in doubt


@pytest.mark.parametrize("metric", ["r2", "mean_absolute_error", "neg_r2", "root_mean_squared_error"])
def test_the_direction_of_a_named_metric_is_right(evaluate, random, metric):
    wanted = random.normal(size=(N, 1))
    given = wanted + 0.1 * random.normal(size=(N, 1))

    row = evaluate("tabular-regression", source=given, targets=wanted, metric=metric, same=given)

    assert "doubt" not in row["candidates"]["same"]


def test_few_rows_say_nothing_about_the_direction(evaluate, tmp_path):
    (tmp_path / "own.py").write_text(RMSE.format(direction=""))
    wanted = np.arange(8.0).reshape(8, 1)

    row = evaluate("tabular-regression", source=wanted, targets=wanted, metric=f"{tmp_path}/own.py:rmse", same=wanted)

    assert "doubt" not in row["candidates"]["same"]


LOOKS_UP = """
HIGHER_IS_BETTER = False

def found(predictions, targets, options):
    if predictions.ravel()[0] != targets["target"].ravel()[0]:
        raise KeyError(targets["target"].ravel()[0])
    return 0.5
"""


def test_a_metric_that_takes_no_other_rows_targets_is_not_doubted(evaluate, tmp_path, random):
    """One that looks its targets up, and raises what it likes where there is none."""
    (tmp_path / "own.py").write_text(LOOKS_UP)
    wanted = random.normal(size=(N, 1))

    row = evaluate("tabular-regression", source=wanted, targets=wanted, metric=f"{tmp_path}/own.py:found", same=wanted)

    assert row["candidates"]["same"]["source"] == 0.5
    assert "doubt" not in row["candidates"]["same"]
