"""TensorFlow's SavedModel: recognised so that the error says that it comes later."""

from __future__ import annotations

from kedro_hone.sources.files import name_in
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

_FILE = "saved_model.pb"


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``saved_model.pb``, in the folder or right below; with an ``MLmodel`` where it says TensorFlow."""
    if pulled.mlmodel is not None and "tensorflow" not in pulled.mlmodel.flavors:
        return None
    places = (
        pulled.folder / _FILE,
        *sorted(pulled.folder.glob(f"*/{_FILE}")),
        *sorted(pulled.folder.glob(f"*/*/{_FILE}")),
    )
    found = next((path for path in places if path.is_file()), None)
    return Flavor(format="saved-model", files=((name_in(pulled.folder, found), _FILE),)) if found else None


SOURCE_FORMAT = SourceFormat(
    name="tensorflow",
    noun="a SavedModel of TensorFlow",
    detect=detect,
    order=81,
    unsupported="Models of TensorFlow come with a later version of kedro-hone.",
    hint="Convert it to ONNX by tf2onnx, check that, and name the ONNX file.",
)
