"""Choose which steps of a graph compute in fp64, as scikit-learn does for fp64 rows, and which in fp32.

A tree compares a number with a threshold. If a scaler before it rounds to fp32, a row may take another branch than in
the source. So scalers, imputers, polynomials and bins use fp64, which becomes fp32 where scikit-learn casts it.
"""

from __future__ import annotations

from typing import Any

from . import parts

_KEPT = ("SklearnArrayFeatureExtractor", "SklearnIdentity", "SklearnMultiply")
"""The operators of skl2onnx itself whose output has the type of their input."""
_NEAR = ("PowerTransformer",)
"""The steps whose last digit differs from scikit-learn's: they use ONNX Runtime's logarithms."""


def is_near(variable: Any) -> bool:
    """Return whether a table may differ from scikit-learn's in the last digits."""
    return bool(parts.get(variable, "near"))


def find_doubles() -> tuple[frozenset[type], frozenset[type]]:
    """Return the steps whose converters accept fp64 and return it, and those that accept it and return fp32.

    All others get fp32. Trees of scikit-learn and XGBoost cast to fp32 themselves. Other steps before trees, such as
    PCA, round their results, so that a row near a threshold may take another branch.
    """
    import lightgbm
    from sklearn import (
        calibration,
        discriminant_analysis,
        ensemble,
        impute,
        linear_model,
        multiclass,
        multioutput,
        neural_network,
        pipeline,
        preprocessing,
        svm,
    )

    numbers = (
        impute.SimpleImputer,
        preprocessing.Binarizer,
        preprocessing.KBinsDiscretizer,
        preprocessing.MaxAbsScaler,
        preprocessing.MinMaxScaler,
        preprocessing.PolynomialFeatures,
        preprocessing.PowerTransformer,
        preprocessing.QuantileTransformer,
        preprocessing.RobustScaler,
        preprocessing.StandardScaler,
    )
    scores = (
        calibration.CalibratedClassifierCV,
        discriminant_analysis.LinearDiscriminantAnalysis,
        ensemble.HistGradientBoostingClassifier,
        ensemble.HistGradientBoostingRegressor,
        ensemble.BaggingClassifier,
        ensemble.BaggingRegressor,
        ensemble.StackingClassifier,
        ensemble.VotingClassifier,
        ensemble.VotingRegressor,
        lightgbm.LGBMClassifier,
        lightgbm.LGBMRanker,
        lightgbm.LGBMRegressor,
        linear_model.LogisticRegression,
        linear_model.LogisticRegressionCV,
        linear_model.PassiveAggressiveClassifier,
        linear_model.Perceptron,
        linear_model.RidgeClassifier,
        linear_model.RidgeClassifierCV,
        linear_model.SGDClassifier,
        multiclass.OneVsRestClassifier,
        multioutput.MultiOutputRegressor,
        neural_network.MLPClassifier,
        pipeline.Pipeline,
        svm.LinearSVC,
    )
    return frozenset(numbers), frozenset(scores)


def cast_between(topology: type) -> None:
    """Make skl2onnx's topology cast the inputs of a step to fp32 if its converter does not accept fp64."""
    numbers, scores = find_doubles()
    calculate, convert = topology.call_shape_calculator, topology.call_converter  # type: ignore[attr-defined]
    casts: dict[int, list[tuple[str, str]]] = {}

    def call_shape_calculator(self: Any, operator: Any) -> None:
        model = operator.raw_operator
        selects = hasattr(model, "get_support")
        if model is not None and not selects and type(model) not in numbers | scores:
            _refuse_inner_rounding(operator, numbers)
            casts[id(operator)] = _replace_inputs(operator)
        if model is not None and not selects and type(model) not in numbers:
            _retype(operator)
        calculate(self, operator)
        if selects or operator.type in _KEPT:
            kept, output = operator.inputs[0].type, operator.outputs[0]
            output.type = type(kept)(output.type.shape)
        elif model is not None and type(model) not in numbers:
            _retype(operator)
        if type(model).__name__ in _NEAR or any(map(is_near, operator.inputs)):
            for one in operator.outputs:
                one.near = True

    def call_converter(self: Any, operator: Any, container: Any, *args: Any, **kwargs: Any) -> None:
        from onnx import TensorProto

        for given, made in casts.pop(id(operator), ()):
            container.add_node("Cast", [given], [made], name=f"{made}_cast", to=TensorProto.FLOAT)
        convert(self, operator, container, *args, **kwargs)

    topology.call_shape_calculator = call_shape_calculator  # type: ignore[attr-defined]
    topology.call_converter = call_converter  # type: ignore[attr-defined]


def _refuse_inner_rounding(operator: Any, numbers: frozenset[type]) -> None:
    """Raise if a step that gets fp32 has members that scale numbers before their trees.

    Raises:
        NotImplementedError: The scaled numbers would be rounded, and rows would take other branches of the trees.
    """
    from skl2onnx.common.data_types import DoubleTensorType

    if not any(isinstance(one.type, DoubleTensorType) for one in operator.inputs):
        return
    members = parts.get(operator.raw_operator, "estimators_")
    if any(_scales_before_trees(member, numbers) for member in (members if isinstance(members, list) else ())):
        raise NotImplementedError("members that scale numbers before their trees have no converter in fp64")


def _scales_before_trees(estimator: Any, numbers: frozenset[type]) -> bool:
    """Return whether a pipeline in an estimator, at any depth, has such a step before trees."""
    inner = [part for _, part in parts.list_parts(estimator)]
    scales = hasattr(estimator, "steps") and numbers.intersection(map(type, inner))
    return bool(scales and _has_trees(inner[-1])) or any(_scales_before_trees(one, numbers) for one in inner)


def _has_trees(model: Any) -> bool:
    return any(parts.get(model, name) is not None for name in ("tree_", "estimators_", "get_booster", "booster_"))


def _replace_inputs(operator: Any) -> list[tuple[str, str]]:
    """Replace an operator's fp64 variables by fp32 ones, and return the names of each pair."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    given, casts = [*operator.inputs], list[tuple[str, str]]()
    for place, one in enumerate(given):
        if isinstance(one.type, DoubleTensorType):
            made = operator.scope_inst.declare_local_variable("single", FloatTensorType(one.type.shape))
            given[place] = made
            casts.append((one.full_name, made.full_name))
    if casts:
        operator.inputs = given
    return casts


def _retype(operator: Any) -> None:
    """Change outputs to fp32 that skl2onnx assumed to be fp64, since the input of the graph is."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    for one in operator.outputs:
        if isinstance(one.type, DoubleTensorType):
            one.type = FloatTensorType(one.type.shape)
