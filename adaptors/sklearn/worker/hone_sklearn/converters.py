"""The converters of skl2onnx and onnxmltools, with corrections."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from . import calibration, classifiers, encoders, gradient_boosting, precision, refusals, scalers
from .graph_nodes import Converter, Writer, change
from .scores import keep_classes

Shapes = Callable[[Any], None]
"""Functions that set the output types of an operator in skl2onnx."""

_OF_TREES = ("decision_tree", "random_forest", "gradient_boosting", "isolation_forest")
"""Modules of skl2onnx that convert scikit-learn's trees, each with its own name for the same function."""
_WRITE, _MISSING = "add_tree_to_attribute_pairs", "nodes_missing_value_tracks_true"
_OF_CLASSES = {"nocl": [True, False], "zipmap": [True, False, "columns"], "raw_scores": [True, False]}
_OF_SCORES = {**_OF_CLASSES, "wide": [True, False]}


@cache  # correcting twice would be wrong again
def register() -> None:
    """Register converters of XGBoost and LightGBM with skl2onnx, and correct its own."""
    from skl2onnx.common._topology import Topology

    precision.cast_between(Topology)
    refusals.carry_steps(Topology)
    _register_boosters()
    _mend_steps()
    for name in _OF_TREES:
        _mend_trees(importlib.import_module(f"skl2onnx.operator_converters.{name}"), votes=name == "random_forest")
    gradient_boosting.mend_histogram_trees(importlib.import_module("skl2onnx.operator_converters.random_forest"))


def _register_boosters() -> None:
    import lightgbm
    import xgboost
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator

    of_xgboost = gradient_boosting.mend_xgboost(convert_xgboost)
    for kind, alias, convert in (
        (xgboost.XGBClassifier, "XGBoostXGBClassifier", of_xgboost),
        (xgboost.XGBRFClassifier, "XGBoostXGBRFClassifier", of_xgboost),
        (lightgbm.LGBMClassifier, "LightGbmLGBMClassifier", gradient_boosting.mend_lightgbm(convert_lightgbm)),
    ):
        shapes = shape_calculator.calculate_linear_classifier_output_shapes
        update_registered_converter(kind, alias, shapes, convert, options=_OF_CLASSES)
    for kind, alias, convert in (
        (xgboost.XGBRegressor, "XGBoostXGBRegressor", of_xgboost),
        (xgboost.XGBRFRegressor, "XGBoostXGBRFRegressor", of_xgboost),
        (xgboost.XGBRanker, "XGBoostXGBRanker", of_xgboost),
        (lightgbm.LGBMRegressor, "LightGbmLGBMRegressor", gradient_boosting.keep_thresholds(convert_lightgbm)),
        (lightgbm.LGBMRanker, "LightGbmLGBMRanker", gradient_boosting.keep_thresholds(convert_lightgbm)),
    ):
        shapes = shape_calculator.calculate_linear_regressor_output_shapes
        update_registered_converter(kind, alias, shapes, convert, options={"split": None})


def _mend_steps() -> None:
    from sklearn import calibration as calibrations
    from sklearn import ensemble, impute, preprocessing

    for kind in (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor):
        _mend(kind, gradient_boosting.mend_histograms)
    for kind in (ensemble.ExtraTreesClassifier, ensemble.RandomForestClassifier):
        _mend(kind, _divide_votes)
    _mend(ensemble.VotingRegressor, lambda convert: change(convert, _plan_votes))
    _mend_scores()
    for kind, convert in (
        (calibrations.CalibratedClassifierCV, calibration.convert_calibrated),
        (ensemble.StackingClassifier, calibration.convert_stacking),
    ):
        _mend(kind, partial(_replace, convert), shapes=lambda _: calibration.shape_classifier)
    for kind, write in (
        (preprocessing.Binarizer, scalers.write_binary),
        (preprocessing.KBinsDiscretizer, scalers.write_bins),
        (preprocessing.MaxAbsScaler, scalers.write_largest),
        (preprocessing.MinMaxScaler, scalers.write_range),
        (preprocessing.PolynomialFeatures, scalers.write_products),
        (preprocessing.PowerTransformer, scalers.write_power),
        (preprocessing.RobustScaler, scalers.write_robust),
        (preprocessing.StandardScaler, scalers.write_standard),
    ):
        _mend(kind, scalers.replace(write), shapes=scalers.mend_shapes)
    _mend(impute.SimpleImputer, _mend_imputer, shapes=scalers.mend_shapes)
    _mend(preprocessing.QuantileTransformer, partial(change, make=lambda model: model), shapes=scalers.mend_shapes)
    _mend(preprocessing.OrdinalEncoder, partial(_replace, encoders.convert_ordinal))
    _mend(preprocessing.OneHotEncoder, _mend_one_hot, shapes=encoders.mend_shapes)


def _mend_scores() -> None:
    """Make classifiers whose scores are sums compute in fp64, and choose labels by these scores."""
    from sklearn import ensemble, linear_model, multiclass, neural_network, svm

    for kind in (linear_model.LogisticRegression, linear_model.SGDClassifier, svm.LinearSVC):
        _mend(kind, partial(_replace, classifiers.convert_linear), shapes=lambda _: calibration.shape_classifier)
    for kind, mend in (
        (ensemble.VotingClassifier, lambda convert: classifiers.replace_voting(change(convert, _plan_votes))),
        (ensemble.BaggingClassifier, partial(_replace, classifiers.convert_bagging)),
        (multiclass.OneVsOneClassifier, partial(_replace, _refuse_pairs)),
        (multiclass.OneVsRestClassifier, partial(_replace, classifiers.convert_one_vs_rest)),
        (neural_network.MLPClassifier, partial(_replace, classifiers.convert_network)),
    ):
        _mend(kind, mend)


def _refuse_pairs(scope: Any, operator: Any, container: Any) -> None:
    """Refuse OneVsOneClassifier.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError("skl2onnx returns the places of its classes in a table instead of the labels")


def _replace(convert: Converter, _: Converter) -> Converter:
    return convert


def _mend(
    kind: type, mend: Callable[[Converter], Converter], *, shapes: Callable[[Shapes], Shapes] = lambda own: own
) -> None:
    """Replace skl2onnx's converter and shape function for a class of scikit-learn by corrected ones."""
    from skl2onnx import update_registered_converter
    from skl2onnx._supported_operators import _get_sklearn_operator_name
    from skl2onnx.common._registration import get_converter, get_shape_calculator
    from sklearn.base import ClassifierMixin

    alias = _get_sklearn_operator_name(kind)
    own = get_converter(alias)
    options = {**(_OF_SCORES if issubclass(kind, ClassifierMixin) else {}), **(own.get_allowed_options() or {})}
    made = shapes(get_shape_calculator(alias))
    update_registered_converter(kind, alias, made, mend(own), options=options or None)


def _mend_imputer(convert: Converter) -> Converter:
    return scalers.replace(scalers.write_imputer)(change(convert, encoders.plan_imputer))


def _mend_one_hot(convert: Converter) -> Converter:
    of_texts = change(convert, encoders.name_missing)

    def mended(scope: Any, operator: Any, container: Any) -> None:
        chosen = encoders.convert_groups if encoders.groups(operator.raw_operator) else of_texts
        chosen(scope, operator, container)

    return mended


def _mend_trees(module: Any, *, votes: bool) -> None:
    """Write the direction of NaN at each node of a tree, and integer votes if trees vote.

    skl2onnx sends NaN to the right at all nodes. It writes a vote as one over the number of trees, rounded to fp32:
    then the order of the sum decided between classes with equal votes.
    """
    write = getattr(module, _WRITE)

    def mended(pairs: Any, kind: bool, tree: Any, tree_id: int, weight: float, *args: Any, **kwargs: Any) -> None:  # noqa: FBT001 - called by place
        whole, first = votes and kind, len(pairs.get("class_weights", ()))
        write(pairs, kind, tree, tree_id, 1.0 if whole else weight, *args, **kwargs)
        if whole and tree.value.shape[2] == 2:
            _write_both(pairs, first)
        pairs[_MISSING][-tree.node_count :] = tree.missing_go_to_left.astype(int).tolist()

    setattr(module, _WRITE, mended)


def _write_both(pairs: Any, first: int) -> None:
    """Write the votes of both classes, from an index on; skl2onnx writes only those of the second class."""
    second = pairs["class_weights"][first:]
    for name in ("class_treeids", "class_nodeids"):
        pairs[name] += pairs[name][first:]
    pairs["class_ids"][first:] = [1] * len(second) + [0] * len(second)
    pairs["class_weights"] += [1.0 - share for share in second]


def _divide_votes(convert: Converter) -> Converter:
    """Return a converter of a forest that divides the sum of its trees' votes by their number.

    For two classes, ONNX Runtime predicts the second one if a sum exceeds 0.5; this converter predicts the class with
    most votes.
    """

    def mended(scope: Any, operator: Any, container: Any) -> None:
        before, model = len(container.nodes), operator.raw_operator
        convert(scope, operator, container)
        writer = Writer(scope, container)
        (node,) = (node for node in container.nodes[before:] if node.op_type == "TreeEnsembleClassifier")
        writer.append(node, "Div", writer.keep([len(model.estimators_)]), place=1)
        if len(model.classes_) == 2:
            label = writer.release(node, 0)
            place = writer.add("ArgMax", node.output[1], axis=1, keepdims=0)
            writer.add("Gather", keep_classes(writer, model), place, output=label)

    return mended


def _plan_votes(model: Any) -> Any:
    """Return a voting estimator with weights to sum; its ``transform``, not called by ``predict``, does not flatten.

    The weights are those of the estimators that are not dropped, as in scikit-learn itself.
    """
    if hasattr(model, "flatten_transform"):
        model.flatten_transform = False
    if model.weights is not None:
        pairs = zip(model.estimators, model.weights, strict=True)
        kept = [(named, weight) for named, weight in pairs if named[1] != "drop"]
        model.estimators = [named for named, _ in kept]
        model.weights = np.array([weight for _, weight in kept], np.float64)
    return model
