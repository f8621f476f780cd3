"""Keras: recognised so that the error says that it comes later."""

from __future__ import annotations

from kedro_hone.sources.files import name_in
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``.keras`` and ``.h5`` in the folder or right below, without opening them."""
    if pulled.mlmodel is not None and not {"keras", "tensorflow"} & {*pulled.mlmodel.flavors}:
        return None
    files = sorted(
        path
        for pattern in ("*", "*/*", "*/*/*")
        for path in pulled.folder.glob(pattern)
        if path.is_file() and path.suffix in {".keras", ".h5"}
    )
    return (
        Flavor(format="keras", files=tuple((name_in(pulled.folder, path), path.name) for path in files[:1]))
        if files
        else None
    )


SOURCE_FORMAT = SourceFormat(
    name="keras",
    noun="a model of Keras",
    detect=detect,
    order=82,
    unsupported="Models of Keras come with a later version of kedro-hone.",
    hint='Save it by model.export(…, format="onnx"), check that, and name the ONNX file.',
)
