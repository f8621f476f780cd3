"""Registries: versions of models are pulled from and published to them; one contract, one folder each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REGISTRIES: Final[Mapping[str, str]] = {
    "models": f"{__name__}.mlflow.registry:MlflowRegistry",
    "runs": f"{__name__}.mlflow.registry:MlflowRegistry",
    "hf": f"{__name__}.huggingface.registry:HuggingFaceRegistry",
    "": f"{__name__}.local.registry:LocalRegistry",
}
"""The built-in registries: the scheme of a URI to the class that serves it. A path has no scheme."""
