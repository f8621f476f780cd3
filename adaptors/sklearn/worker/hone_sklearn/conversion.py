"""Convert estimators to ONNX by skl2onnx and onnxmltools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from . import categories, columns, comparison, converters, estimators, gradient_boosting, parts, refusals

Json = dict[str, Any]

_ML_OPSET = 3  # supported by ONNX Runtime, and by consumers of its models, for years


def transform(job: Json) -> Json:
    """Write ``model.onnx`` with the source's inputs and outputs; ``precision`` lists the parts computed in fp64."""
    import skl2onnx

    source, _ = estimators.open_estimator(job)
    estimator = parts.unwrap(source)
    if isinstance(estimator, estimators.BoosterModel):
        estimator = _dress(estimator, job)
        if estimator is None:
            return {"refused": "a bare booster of LightGBM has no converter here; log LGBMClassifier or LGBMRegressor"}
    converters.register()
    if strange := refusals.find_unconvertible(estimator):
        return {"refused": f"there is no converter to ONNX for {strange}"}
    model = _convert(estimator, job)
    if isinstance(model, dict):
        return model
    onnx.save(model, path := Path(job["output"], "model.onnx"))
    try:
        onnx.checker.check_model(model)
        graph = comparison.open_graph(path, job["threads"])
    except Exception as error:  # noqa: BLE001 - of ONNX or ONNX Runtime: a converter wrote an invalid graph
        reason = f"skl2onnx wrote no valid graph: {' '.join(str(error).split())[:300]}"
        return {"failed": {"class": "convert", "reason": reason}}
    found = comparison.compare(source, graph, job)
    if found.problem:
        return {"refused": found.problem}
    apart = {"apart": description} if (description := found.describe()) else {}
    return {"metadata": {"skl2onnx": skl2onnx.__version__, **apart}}


def _convert(estimator: Any, job: Json) -> onnx.ModelProto | Json:
    """Return a model with the source's inputs and outputs, or why it cannot be made."""
    import skl2onnx

    try:
        known = categories.list_categories(estimator)
    except LookupError as error:
        return {"refused": f"the categories of its columns cannot be converted: {error}"}
    if (cut := categories.find_cut(estimator)) is not None:
        return {"refused": f"the category {cut!r} ends with a NUL character, which arrays of text drop: rename it"}
    inputs = job["input"]["inputs"]
    joined = columns.find_type(estimator, inputs, known)
    table = {"name": columns.TABLE, "dtype": joined, "shape": ["batch", len(inputs)]}
    listed = columns.list_columns(estimator, inputs)
    types = _choose_types([table] if joined else listed or inputs)
    options = {"zipmap": False} if estimators.is_classifier(estimator) else None
    opset = {"": job["options"]["opset"], "ai.onnx.ml": _ML_OPSET}
    try:
        model: onnx.ModelProto = skl2onnx.to_onnx(estimator, initial_types=types, options=options, target_opset=opset)
    except Exception as error:  # noqa: BLE001 - its many converters raise anything
        return refusals.explain(error, estimator)
    _keep_outputs(model, job["input"]["outputs"])
    if joined:
        columns.join(model, inputs, known)
    elif listed:
        columns.split(model, inputs[0])
    else:
        _name_inputs(model, [spec["name"] for spec in inputs])
    for spec in () if joined or listed else inputs:
        if spec["dtype"] != "str":
            _cast_input(model, spec)
    _clean_opsets(model)
    return model


def describe(job: Json) -> Json:
    """Return the tensors of ``model.onnx``."""
    graph = onnx.load(Path(job["input"]["path"], "model.onnx")).graph
    return {"inputs": [*map(_specify, graph.input)], "outputs": [*map(_specify, graph.output)]}


def _specify(value: onnx.ValueInfoProto) -> Json:
    kind = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    shape = [dim.dim_param or dim.dim_value for dim in kind.shape.dim]
    return {"name": value.name, "dtype": "str" if dtype == np.dtype(object) else dtype.name, "shape": shape}


def _choose_types(specs: list[Json]) -> list[tuple[str, Any]]:
    """Return the types of the inputs for skl2onnx; ``_cast_input`` casts others to these first.

    skl2onnx gives columns that enter a step together the type of the first one. So integers next to other numbers are
    fp64, and all columns are fp32 if there are no other numbers.
    """
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

    whole = len(specs) > 1 and all(spec["dtype"] in {"int64", "str"} for spec in specs)
    kinds = {"str": StringTensorType, **({"int64": Int64TensorType} if whole else {})}
    others = FloatTensorType if columns.is_single(specs) else DoubleTensorType
    return [(spec["name"], kinds.get(spec["dtype"], others)([None, spec["shape"][1]])) for spec in specs]


def _cast_input(model: onnx.ModelProto, spec: Json) -> None:
    """Give a model an input of the source's type, cast first to the type in which the model computes."""
    graph, name = model.graph, spec["name"]
    (value,) = (value for value in graph.input if value.name == name)
    kind, own = value.type.tensor_type.elem_type, helper.np_dtype_to_tensor_dtype(np.dtype(spec["dtype"]))
    if kind in {own, TensorProto.INT64}:
        return
    cast = f"{name}_cast"
    for node in graph.node:
        for index, used in enumerate(node.input):
            if used == name:
                node.input[index] = cast
    value.type.tensor_type.elem_type = own
    graph.node.insert(0, helper.make_node("Cast", [name], [cast], name=f"cast_{name}", to=kind))


def _name_inputs(model: onnx.ModelProto, names: list[str]) -> None:
    """Rename the inputs to the source's column names: skl2onnx replaces characters that are invalid in identifiers."""
    graph = model.graph
    changed = {value.name: name for value, name in zip(graph.input, names, strict=True) if value.name != name}
    made = {output for node in graph.node for output in node.output}
    if taken := sorted(made.intersection(changed.values())):
        raise ValueError(
            f"the converter uses the name of the column {taken[0]!r} for something else: rename the column"
        )
    for value in graph.input:
        value.name = changed.get(value.name, value.name)
    for node in graph.node:
        for index, used in enumerate(node.input):
            node.input[index] = changed.get(used, used)


def _keep_outputs(model: onnx.ModelProto, specs: list[Json]) -> None:
    """Give a model the source's outputs, with the same names, types and shapes, for any number of rows."""
    graph = model.graph
    found = [value.name for value in graph.output]
    names = [spec["name"] for spec in specs]
    if missing := [name for name in names if name not in found]:
        raise ValueError(f"the converter gives {', '.join(found)}, and the source has {', '.join(missing)}")
    del graph.output[:]
    for spec in specs:
        kind = (
            TensorProto.STRING if spec["dtype"] == "str" else helper.np_dtype_to_tensor_dtype(np.dtype(spec["dtype"]))
        )
        graph.output.append(helper.make_tensor_value_info(spec["name"], kind, spec["shape"]))
    for value in graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"


def _clean_opsets(model: onnx.ModelProto) -> None:
    """List each domain once: skl2onnx writes some twice, and consumers use either entry."""
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        versions[entry.domain] = max(entry.version, versions.get(entry.domain, 0))
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in sorted(versions.items()))


def _dress(model: estimators.BoosterModel, job: Json) -> Any:
    """Return an XGBoost booster as the class of the scikit-learn interface with equal outputs; None for others."""
    if not type(model.booster).__module__.startswith("xgboost"):
        return None
    import xgboost

    objective = gradient_boosting.find_objective(model.booster)
    if not objective.startswith(("reg:", "count:")) or objective in gradient_boosting.LOGISTIC:
        return None
    path = Path(job["temporary"], "booster.ubj")
    model.booster.save_model(path)
    dressed = xgboost.XGBRegressor()
    dressed.load_model(path)
    return dressed
