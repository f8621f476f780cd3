"""The metric that a proposal derives: balanced if a class is rare, and named with its positive class."""

from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.core.stats.intervals import smallest_provable_drop
from kedro_hone.derivation.metric import (
    choose_metric,
    describe_metric,
    find_own_metric,
    find_provable,
    find_rare,
    is_bounded,
)
from kedro_hone.hooks.flags import translate
from kedro_hone.programs import list_programs, load_program

FRAUD = {"0": 3492, "1": 108}
TEXT = {"fraud": 108, "legit": 3492}


@pytest.mark.parametrize(
    ("classes", "rare"),
    [
        ({"a": 99, "b": 901}, "a"),
        ({"a": 100, "b": 900}, None),
        ({"a": 20, "b": 480, "c": 250, "d": 250}, "a"),
        ({"a": 50, "b": 450, "c": 250, "d": 250}, None),
        ({"a": 7}, None),
    ],
)
def test_a_class_is_rare_below_a_fifth_of_an_equal_share(classes, rare):
    assert find_rare(classes) == rare


def test_with_a_rare_class_each_class_counts_the_same_and_the_reason_is_one_line():
    metric = choose_metric(None, "accuracy", FRAUD, {})
    assert metric.key == metric.name == "balanced_accuracy"
    assert "only 3 % of the rows are of class 1" in metric.why
    assert "--set program.metric=accuracy" in metric.why
    assert "\n" not in metric.why


def test_what_the_user_names_wins_and_otherwise_the_programs_own_is_named():
    assert choose_metric("accuracy", "accuracy", FRAUD, {}).key == "accuracy"
    assert choose_metric(None, "accuracy", {"0": 50, "1": 50}, {}).key == "accuracy"
    assert choose_metric(None, "r2", None, {}).name == "r2"


def test_a_metric_of_one_class_names_it():
    assert describe_metric("recall", FRAUD, {}) == "recall of class 1"
    assert describe_metric("recall", TEXT, {"positive": "fraud"}) == "recall of class fraud"
    assert describe_metric("f1_macro", TEXT, {}) == "f1_macro"


@pytest.mark.parametrize("metric", ["recall", "precision", "f1", "jaccard", "average_precision", "neg_recall"])
def test_a_metric_of_one_class_of_text_needs_it(metric):
    with pytest.raises(HoneError, match="needs a positive class") as raised:
        describe_metric(metric, TEXT, {})
    assert "fraud, legit" in raised.value.why
    assert "--option positive=fraud" in translate(raised.value.hint)


def test_how_much_is_provable_depends_on_the_rows_of_the_rare_class():
    def find(metric, **options):
        return find_provable(metric, TEXT, 3600, options=options, confidence=0.95)

    accuracy, balanced, recall = find("accuracy"), find("balanced_accuracy"), find("recall", positive="fraud")
    assert accuracy == pytest.approx(0.00107, abs=1e-5)
    assert balanced > 15 * accuracy
    assert recall == pytest.approx(3.84 / (108 + 3.84), rel=1e-3)


def test_the_metric_of_each_built_in_program_is_known():
    for name in list_programs():
        assert find_own_metric(name, {}) == load_program(name).METRIC
    assert find_own_metric("text-classification", {"multi_label": True}) == "f1_micro"
    assert find_own_metric("programs/mine.py", {}) is None


@pytest.mark.parametrize(
    ("program", "asked", "bounded"),
    [
        ("tabular-classification", "recall", True),
        ("tabular-classification", "neg_log_loss", False),
        ("tabular-classification", "metrics.py:cost", False),
        ("token-classification", None, True),
        ("token-classification", "word_accuracy", False),
        ("tabular-regression", "r2", True),
        ("fidelity", None, True),
        ("speech-recognition", None, False),
        ("causal-language-modeling", None, False),
        ("programs/mine.py", None, False),
    ],
)
def test_few_rows_prove_little_of_a_score_that_is_one_at_best(program, asked, bounded):
    assert is_bounded(program, asked) is bounded


def test_a_metric_that_a_rare_class_can_spoil_is_proved_by_its_rows():
    classes = {"0": 9000, "1": 100}
    few, all_rows = (smallest_provable_drop(rows, 0.95) for rows in (100, 9100))
    for metric in ("roc_auc", "f1_macro", "matthews_corrcoef"):
        assert find_provable(metric, classes, 9100, options={}, confidence=0.95) == few
    assert find_provable("accuracy", classes, 9100, options={}, confidence=0.95) == all_rows
    three = {"a": 9000, "b": 100, "c": 100}
    assert find_provable("roc_auc", three, 9200, options={}, confidence=0.95) == smallest_provable_drop(300, 0.95)
