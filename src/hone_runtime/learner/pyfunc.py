"""The loader for ``mlflow.pyfunc.load_model`` of a winner: arrays in and out, or rows as for an estimator."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.interfaces.tensors import bind, make_shape_check
from hone_runtime.learner.download import Download
from hone_runtime.learner.interfaces import check_text
from hone_runtime.learner.manifest import read_artifact
from hone_runtime.learner.mismatch import Loading
from hone_runtime.learner.model import Interface, Learner
from hone_runtime.learner.openers import open_learner
from hone_runtime.learner.versions import check_version_files
from hone_runtime.values.artifact import TensorSpec


class PyfuncModel:
    """A learner with MLflow's ``predict``."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._check_shapes = make_shape_check(learner.artifact.inputs)

    def predict(self, data: Any) -> Any:
        """Return the array of a single output, or a dictionary of several.

        ``data`` is an array, a dictionary of arrays, or a DataFrame with a column for each input (or, for a single
        input, one for each feature).
        """
        specs = self.learner.artifact.inputs
        if hasattr(data, "columns"):
            feeds = _read_frame(data, specs)
        else:
            args, kwargs = ((), dict(data)) if isinstance(data, Mapping) else ((data,), {})
            values = bind([spec.name for spec in specs], args, kwargs)
            feeds = {spec.name: _cast(spec, np.asarray(values[spec.name])) for spec in specs}
        self._check_shapes(feeds)
        outputs = self.learner.run(feeds)
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs


class PyfuncEstimator:
    """A learner of an estimator, with the method that is ``predict`` in the source's MLflow version.

    Raises:
        ValueError: The winner has no such method.
    """

    def __init__(self, learner: Learner) -> None:
        name = str(learner.artifact.metadata["sklearn"].get("predict_fn", "predict"))
        if name not in {"predict", "predict_proba"} or not hasattr(learner, name):
            why = "only predict and, of classifiers with probabilities, predict_proba are known"
            raise ValueError(f"the source was logged with pyfunc_predict_fn={name!r}; of a winner {why}")
        self.learner, self._predict = learner, getattr(learner, name)

    def predict(self, data: Any) -> Any:
        """Return labels, numbers or probabilities for rows: an array, a list or a DataFrame."""
        return self._predict(data)


def _load_pyfunc(path: str) -> PyfuncModel | PyfuncEstimator:
    """Load the ``artifact`` folder of a published model folder; MLflow requires a function of this name."""
    files = Path(path)
    check_version_files(files.parent)
    artifact = read_artifact(files)
    called: Interface = "sklearn" if artifact.metadata.get("interface") == "sklearn" else "onnx"
    opened = partial(open_learner, interface=called)
    with ExitStack() as stack:
        # MLflow runs the loader named in ``MLmodel`` for any format: its caller trusts the version.
        found = Download(folder=files.parent, files=files, artifact=artifact, version=None, name=None, vouched=True)
        learner = Loading(download=found, on_mismatch="fallback", open=opened, stack=stack).load()
        model = PyfuncEstimator(learner) if called == "sklearn" else PyfuncModel(learner)
        weakref.finalize(learner, stack.pop_all().close)
    return model


def _read_frame(frame: Any, specs: tuple[TensorSpec, ...]) -> dict[str, np.ndarray[Any, Any]]:
    if len(specs) == 1 and specs[0].name not in frame.columns:
        return {specs[0].name: _fit(specs[0], frame.to_numpy())}
    return {spec.name: _fit(spec, frame[spec.name].to_numpy()) for spec in specs}


def _fit(spec: TensorSpec, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Reshape the rows of a table to the model's shape: a table has no axes beyond its columns."""
    # A missing value among text must not become text.
    if array.dtype == object and not (spec.dtype == "str" and all(np.ndim(value) == 0 for value in array)):
        array = np.stack([np.asarray(value) for value in array])
    inner = [size if isinstance(size, int) else -1 for size in spec.shape[1:]]
    if spec.shape and inner.count(-1) <= 1:
        array = array.reshape(len(array), *inner)
    return _cast(spec, array)


def _cast(spec: TensorSpec, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if spec.dtype == "str":
        return check_text(spec.name, array)
    return array.astype(np.dtype(spec.dtype), copy=False, casting="same_kind")
