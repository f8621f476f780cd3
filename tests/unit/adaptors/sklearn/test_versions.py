"""Why an estimator's file cannot be opened: other versions, a package that is absent, or it is corrupt."""

from __future__ import annotations

import pickle
import platform
from pathlib import Path

import pytest
import sklearn

from hone_runtime.worker.packages import import_worker
from hone_runtime.worker.refusal import UnsuitedError
from kedro_hone.adaptors.sklearn.adaptor import TOOLCHAIN

import_worker(str(TOOLCHAIN.worker))
from hone_sklearn import versions  # noqa: E402 - of the worker that was imported

HERE = {"class": "", "version": sklearn.__version__, "python": platform.python_version()}


def fail(content: bytes) -> Exception:
    """Return what pickle raises for a file."""
    with pytest.raises(Exception, match=r".") as raised:
        pickle.loads(content)  # noqa: S301 - of this test
    return raised.value


@pytest.mark.parametrize(
    ("reference", "content", "words"),
    [
        ({**HERE, "version": "0.21.3"}, b"csklearn.linear_model.logistic\nA\n.", "scikit-learn 0.21.3 and Python"),
        ({**HERE, "python": "3.7.4"}, b"csklearn.linear_model\nAbsent\n.", "Python 3.7.4 saved it"),
        (HERE, b"\x80\x09.", "unsupported pickle protocol: 9"),
        (HERE, b"ccategory_encoders_absent.woe\nA\n.", "needs the package 'category_encoders_absent'"),
    ],
)
def test_a_pickle_that_does_not_fit_is_refused_with_the_versions(reference, content, words):
    told = versions.explain_failure(reference, Path("model.pkl"), fail(content))
    assert isinstance(told, UnsuitedError)
    assert told.slug == "pickle-mismatch"
    assert words in str(told)


def test_with_the_same_versions_a_file_is_corrupt():
    told = versions.explain_failure(HERE, Path("model.pkl"), fail(b"\x80\x04nothing"))
    assert isinstance(told, ValueError)
    assert f"saved by version {sklearn.__version__}, cannot be opened" in str(told)
