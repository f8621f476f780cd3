"""What is timed where the source takes tensors: the call that ``kedro_hone.load`` gives."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from toolchains.toy.model import make_model

from hone_runtime.contract.job import Job, JobInput
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.outcome import Failed
from kedro_hone.core.workers.host.run import open_session

WORKER = """
class Session:
    def run(self, feeds): return {"y": feeds["x"]}

def load(job): return Session()
"""


def time_calls(folder, worker, artifact, *, interface, feeds=None):
    """Return what a session tells of three calls with each of the feeds: their times, or a failure."""
    (folder / "worker.py").write_text(worker)
    job = Job(
        function="load",
        worker=folder / "worker.py",
        adaptor="t",
        input=JobInput.of(artifact, folder / "model"),
        interface=interface,
    )
    limits = Limits(seconds=900, memory_mb=8192)
    with closing(open_session(job, python=Path(sys.executable), folder=folder / "session", limits=limits)) as session:
        session.load()
        feeds = feeds or {"fits": np.zeros((2, 4), np.float32)}
        for name, x in feeds.items():
            np.savez(folder / f"{name}.npz", x=x)
            session.arm(name, folder / f"{name}.npz")
        return [session.time(name, calls=3) for name in feeds]


@pytest.mark.parametrize("interface", [None, "onnx", "sklearn", "pytorch"])  # what an estimator takes is not known
def test_tensors_are_passed_where_the_source_takes_them(tmp_path, interface):
    feeds = {"fits": np.zeros((2, 4), np.float32), "other": np.zeros((2, 4), np.float64)}
    fits, other = time_calls(tmp_path, WORKER, make_model(tmp_path / "model"), interface=interface, feeds=feeds)

    assert isinstance(fits, list), fits
    # Only the interface of tensors looks at their type.
    assert isinstance(other, Failed) == (interface == "pytorch")
    if isinstance(other, Failed):
        assert "x is torch.float64" in other.reason


TRANSFORMERS_WORKER = """
import sys

class Session:
    def run(self, feeds):
        if sys._getframe(1).f_code.co_filename.endswith("pretrained.py"):
            raise ValueError("called by " + sys._getframe(1).f_globals["__name__"])
        return {"y": feeds["x"]}

def load(job): return Session()
"""


def test_a_transformers_model_is_timed_as_it_is_called(tmp_path):
    pytest.importorskip("transformers")
    artifact = make_model(tmp_path / "model")
    about = {"class": "BertModel", "output_class": "BaseModelOutput", "config": {}}
    structure = {"kind": "dict", "items": [["last_hidden_state", "y"]]}
    metadata = artifact.metadata | {"transformers": about, "structure": structure}
    changed = artifact.model_copy(update={"metadata": metadata})
    (found,) = time_calls(tmp_path, TRANSFORMERS_WORKER, changed, interface="transformers")
    assert isinstance(found, Failed)
    assert "called by hone_runtime.interfaces.pretrained" in found.reason


ROWS_WORKER = """
import sys

class Session:
    def run(self, feeds):
        caller = sys._getframe(1)
        rows = type(caller.f_locals["rows"]).__name__
        raise ValueError(f"{caller.f_code.co_name} of {caller.f_globals['__name__']} was given a {rows}")

def load(job): return Session()
"""


@pytest.mark.parametrize(
    ("about", "called"),
    [
        ({"kind": "classifier", "feature_names_in": ["a", "b", "c", "d"]}, "predict_proba {} was given a DataFrame"),
        ({"kind": "classifier"}, "predict_proba {} was given a ndarray"),
        ({"kind": "regressor", "feature_names_in": ["a", "b", "c", "d"]}, "predict_numbers {} was given a DataFrame"),
    ],
)
def test_an_estimator_is_timed_with_rows_as_its_callers_have_them(tmp_path, about, called):
    artifact = make_model(tmp_path / "model")
    name = "probabilities" if about["kind"] == "classifier" else "variable"
    outputs = tuple(spec.model_copy(update={"name": name}) for spec in artifact.outputs)
    metadata = artifact.metadata | {"sklearn": {"classes": [0, 1, 2], "classes_dtype": "<i8", **about}}
    changed = artifact.model_copy(update={"metadata": metadata, "outputs": outputs})
    (found,) = time_calls(tmp_path, ROWS_WORKER, changed, interface="sklearn")
    assert isinstance(found, Failed)
    assert called.format("of hone_runtime.interfaces.tables") in found.reason
