"""scikit-learn, XGBoost and LightGBM, as MLflow's flavors of these names write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import TensorSpec
from hone_runtime.values.base import Json
from kedro_hone.sources.files import find_entry, find_relative_name, list_code, make_corrupt
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

REFERENCE: Final = "estimator.json"
_KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "sklearn": ("pickled_model", "sklearn_version"),
    "lightgbm": ("data", "lgb_version"),
    "xgboost": ("data", "xgb_version"),
}
"""Flavors, with the keys of the file and of the version that saved it."""
_BOOSTERS: Final = {"lightgbm": "lightgbm.basic.Booster", "xgboost": "xgboost.core.Booster"}
_MOST_TYPES: Final = 500
_NUMBERS: Final[Mapping[str, str]] = {
    "double": "float64",
    "float": "float32",
    "long": "int64",
    "integer": "int64",
    "boolean": "int64",
}
"""MLflow's types of columns, with the corresponding types of tensors."""


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise MLflow's flavors ``sklearn``, ``lightgbm`` and ``xgboost`` only by the ``MLmodel``.

    They become the model's file with ``estimator.json``, which describes how to open it; and the author's code that
    MLflow stores next to it, if pickles are trusted.

    Raises:
        HoneError: ``pickle-not-trusted``, ``model-corrupt``, or ``model-unsupported`` for a column of a strange type.
    """
    said = pulled.mlmodel
    name = next((flavor for flavor in _KEYS if said and flavor in said.flavors), None)
    if said is None or name is None:
        return None
    key, version = _KEYS[name]
    path, entry = find_entry(pulled, name, key), said.flavors[name]
    if path is None or not isinstance(entry, dict):
        return None
    if path.is_dir():  # as written by very old versions of MLflow
        raise make_corrupt(pulled.folder, f"its {key} is a folder")
    serialization = _find_serialization(name, entry, path)
    if serialization in {"pickle", "cloudpickle"} and "pickle" not in pulled.trust:
        raise _explain_pickle(name, path)
    reference: dict[str, Json] = {
        "class": str(entry.get("model_class") or _BOOSTERS.get(name, "")),
        "file": path.name,
        "serialization": serialization,
        "version": str(entry.get(version) or ""),
    }
    if serialization in {"pickle", "cloudpickle"} and said.python:
        reference["python"] = said.python
    if serialization == "skops" and isinstance(named := entry.get("skops_trusted_types"), list):
        reference["trusted"] = [str(one)[:200] for one in named[:_MOST_TYPES]]
    if method := _find_method(said.flavors.get("python_function")):
        reference |= {"predict_fn": method}
    noted: dict[str, Json] = {"columns": [name for name, _ in said.columns]} if said.columns else {}
    noted |= {"signature": dict(said.signature)} if said.signature else {}
    code = list_code(pulled, entry) if "pickle" in pulled.trust else ()
    return Flavor(
        format="sklearn",
        files=((find_relative_name(pulled.folder, path), path.name), *code),
        texts=((REFERENCE, json.dumps(reference, indent=2) + "\n"),),
        inputs=tuple(_list_inputs(said.columns)),
        metadata={"sklearn": noted} if noted else {},
    )


def _explain_pickle(flavor: str, path: Path) -> HoneError:
    return HoneError(
        "pickle-not-trusted",
        f"The model is a pickle ({path.name}).",
        why="Loading a pickle runs whatever code its author put in, and hone.trust does not allow it.",
        hint=f'Log the model again with mlflow.{flavor}.log_model(…, serialization_format="skops"), '
        "with `pip install skops` where you log it, or add `hone.trust: [pickle]`.",
    )


def _find_method(pyfunc: Json) -> str | None:
    """Return the method that ``mlflow.pyfunc`` calls, if its author chose one; the default is ``predict``."""
    method = pyfunc.get("predict_fn") if isinstance(pyfunc, dict) else None
    return method if isinstance(method, str) and re.fullmatch(r"\w{1,80}", method) and method != "predict" else None


def _find_serialization(flavor: str, entry: Mapping[str, Json], path: Path) -> str:
    """Return how a file was written: by the library itself, by skops, or as a pickle."""
    bare = entry.get("model_class", _BOOSTERS.get(flavor)) == _BOOSTERS.get(flavor)
    if flavor == "xgboost" or (flavor == "lightgbm" and bare):
        return flavor
    serialization = str(entry.get("serialization_format") or ("cloudpickle" if flavor == "lightgbm" else "pickle"))
    if serialization not in {"skops", "cloudpickle", "pickle"} or not re.fullmatch(r"[\w.-]+", path.name):
        raise make_corrupt(path, f"it was written as {serialization!r:.80}, which is not known")
    return serialization


def _list_inputs(columns: tuple[tuple[str, str], ...]) -> Iterator[TensorSpec]:
    """Yield the inputs for a table: one matrix if all columns are numeric, otherwise one for each column."""
    kinds = {kind for _, kind in columns}
    for name, kind in columns:
        if kind not in _NUMBERS and kind != "string":
            raise HoneError(
                "model-unsupported",
                f"The model takes the column {name!r:.80}, which is neither a number nor text.",
                why=f"Its signature has the type {kind!r:.80}.",
                hint="Train the model on a number or text, such as the days since a date, and log it again.",
            )
    if columns and "string" not in kinds:
        dtype = "float32" if kinds == {"float"} else "float64"
        yield TensorSpec(name="X", dtype=dtype, shape=("batch", len(columns)))
        return
    for name, kind in columns:
        yield TensorSpec(name=name, dtype=_NUMBERS.get(kind, "str"), shape=("batch", 1))


SOURCE_FORMAT = SourceFormat(
    name="sklearn",
    noun="an estimator of scikit-learn, XGBoost or LightGBM",
    detect=detect,
    seals=frozenset({"sklearn"}),
    interface="sklearn",
    baseline="the estimator itself, as its own library runs it, with {threads}",
    order=35,
    refused={
        "": "Log a classifier or a regressor that takes rows of columns, and name its version in hone.model.uri.",
        "pickle-mismatch": "Fit and log the model again with the versions that open it here; or convert it to ONNX "
        "where it opens (skl2onnx.to_onnx), and name that file.",
    },
)
