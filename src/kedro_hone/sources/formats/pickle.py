"""Pickled PyTorch modules, bare or as MLflow's flavor ``pytorch``: opened in a worker, if the recipe trusts them."""

from __future__ import annotations

import json

from hone_runtime.errors import HoneError
from kedro_hone.sources.files import find_entry, find_relative_name, list_code, list_pickles, make_corrupt
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``.pth``, ``.pt`` and ``.pkl``; with an ``MLmodel`` only if it has a flavor of PyTorch.

    It becomes ``model.pth`` with ``module.json``, which marks it as a pickle, and the author's code that MLflow stores
    next to it (``code_paths``).

    Raises:
        HoneError: ``model-corrupt``, or ``model-unsupported``: there are several, or it is not a file of PyTorch.
    """
    data = pulled.folder if pulled.mlmodel is None else find_entry(pulled, "pytorch", "model_data")
    found = list_pickles(data) if data else []
    if not found:
        return None
    path = next((one for one in found if one.name == "model.pth"), found[0])
    if "pickle" in pulled.trust and (path.suffix == ".pkl" or (len(found) > 1 and path.name != "model.pth")):
        raise HoneError(
            "model-unsupported",
            f"The model is a pickle ({path.name}).",
            why="The recipe trusts it; but there are several, or it is neither a module as torch.save writes it nor an "
            "estimator of scikit-learn, XGBoost or LightGBM.",
            hint="Save a module by torch.save(module, 'model.pth'), an estimator by mlflow.sklearn.save_model(model, "
            "'folder'), or name the one file.",
        )
    entry = pulled.mlmodel.flavors["pytorch"] if pulled.mlmodel else {}
    if not isinstance(entry, dict):
        raise make_corrupt(pulled.folder, "its flavor pytorch is not a dictionary")
    module: dict[str, str] = {"class": path.name, "pickle": "model.pth"}
    if pulled.mlmodel and pulled.mlmodel.python:
        module["python"] = pulled.mlmodel.python
    return Flavor(
        format="pytorch-module",
        files=((find_relative_name(pulled.folder, path), "model.pth"), *list_code(pulled, entry)),
        texts=(("module.json", json.dumps(module, indent=2) + "\n"),),
    )


SOURCE_FORMAT = SourceFormat(
    name="pickle",
    noun="a pickle",
    detect=detect,
    seals=frozenset({"pytorch-module"}),
    interface="pytorch",
    order=90,
    refused={
        "pickle-mismatch": "Log the model again with the Python that opens it here; or where it opens, as an "
        'exported program: mlflow.pytorch.log_model(…, serialization_format="pt2", input_example=…).'
    },
    trust="pickle",
    untrusted="Loading a pickle runs whatever code its author put in, and hone.trust does not allow it.",
    hint='Log the model again with mlflow.pytorch.log_model(…, serialization_format="pt2", input_example=…), or set '
    "`hone.trust: [pickle]`. A state_dict is no model: see The state of a class in the documentation.",
)
