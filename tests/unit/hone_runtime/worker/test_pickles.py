"""Compiled code in pickles of another Python is found without opening them."""

from __future__ import annotations

import pickle
import platform

import cloudpickle
import pytest

from hone_runtime.worker.pickles import MISMATCH, check_code
from hone_runtime.worker.refusal import UnsuitedError

OTHER = "3.99.1"


@pytest.mark.attack(
    what="a pickle with code of another Python, which runs as something else",
    who="registry",
    stopped_by="it is not opened",
)
def test_code_of_another_python_is_refused(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(cloudpickle.dumps(lambda rows: rows * 2))
    with pytest.raises(UnsuitedError, match=r"compiled by Python 3\.99\.1") as refused:
        check_code(path, OTHER)
    assert refused.value.slug == MISMATCH


def test_code_of_this_python_and_what_has_none_are_taken(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(cloudpickle.dumps(lambda rows: rows * 2))
    check_code(path, platform.python_version())
    check_code(path, ".".join([*platform.python_version_tuple()[:2], "99"]))
    check_code(path, "")
    for content in (pickle.dumps({"coef": [1.0]}), b""):
        path.write_bytes(content)
        check_code(path, OTHER)
