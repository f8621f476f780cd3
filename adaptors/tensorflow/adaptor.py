"""TensorFlow's adaptors: convert Keras models and SavedModels to ONNX, to LiteRT files, or to XLA programs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.toolchain import Toolchain, Verification
from hone_runtime.values.artifact import Precision, Stage

_SOURCES = frozenset({"keras", "saved-model"})

TOOLCHAIN = Toolchain(
    name="tensorflow",
    title="TensorFlow and Keras",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("tensorflow", "keras", "tf2onnx"),
    runs=_SOURCES | {"tensorflow-xla"},
    generated=_SOURCES | {"tensorflow-xla"},  # graphs that may read and write files
    formats={
        "keras": ("model.keras",),
        "saved-model": ("saved_model.pb",),
        "tensorflow-xla": ("saved_model.pb", "index.json"),
        "tflite": ("index.json", "model-*.tflite"),
    },
    environment={"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"},
    extra="tensorflow",
    runtime_requirements=("tensorflow-cpu>=2.21,<2.22",),
    uses=("litert",),
    note="Keras models and SavedModels; its environment takes about 1.7 GB.",
)


class OnnxOptions(Options):
    """Options of ``tensorflow.onnx``."""

    opset: int = Field(default=18, ge=15, le=18)
    """The version of ONNX's operators."""


_adaptor = partial(Adaptor, toolchain=TOOLCHAIN, accepts=_SOURCES, precisions=frozenset({Precision.FP32}))
_COMPARED = frozenset({Need.CALIBRATION_DATA, Need.CONVERSION_LIMIT})
"""The converted model is compared with its source on these data."""

ADAPTORS = (
    _adaptor(
        name="tensorflow.onnx",
        version=3,
        accepts=_SOURCES | {"tflite-file"},
        needs=_COMPARED,
        stage=Stage.CONVERT,
        produces="onnx",
        summary="Converts a Keras model, a SavedModel or a file of LiteRT to ONNX by tf2onnx.",
        options=OnnxOptions,
        supports={
            Capability.DYNAMIC_BATCH: Support.FULL,
            Capability.CONTROL_FLOW: Support.FULL,
            Capability.DETERMINISTIC: Support.FULL,
        },
    ),
    _adaptor(
        name="tensorflow.tflite",
        version=3,
        needs=_COMPARED,
        stage=Stage.CONVERT,
        alternative=True,
        produces="tflite",
        summary="Converts a Keras model or a SavedModel to LiteRT, with one file for each shape.",
        supports={
            Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,  # one file for each shape
            Capability.CONTROL_FLOW: Support.FULL,
            Capability.DETERMINISTIC: Support.FULL,
        },
    ),
    _adaptor(
        name="tensorflow.xla",
        version=2,
        stage=Stage.COMPILE,
        produces="tensorflow-xla",
        summary="Compiles a Keras model or a SavedModel by XLA when it is opened, for each shape.",
        supports={
            Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,  # one program for each shape
            Capability.CONTROL_FLOW: Support.FULL,
            Capability.DETERMINISTIC: Support.UNSUPPORTED,  # names in a SavedModel are numbered within a process
        },
    ),
)
