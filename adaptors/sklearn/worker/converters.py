"""The converters of skl2onnx and onnxmltools, with what they do wrong mended."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from . import estimators

LOGISTIC = frozenset({"binary:logistic", "reg:logistic"})
"""The objectives of XGBoost that take the logistic function of a margin."""
_OF_TREES = ("decision_tree", "random_forest", "gradient_boosting", "isolation_forest")
"""Modules of skl2onnx that write scikit-learn's trees, each by its own name for one function."""
_WRITE, _MISSING = "add_tree_to_attribute_pairs", "nodes_missing_value_tracks_true"


def register() -> None:
    """Tell skl2onnx of XGBoost and LightGBM, and mend its own converters of trees."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx import update_registered_converter
    from skl2onnx._supported_operators import _get_sklearn_operator_name
    from skl2onnx.common._registration import get_converter, get_shape_calculator
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        VotingClassifier,
        VotingRegressor,
    )
    from xgboost import XGBClassifier, XGBRegressor

    of_classes = {"nocl": [True, False], "zipmap": [True, False, "columns"], "raw_scores": [True, False]}
    for kind, alias, convert in (
        (XGBClassifier, "XGBoostXGBClassifier", _mend_xgboost(convert_xgboost)),
        (LGBMClassifier, "LightGbmLGBMClassifier", convert_lightgbm),
    ):
        shapes = calculate_linear_classifier_output_shapes
        update_registered_converter(kind, alias, shapes, convert, options=of_classes)
    for kind, alias, convert in (
        (XGBRegressor, "XGBoostXGBRegressor", _mend_xgboost(convert_xgboost)),
        (LGBMRegressor, "LightGbmLGBMRegressor", convert_lightgbm),
    ):
        update_registered_converter(
            kind, alias, calculate_linear_regressor_output_shapes, convert, options={"split": None}
        )
    for kind in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
        alias = _get_sklearn_operator_name(kind)
        mended, options = _mend_histograms(get_converter(alias)), of_classes if "Classifier" in alias else None
        update_registered_converter(kind, alias, get_shape_calculator(alias), mended, options=options)
    for kind in (VotingClassifier, VotingRegressor):
        alias = _get_sklearn_operator_name(kind)
        mended, options = _mend_votes(get_converter(alias)), of_classes if "Classifier" in alias else None
        update_registered_converter(kind, alias, get_shape_calculator(alias), mended, options=options)
    for name in _OF_TREES:
        _mend_missing(importlib.import_module(f"skl2onnx.operator_converters.{name}"))


def _mend_missing(module: Any) -> None:
    """Write which way NaN goes at each node of a tree: skl2onnx lets it go to the right at all of them."""
    write = getattr(module, _WRITE)

    def mended(pairs: Any, is_classifier: bool, tree: Any, *args: Any, **kwargs: Any) -> None:  # noqa: FBT001
        write(pairs, is_classifier, tree, *args, **kwargs)
        pairs[_MISSING][-tree.node_count :] = tree.missing_go_to_left.astype(int).tolist()

    setattr(module, _WRITE, mended)


_Converter = Callable[[Any, Any, Any], None]


def _mend_histograms(convert: _Converter) -> _Converter:
    """Hand lists of plain numbers to the container: ONNX takes neither the arrays nor the truth values there."""

    def mended(scope: Any, operator: Any, container: Any) -> None:
        add = container.add_node

        def add_node(*args: Any, **attributes: Any) -> Any:
            return add(*args, **{name: _make_plain(value) for name, value in attributes.items()})

        container.add_node = add_node
        try:
            convert(scope, operator, container)
        finally:
            container.add_node = add

    return mended


def _make_plain(value: Any) -> Any:
    if not isinstance(value, list | np.ndarray):
        return value
    listed = np.ravel(value).tolist() if isinstance(value, np.ndarray) else value
    return [int(one) if isinstance(one, bool | np.bool_) else one for one in listed]


def _mend_votes(convert: _Converter) -> _Converter:
    """Convert a copy whose ``transform`` does not flatten, since ``predict`` does not call it, with weights to sum.

    The weights are those of the estimators that are not dropped, as scikit-learn itself takes them.
    """

    def mended(scope: Any, operator: Any, container: Any) -> None:
        model = operator.raw_operator
        made = copy.copy(model)
        if hasattr(made, "flatten_transform"):
            made.flatten_transform = False
        if model.weights is not None:
            pairs = zip(model.estimators, model.weights, strict=True)
            kept = [(named, weight) for named, weight in pairs if named[1] != "drop"]
            made.estimators = [named for named, _ in kept]
            made.weights = np.array([weight for _, weight in kept], np.float64)
        _convert_copy(convert, scope, operator, container, made)

    return mended


def _convert_copy(convert: _Converter, scope: Any, operator: Any, container: Any, made: Any) -> None:
    """Convert a changed copy of an operator's estimator, in its place."""
    model, kept = operator.raw_operator, scope.options
    if kept and id(model) in kept:  # skl2onnx finds what it was told of an estimator by the object itself
        scope.options = {**kept, id(made): kept[id(model)]}
    operator.raw_operator = made
    try:
        convert(scope, operator, container)
    finally:
        operator.raw_operator, scope.options = model, kept


def _mend_xgboost(convert: _Converter) -> _Converter:
    """Convert the trees that XGBoost itself uses, and give ONNX the margin that these are added to.

    onnxmltools takes all trees where training stopped early, and the base score of a classifier, a probability, for its
    margin where the first tree is a single leaf. It reads the place of a column in its name, so the copy has no names.
    """

    def mended(scope: Any, operator: Any, container: Any) -> None:
        model, before = operator.raw_operator, len(container.nodes)
        _convert_copy(convert, scope, operator, container, _copy_booster(model))
        for node in container.nodes[before:]:
            if node.op_type == "TreeEnsembleClassifier":
                _set_floats(node, "base_values", find_margins(model))

    return mended


def _copy_booster(model: Any) -> Any:
    """Return a model of XGBoost with the trees that it uses, whose columns have no names."""
    best, booster = estimators.get(model, "best_iteration"), model.get_booster()
    made = copy.copy(model)
    if best is None or best + 1 >= booster.num_boosted_rounds():
        kept = booster.copy()
    else:
        kept = booster[: best + 1]
        kept.set_attr(best_iteration=None)
        made.n_estimators = best + 1
    kept.feature_names = None
    made._Booster = kept  # noqa: SLF001 - XGBoost has no other way to make a model of a booster
    return made


def find_margins(model: Any) -> list[float]:
    """Return what the leaves of a classifier of XGBoost are added to: one number, or one for each class.

    XGBoost 3 keeps it as ``base_score``: as a probability where the objective is logistic, and as it is elsewhere.
    """
    learner = json.loads(model.get_booster().save_config())["learner"]
    said = json.loads(learner["learner_model_param"]["base_score"])
    scores = np.asarray(said if isinstance(said, list) else [said], np.float64)
    if learner["objective"]["name"] in LOGISTIC:
        scores = np.log(scores / (1 - scores))
    count = int(learner["learner_model_param"]["num_class"])
    return [float(score) for score in (np.repeat(scores, count) if count > len(scores) else scores)]


def _set_floats(node: onnx.NodeProto, name: str, values: list[float]) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, values)])
