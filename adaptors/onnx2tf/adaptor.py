"""onnx2tf's adaptor: convert an ONNX model to LiteRT."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.adaptor import Adaptor, Capability, Options, Support
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.outcome import Refused

TOOLCHAIN = Toolchain(
    name="onnx2tf",
    title="onnx2tf",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("onnx2tf", "tf_keras"),
    formats={"tflite": ("index.json", "model-*.tflite")},
    limits=Limits(seconds=1800.0),  # a deep net takes minutes for each shape
    environment={"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": "-1"},
    uses=("litert",),  # to read the written files
    default=False,  # its environment is large
    note="Converts ONNX for `litert`, which a recipe selects with it; its environment takes about 2.6 GB.",
)


def _refuse_unconvertible(artifact: Artifact, _options: Options, _host: Host) -> Refused | None:
    reason = None
    if "quantization" in artifact.metadata:
        reason = f"the model is quantized ({artifact.metadata['quantization']}), which LiteRT does by itself"
    elif scalars := [spec.name for spec in artifact.inputs if not spec.shape]:
        reason = f"{', '.join(scalars)} is a scalar, for which onnx2tf writes a row"
    return None if reason is None else Refused(by="onnx2tf", reason=reason)


ADAPTORS = (
    Adaptor(
        name="onnx2tf.tflite",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.CONVERT,
        accepts=frozenset({"onnx"}),
        produces="tflite",
        summary="Converts an ONNX model for LiteRT, with one file for each of the recipe's shapes.",
        supports={
            Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,  # one file for each shape
            Capability.EXTERNAL_DATA: Support.FULL,
            Capability.CONTROL_FLOW: Support.UNKNOWN,
            Capability.DETERMINISTIC: Support.FULL,
        },
        can_take=_refuse_unconvertible,
    ),
)
