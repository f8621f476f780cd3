"""LiteRT Torch's adaptor: convert an exported program of PyTorch to LiteRT, without ONNX in between."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.adaptor import Adaptor, Capability, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Stage

TOOLCHAIN = Toolchain(
    name="litert_torch",
    title="LiteRT Torch",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("litert_torch",),
    with_torch=True,
    formats={"tflite": ("index.json", "model-*.tflite")},
    limits=Limits(seconds=900.0),
    uses=("pytorch", "litert"),  # to read programs safely, and to read the written files
    default=False,  # its environment is large
    note="Converts PyTorch for `litert`, which a recipe selects with it; its environment takes about 2.2 GB.",
)


ADAPTORS = (
    Adaptor(
        name="litert_torch.tflite",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.CONVERT,
        accepts=frozenset({"pytorch"}),
        produces="tflite",
        summary="Converts an exported program for LiteRT, with one file for each of the recipe's shapes.",
        supports={
            Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,
            Capability.CONTROL_FLOW: Support.UNKNOWN,
            Capability.DETERMINISTIC: Support.FULL,
        },
    ),
)
