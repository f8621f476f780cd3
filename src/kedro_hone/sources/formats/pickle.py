"""Pickled PyTorch models: recognised so that the error says why they are refused and what to do; never opened."""

from __future__ import annotations

from kedro_hone.sources.files import find_entry, list_pickles, name_in
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``.pth``, ``.pt`` and ``.pkl``; with an ``MLmodel`` only where it says that they are PyTorch's.

    Raises:
        HoneError: ``model-corrupt``.
    """
    data = pulled.folder if pulled.mlmodel is None else find_entry(pulled, "pytorch", "model_data")
    files = tuple((name_in(pulled.folder, path), path.name) for path in list_pickles(data)) if data else ()
    return Flavor(format="pickle", files=files) if files else None


SOURCE_FORMAT = SourceFormat(
    name="pickle",
    noun="a pickle",
    detect=detect,
    interface="pytorch",
    order=90,
    trust="pickle",
    untrusted="Loading a pickle runs whatever code its author put in, and the recipe does not trust it.",
    unsupported="The recipe trusts it, but pickled modules cannot be converted yet.",
    hint='Log the model again with mlflow.pytorch.log_model(…, serialization_format="pt2", input_example=…).',
)
