"""The adaptor for scikit-learn, XGBoost and LightGBM: it converts their estimators to ONNX."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import Toolchain, Verification
from hone_runtime.values.artifact import Stage

TOOLCHAIN = Toolchain(
    name="sklearn",
    title="scikit-learn, XGBoost and LightGBM",
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    modules=("sklearn", "skl2onnx", "onnxmltools", "xgboost", "lightgbm"),
    runs=frozenset({"sklearn"}),
    data=frozenset({"sklearn"}),  # the host refuses a pickle
    formats={"sklearn": ("estimator.json",)},
    runtime_requirements=("scikit-learn>=1.9,<1.10", "pandas>=3,<4"),
    takes_text=True,
    note="Estimators of scikit-learn, XGBoost and LightGBM; its environment takes about 600 MB.",
)


class OnnxOptions(Options):
    """Options of ``sklearn.onnx``."""

    opset: int = Field(default=20, ge=17, le=22)
    """The version of ONNX's operators."""


ADAPTORS = (
    Adaptor(
        name="sklearn.onnx",
        version=8,
        toolchain=TOOLCHAIN,
        stage=Stage.CONVERT,
        accepts=frozenset({"sklearn"}),
        produces="onnx",
        summary="Converts an estimator of scikit-learn, XGBoost or LightGBM to ONNX, by skl2onnx and onnxmltools.",
        options=OnnxOptions,
        needs=frozenset(
            {Need.CALIBRATION_DATA, Need.CONVERSION_LIMIT}
        ),  # the converted model is compared with its source on these data
        supports={
            Capability.DYNAMIC_BATCH: Support.FULL,
            Capability.EXTERNAL_DATA: Support.NOT_IMPLEMENTED,
            Capability.CONTROL_FLOW: Support.NOT_IMPLEMENTED,
            Capability.DETERMINISTIC: Support.FULL,
        },
    ),
)
