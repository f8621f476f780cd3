"""The rows that a converted estimator is asked for beyond the calibration data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from hone_runtime.interfaces.texts import MISSING
from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.sklearn.adaptor import TOOLCHAIN

probes = load_file("hone_probes_of_estimators", str(TOOLCHAIN.worker.with_name("probes.py")), parts=False)
DRAW = np.random.default_rng(0)
MATRIX = {"X": np.column_stack([DRAW.normal(size=90), DRAW.integers(0, 5, 90), DRAW.normal(1e6, 1, 90)])}
TABLE = {"color": DRAW.choice(["red", "blue"], (90, 1)).astype(object), "count": DRAW.integers(2, 9, (90, 1))}


def make(feeds, names=None, sentinels=()):
    return {
        probe.kind: probe for probe in probes.make_probes(feeds, [*range(90)], names=names, sentinels=sentinels, seed=0)
    }


def read_changed(probe, feeds) -> list:
    """Return the values of a probe that are not those of the row that it is made of."""
    return [
        value
        for name, array in feeds.items()
        for value, before in zip(probe.feeds[name].ravel(), array[[*probe.origins]].ravel(), strict=True)
        if value != before
    ]


def test_each_column_is_set_to_what_its_own_range_says():
    found = make(MATRIX)
    assert [*found] == ["mixed", "zero", "missing", "smallest", "largest", "below", "above", "next"]
    low, high = MATRIX["X"].min(axis=0), MATRIX["X"].max(axis=0)
    for kind in ("below", "above"):
        given = found[kind].feeds["X"]
        assert (given >= low - (high - low)).all()
        assert (given <= high + (high - low)).all()
    assert set(read_changed(found["next"], MATRIX)) == {5.0}  # of the column of whole numbers alone
    assert np.isnan(read_changed(found["missing"], MATRIX)).all()


def test_one_column_is_changed_in_a_row_and_named():
    probe = make(MATRIX, names=["length", "kind", "width"])["zero"]
    assert [part.what for part in probe.parts] == [
        f"of the calibration data with column {name!r} set to 0" for name in ("length", "kind", "width")
    ]
    for column, part in enumerate(probe.parts):
        given, before = (array[part.rows] for array in (probe.feeds["X"], MATRIX["X"][[*probe.origins]]))
        assert (given[:, column] == 0).all()
        assert (np.delete(given, column, 1) == np.delete(before, column, 1)).all()
    assert make(MATRIX)["zero"].parts[1].what.endswith("with column 1 set to 0")


def test_columns_are_mixed_within_what_they_hold():
    given = make(TABLE)["mixed"].feeds
    for name, array in TABLE.items():
        assert set(given[name].ravel()) <= set(array.ravel())
    assert len(given["color"]) == 512


def test_a_column_of_text_has_a_category_that_does_not_occur():
    found = make(TABLE, sentinels=["?", -1.0])
    assert set(read_changed(found["unseen"], TABLE)) == {"kedro-hone: unseen"}
    assert set(read_changed(found["sentinel"], TABLE)) == {"?", -1}
    assert set(read_changed(found["missing"], TABLE)) == {MISSING}  # whole numbers have no NaN
    assert TABLE["count"].dtype == make(TABLE)["zero"].feeds["count"].dtype


def test_probes_are_the_same_each_time_and_leave_the_data_alone():
    before = MATRIX["X"].copy()
    for first, second in zip(make(MATRIX).values(), make(MATRIX).values(), strict=True):
        np.testing.assert_array_equal(first.feeds["X"], second.feeds["X"])
    np.testing.assert_array_equal(MATRIX["X"], before)


def test_a_wide_table_is_probed_in_some_of_its_columns():
    wide = {"X": DRAW.normal(size=(90, 2000))}
    assert len(make(wide)["zero"].origins) == 128 * 8


@pytest.mark.parametrize(
    ("estimator", "known"),
    [
        (make_pipeline(SimpleImputer(missing_values=-999), LogisticRegression()), [-999.0]),
        (SimpleImputer(missing_values="?"), ["?"]),
        (SimpleImputer(), []),
        (object(), []),
    ],
)
def test_what_stands_for_a_missing_value_is_read_from_the_parameters(estimator, known):
    assert probes.list_sentinels(estimator) == known
