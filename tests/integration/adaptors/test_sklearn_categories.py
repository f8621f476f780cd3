"""Categories that arrays of text cut are refused by name, whatever numbers or chooses them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from hone_runtime.worker.packages import import_worker
from kedro_hone.adaptors.sklearn import adaptor as module

pd = pytest.importorskip("pandas")
import_worker(str(module.TOOLCHAIN.worker))
from hone_sklearn import categories  # noqa: E402 - of the worker that was imported

ROWS, LABELS = 60, np.arange(60) % 2


def make_frame(last: str):
    return pd.DataFrame({"deck": np.array(["A", "B", last] * (ROWS // 3), object)})


def fit_encoder(kind, last):
    columns = make_column_transformer((make_pipeline(kind()), ["deck"]))
    return make_pipeline(columns, LogisticRegression()).fit(make_frame(last), LABELS)


def fit_native(last):
    return HistGradientBoostingClassifier(max_iter=2).fit(make_frame(last).astype("category"), LABELS)


def fit_classes(last):
    x = np.arange(ROWS, dtype=float)[:, None]
    return LogisticRegression().fit(x, make_frame(last)["deck"].to_numpy())


@pytest.mark.parametrize(
    "fit",
    [
        lambda last: fit_encoder(OneHotEncoder, last),
        lambda last: fit_encoder(OrdinalEncoder, last),
        fit_native,
        fit_classes,
    ],
    ids=["one-hot", "ordinal", "native", "classes"],
)
def test_a_category_that_ends_with_nul_is_found_by_name(fit):
    assert categories.find_cut(fit("A\0")) == "A\0"
    assert categories.find_cut(fit("C\0\0")) == "C\0\0"
    assert categories.find_cut(fit("A\0B")) is None
    assert categories.find_cut(fit("C")) is None
