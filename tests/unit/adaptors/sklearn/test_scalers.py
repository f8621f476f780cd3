"""What the converters of steps over numbers refuse."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.impute import SimpleImputer

from hone_runtime.worker.packages import import_worker
from kedro_hone.adaptors.sklearn.adaptor import TOOLCHAIN

import_worker(str(TOOLCHAIN.worker))
from hone_sklearn import scalers  # noqa: E402 - of the worker that was imported


@pytest.mark.parametrize("missing", [None, "none"])
def test_a_missing_value_that_is_no_number_is_refused(missing):
    rows = np.array([[1.0], [missing], [3.0]], object)
    imputer = SimpleImputer(missing_values=missing, strategy="most_frequent").fit(rows)
    with pytest.raises(NotImplementedError, match=f"missing_values={missing!r} of numbers"):
        scalers.write_imputer(scalers.Numbers(None, single=False), imputer, "table")


def test_a_text_that_takes_the_place_of_numbers_is_refused():
    imputer = SimpleImputer(strategy="constant", fill_value="none").fit(np.array([[1.0], [np.nan]], object))
    with pytest.raises(NotImplementedError, match="numbers are imputed by 'none'"):
        scalers.write_imputer(scalers.Numbers(None, single=False), imputer, "table")
