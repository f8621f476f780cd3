"""The table of ``docs/reference/estimators.md``, from the expectations in the tests of ``sklearn.onnx``."""

from __future__ import annotations

import json
from pathlib import Path

from generated.models import make_table

TOLD = Path(__file__).resolve().parents[1] / "reference" / "estimators.json"


def list_estimators() -> str:
    """Return the result for each configuration, refused ones last."""
    told = json.loads(TOLD.read_text())
    rows = [(f"`{name}`" if "(" in name else name, said) for name, said in told.items()]
    converted = [(name, "yes", "") for name, said in rows if said == "converted"]
    refused = [(name, "no", said) for name, said in rows if said != "converted"]
    return make_table([*converted, *refused], "estimator", "converted", "why not")
