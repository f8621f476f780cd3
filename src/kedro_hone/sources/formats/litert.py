"""LiteRT: a file of TensorFlow Lite, ``.tflite``."""

from __future__ import annotations

from kedro_hone.sources.files import find_only, name_in
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``model.tflite``, or the only ``.tflite`` file; no flavor of MLflow holds one."""
    path = find_only(pulled.folder, "model.tflite") if pulled.mlmodel is None else None
    if path is None:
        return None
    return Flavor(format="tflite-file", files=((name_in(pulled.folder, path), "model.tflite"),))


SOURCE_FORMAT = SourceFormat(
    name="litert",
    noun="a file of LiteRT (.tflite)",
    detect=detect,
    seals=frozenset({"tflite-file"}),
    interface="onnx",
    baseline="the file itself in LiteRT with XNNPACK, {threads}",
    order=83,
)
