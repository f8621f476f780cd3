"""The target: found by its usual names, and refused where no score would mean anything."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from kedro_hone.derivation.tables import read_table
from kedro_hone.derivation.targets import check_target, count_classes, find_column


@pytest.fixture
def make_table(tmp_path):
    def make(**columns):
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_table(path)

    return make


def refuse(table, name="y", **options):
    with pytest.raises(HoneError) as caught:
        check_target(table, name, **options)
    assert caught.value.slug == "target-unusable"
    return caught.value


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["a", "b"] * 30, {"a": 30, "b": 30}),
        ([0, 1] * 30, {"0": 30, "1": 30}),
        ([0.0, 1] * 30, {"0": 30, "1": 30}),
        ([True, False] * 30, {"False": 30, "True": 30}),
        ([0.5, 1.5] * 30, None),
        ([*range(30)] * 2, None),
        ([[1], [2]] * 30, None),
    ],
)
def test_text_truth_values_and_few_whole_numbers_are_classes(make_table, values, classes):
    found = check_target(make_table(y=values), "y")
    assert (found and count_classes(found)) == classes


def test_the_task_decides_whether_there_are_classes(make_table):
    assert check_target(make_table(y=[0, 1] * 30), "y", classes=False) is None
    assert count_classes(check_target(make_table(y=[*range(30)] * 2), "y", classes=True))["29"] == 2


def test_one_class_is_refused(make_table):
    error = refuse(make_table(y=["a"] * 90))
    assert error.why == "All 90 rows have `a`, so a model that ignores its input is always right."


def test_missing_values_are_refused_with_their_row(make_table, tmp_path):
    assert (
        refuse(make_table(y=["a", None, "b", None])).why == "Row 1 (the first is 0) has no value, and so have 1 more."
    )
    assert refuse(make_table(y=[[1], None])).why == "Row 1 (the first is 0) has no value."
    (tmp_path / "a.csv").write_text("x,y\n1,2\n2,NA\n3,0\n")
    assert refuse(read_table(tmp_path / "a.csv")).why == "Row 1 (the first is 0) has no value."
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,\n3,NA\n")
    assert refuse(read_table(tmp_path / "a.csv")).why == "Row 1 (the first is 0) has no value."


def test_the_word_na_is_a_class_of_text(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,EU\n2,NA\n3,NA\n")
    assert count_classes(check_target(read_table(tmp_path / "a.csv"), "y")) == {"EU": 1, "NA": 2}


def test_another_value_in_each_row_is_refused_and_columns_with_few_are_shown(make_table):
    table = make_table(y=[*range(7, 97)], plan=["a", "b"] * 45, z=[at / 3 for at in range(90)], label=[0, 1, 2] * 30)
    error = refuse(table)
    assert error.why == "Each of its 90 rows has another value, such as `7`, as an index has."
    assert error.hint == "Columns with few values are 'label', 'plan'. Name one: --target NAME."
    assert "such as `a0`" in refuse(make_table(y=[f"a{at}" for at in range(90)])).why


def test_numbers_to_predict_are_no_classes(make_table):
    table = make_table(y=[at / 3 for at in range(90)], plan=["a", "b"] * 45)
    error = refuse(table, classes=True)
    assert (
        error.why
        == "It has 90 different numbers, such as `0.333333`, as a number to predict has; the task has classes."
    )
    assert error.hint == "Columns with few values are 'plan'. Name one: --target NAME. Or name the task: --task NAME."


def test_a_target_without_classes_may_differ_in_each_row_unless_it_counts_the_rows(make_table):
    assert check_target(make_table(y=[at / 7 for at in range(90)]), "y") is None
    assert check_target(make_table(y=[f"text {at}" for at in range(90)]), "y", classes=False) is None
    assert check_target(make_table(y=[at * at for at in range(90)]), "y", classes=False) is None
    assert "as an index has" in refuse(make_table(y=[*range(1, 91)]), classes=False).why


def test_a_column_of_one_number_for_each_row_may_be_a_table(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((4, 2)), y=np.array([[0], [1], [1], [1]]))
    assert count_classes(check_target(read_table(tmp_path / "a.npz"), "y")) == {"0": 1, "1": 3}


def test_columns_are_found_by_name(make_table):
    table = make_table(**{"Churned ": [1, 0], "label": [0, 1]})
    assert find_column(table, "label", flag="--target") == "label"
    with pytest.raises(HoneError) as caught:
        find_column(table, "churned", flag="--group")
    assert caught.value.slug == "column-unknown"
    assert caught.value.hint == "Did you mean 'Churned '? Name a column: --group NAME."
