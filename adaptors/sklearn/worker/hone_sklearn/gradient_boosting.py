"""Corrected converters of gradient boosting: XGBoost, LightGBM and scikit-learn's histogram trees."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import categories, parts, precision
from .graph_nodes import ML, Array, Converter, Writer, convert_copy, replace_input

LOGISTIC = frozenset({"binary:logistic", "reg:logistic"})
"""The objectives of XGBoost that apply the logistic function to a margin."""
_ML_OF_DOUBLES = 3
"""The first version of ``ai.onnx.ml`` whose trees compare in fp64."""
_DIGITS = 1e-12
_NUMBERS = ("base_values", "class_weights", "nodes_values", "target_weights")
_TREES = frozenset({"TreeEnsembleClassifier", "TreeEnsembleRegressor"})
_WRITE_HISTOGRAMS = "add_tree_to_attribute_pairs_hist_gradient_boosting"


def mend_xgboost(convert: Converter) -> Converter:
    """Convert only the trees that XGBoost itself uses, and give ONNX the margin to which these are added.

    onnxmltools has four bugs here. It converts all trees even if training stopped early. If the first tree is a single
    leaf, it uses a classifier's base score, a probability, as the margin. It reads a column's index from its name, so
    the copy has no names. It assigns trees to the classes in turn, which is wrong if a round has several trees for each
    class.
    """

    def mended(scope: Any, operator: Any, container: Any) -> None:
        model, before = operator.raw_operator, len(container.nodes)
        made = _copy_booster(model)
        convert_copy(convert, scope, operator, container, made)
        owners = _read(made.get_booster())["learner"]["gradient_booster"]["model"]["tree_info"]
        for node in container.nodes[before:]:
            if node.op_type == "TreeEnsembleClassifier":
                _set(node, "base_values", find_margins(model))
                if len(model.classes_) > 2:
                    trees = next(one.ints for one in node.attribute if one.name == "class_treeids")
                    _set(node, "class_ids", [owners[tree] for tree in trees])
                    _set(node, "post_transform", "SOFTMAX")  # as XGBoost does, for any such objective
            elif node.op_type == "TreeEnsembleRegressor" and find_objective(model.get_booster()) in LOGISTIC:
                _set(node, "base_values", find_margins(model))
                Writer(scope, container).append(node, "Sigmoid")

    return replace_input(mended, _write_missing)


def _write_missing(writer: Writer, model: Any, table: str) -> str:
    """Replace the number that represents a missing value by NaN, and return the name of the table."""
    if model.missing is None or np.isnan(model.missing):
        return table
    found = writer.add("Equal", table, writer.keep([model.missing]))
    return writer.add("Where", found, writer.keep([np.nan]), table)


def find_objective(booster: Any) -> str:
    """Return the name of the training objective of an XGBoost booster."""
    return str(json.loads(booster.save_config())["learner"]["objective"]["name"])


def _read(booster: Any) -> Any:
    return json.loads(bytes(booster.save_raw("json")))


def _copy_booster(model: Any) -> Any:
    """Return an XGBoost model with only the trees that it uses, and without column names.

    Raises:
        NotImplementedError: It has no trees.
    """
    best, booster = parts.get(model, "best_iteration"), model.get_booster()
    stopped = best is not None and best + 1 < booster.num_boosted_rounds()
    kept = booster[: best + 1] if stopped else booster.copy()
    kept.set_attr(best_iteration=None)
    kept = _scale_trees(kept)
    kept.feature_names = None
    made = copy.copy(model)
    made._Booster, made.missing = kept, np.nan  # noqa: SLF001 - XGBoost has no other way to make a model of a booster
    made.n_estimators = len(kept.get_dump())
    return made


def _scale_trees(booster: Any) -> Any:
    """Return a booster that drops trees as an ordinary one: the leaves of each tree are scaled by its weight."""
    import xgboost

    document = _read(booster)
    found = document["learner"]["gradient_booster"]
    if found["name"] == "gbtree":
        return booster
    if found["name"] != "dart":
        raise NotImplementedError(f"booster={found['name']!r} has no converter")
    model = found["gbtree"]["model"]
    for tree, weight in zip(model["trees"], found["weight_drop"], strict=True):
        pairs = zip(tree["split_conditions"], tree["left_children"], strict=True)
        tree["split_conditions"] = [value * weight if left == -1 else value for value, left in pairs]
    document["learner"]["gradient_booster"] = {"name": "gbtree", "model": model}
    made = xgboost.Booster()
    made.load_model(bytearray(json.dumps(document).encode()))
    return made


def mend_lightgbm(convert: Converter) -> Converter:
    """Write thresholds in fp64, and the sums of the trees if these are requested: onnxmltools writes probabilities."""
    convert = keep_thresholds(convert)

    def mended(scope: Any, operator: Any, container: Any) -> None:
        before = len(container.nodes)
        convert(scope, operator, container)
        if container.get_options(operator.raw_operator, {"raw_scores": False})["raw_scores"]:
            for node in container.nodes[before:]:
                if node.op_type == "TreeEnsembleClassifier":
                    _set(node, "post_transform", "NONE")

    return mended


def find_margins(model: Any) -> list[float]:
    """Return the margin to which an XGBoost classifier's leaves are added: one number, or one for each class.

    XGBoost 3 stores it as ``base_score``: as a probability for a logistic objective, and unchanged otherwise.
    """
    learner = json.loads(model.get_booster().save_config())["learner"]
    base = json.loads(learner["learner_model_param"]["base_score"])
    scores = np.asarray(base if isinstance(base, list) else [base], np.float64)
    if learner["objective"]["name"] in LOGISTIC:
        scores = np.log(scores / (1 - scores))
    count = int(learner["learner_model_param"]["num_class"])
    return [float(score) for score in (np.repeat(scores, count) if count > len(scores) else scores)]


def _set(node: onnx.NodeProto, name: str, value: Any) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def mend_histograms(convert: Converter) -> Converter:
    """Number the categories of columns as the trees do, and pass lists of plain numbers to the container.

    ONNX accepts neither the arrays nor the booleans there. skl2onnx writes thresholds in fp64 for version 3 only.
    """
    convert_version: Any = convert

    def versioned(scope: Any, operator: Any, container: Any) -> None:
        kind = "TreeEnsembleClassifier" if hasattr(operator.raw_operator, "classes_") else "TreeEnsembleRegressor"
        convert_version(scope, operator, container, kind, ML, _ML_OF_DOUBLES)

    return replace_input(keep_thresholds(versioned), _number_categories)


def keep_thresholds(convert: Converter) -> Converter:
    """Write trees that compare in fp64 if their table is fp64, as LightGBM and histogram trees themselves do.

    Thresholds of histogram trees are values of the training data. If the last digits of the table may differ from the
    source's, thresholds are raised slightly, so that equal values go to the same side.
    """

    def kept(scope: Any, operator: Any, container: Any) -> None:
        add, table = container.add_node, operator.inputs[0]
        double = type(table.type).__name__ == "DoubleTensorType"

        def add_node(kind: str, *args: Any, **attributes: Any) -> Any:
            plain = {name: _make_plain(value) for name, value in attributes.items()}
            if not double or kind not in _TREES:
                return add(kind, *args, **plain)
            if precision.is_near(table):
                pairs = zip(plain["nodes_values"], plain["nodes_modes"], strict=True)
                plain["nodes_values"] = [
                    one + _DIGITS * max(1.0, abs(one)) if mode == "BRANCH_LEQ" else one for one, mode in pairs
                ]
            return add(kind, *args, **_make_doubles(plain))

        container.add_node = add_node
        try:
            convert(scope, operator, container)
        finally:
            container.add_node = add

    return kept


def _make_doubles(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of trees with their numbers as fp64 tensors."""
    numbers = {name: attributes[name] for name in _NUMBERS if name in attributes}
    kept = {name: value for name, value in attributes.items() if name not in {*_NUMBERS, "nodes_hitrates"}}
    made = {f"{name}_as_tensor": _make_tensor(name, value) for name, value in numbers.items()}
    return {**kept, **made, "op_version": _ML_OF_DOUBLES}


def _make_tensor(name: str, values: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values, np.float64), name)


def _make_plain(value: Any) -> Any:
    if not isinstance(value, list | np.ndarray):
        return value
    listed = np.ravel(value).tolist() if isinstance(value, np.ndarray) else value
    return [int(one) if isinstance(one, bool | np.bool_) else one for one in listed]


def _number_categories(writer: Writer, model: Any, table: str) -> str:
    """Write category columns as their numbers, before the other columns, in the order of scikit-learn's trees.

    Text categories are already numbers.
    """
    if parts.get(model, "is_categorical_") is None:
        return table
    marked, made = np.asarray(model.is_categorical_), list[str]()
    for place, known in zip(np.flatnonzero(marked), categories.list_encoded(model), strict=True):
        column = writer.choose_columns(table, [int(place)])
        if not any(isinstance(one, str) for one in known):
            keys, values = [*map(float, known)], [*map(float, range(len(known)))]
            column = writer.add(
                "LabelEncoder",
                writer.add("Cast", column, to=TensorProto.FLOAT),
                domain=ML,
                keys_floats=keys,
                values_floats=values,
                default_float=np.nan,
            )
            column = writer.add("CastLike", column, table)
        made.append(column)
    if not marked.all():
        made.append(writer.choose_columns(table, np.flatnonzero(~marked).tolist()))
    return writer.add("Concat", *made, axis=1)


def mend_histogram_trees(module: Any) -> None:
    """Write the nodes of histogram trees that compare categories: skl2onnx treats these as thresholds.

    Each becomes a chain of nodes that test one category, since ONNX has no node for several before ``ai.onnx.ml`` 5.
    """
    write = getattr(module, _WRITE_HISTOGRAMS)

    def mended(pairs: Any, is_classifier: bool, tree: Any, tree_id: int, *args: Any, **kwargs: Any) -> None:  # noqa: FBT001 - called by place
        first = len(pairs["nodes_nodeids"])
        write(pairs, is_classifier, tree, tree_id, *args, **kwargs)
        for place in np.flatnonzero(tree.nodes["is_categorical"] & ~tree.nodes["is_leaf"].astype(bool)):
            left = _list_bits(tree.raw_left_cat_bitsets[tree.nodes[place]["bitset_idx"]])
            _write_chain(pairs, first, first + int(place), left)

    setattr(module, _WRITE_HISTOGRAMS, mended)


def _list_bits(words: Array) -> list[float]:
    """Return the indices of the bits that are set in 32-bit words."""
    return [float(32 * at + bit) for at, word in enumerate(words.tolist()) for bit in range(32) if word >> bit & 1]


def _write_chain(pairs: Any, first: int, at: int, found: list[float]) -> None:
    """Make a node compare with the first of some categories, and a new node, on inequality, with the next one.

    Args:
        pairs: The attributes of the trees.
        first: The index at which the last tree begins.
        at: The index of the node.
        found: The categories that go to the left.
    """
    right, names = pairs["nodes_falsenodeids"][at], [name for name in pairs if name.startswith("nodes_")]
    for number, category in enumerate(found):
        pairs["nodes_modes"][at], pairs["nodes_values"][at] = "BRANCH_EQ", category
        if number == len(found) - 1:
            break
        fresh = len(pairs["nodes_nodeids"]) - first
        pairs["nodes_falsenodeids"][at] = fresh
        for name in names:
            pairs[name].append(pairs[name][at])
        at = len(pairs["nodes_nodeids"]) - 1
        pairs["nodes_nodeids"][at], pairs["nodes_falsenodeids"][at] = fresh, right
        pairs["nodes_missing_value_tracks_true"][at] = 0  # a missing value that goes left already did
