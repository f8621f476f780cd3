"""LiteRT: a file of TensorFlow Lite, ``.tflite``."""

from __future__ import annotations

from hone_runtime.errors import HoneError
from kedro_hone.sources.files import find_only, find_relative_name
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``model.tflite``, or the only ``.tflite`` file; no flavor of MLflow has one.

    Raises:
        HoneError: ``model-unsupported``: there are several.
    """
    if pulled.mlmodel is not None:
        return None
    path = find_only(pulled.folder, "model.tflite")
    if path is not None:
        return Flavor(format="tflite-file", files=((find_relative_name(pulled.folder, path), "model.tflite"),))
    if names := sorted(file.name for file in pulled.folder.glob("*.tflite")):
        raise HoneError(
            "model-unsupported",
            "The folder contains several files of LiteRT.",
            why=f"They are {', '.join(names[:4])}.",
            hint="Leave the right one in it, or name that file in hone.model.uri.",
        )
    return None


SOURCE_FORMAT = SourceFormat(
    name="litert",
    noun="a file of LiteRT (.tflite)",
    detect=detect,
    seals=frozenset({"tflite-file"}),
    interface="onnx",
    baseline="the file itself in LiteRT with XNNPACK, {threads}",
    order=83,
)
