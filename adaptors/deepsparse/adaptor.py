"""DeepSparse's adaptor: ONNX converted for the last release of its engine."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.adaptor import Adaptor, Capability, Support
from hone_runtime.contract.toolchain import Licence, Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

TOOLCHAIN = Toolchain(
    name="deepsparse",
    title="DeepSparse",
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    modules=("deepsparse",),
    runs=frozenset({"deepsparse-onnx"}),
    data=frozenset({"deepsparse-onnx"}),
    formats={"deepsparse-onnx": ("model.onnx",)},
    environment={
        "NM_DISABLE_ANALYTICS": "1",  # otherwise each engine sends telemetry to its vendor and looks up the country
        "ORT_DISABLE_TELEMETRY": "1",
    },
    licence=Licence.EVALUATION,
    runtime_requirements=("deepsparse==1.8.0", "sparsezoo==1.8.1", "onnx>=1.14,<1.15", "numpy>=1.26,<2"),
    default=False,
    note="The Neural Magic DeepSparse Community License allows it solely for evaluation use in development and testing "
    "environments, and not for production use. Version 1.8.0 is the last: its end of life was in June 2025.",
)

ADAPTORS = (
    Adaptor(
        name="deepsparse.engine",
        version=2,  # models are normalized first
        toolchain=TOOLCHAIN,
        stage=Stage.COMPILE,
        accepts=frozenset({"onnx"}),
        produces="deepsparse-onnx",
        summary="Lowers a model to opset 17, or 18, where its own is newer, and runs it in DeepSparse, "
        "with one engine for each shape; evaluation only.",
        precisions=frozenset({Precision.FP32, Precision.INT8}),
        supports={
            Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,
            Capability.EXTERNAL_DATA: Support.FULL,
            Capability.CONTROL_FLOW: Support.UNSUPPORTED,
            Capability.DETERMINISTIC: Support.UNKNOWN,
        },
    ),
)
