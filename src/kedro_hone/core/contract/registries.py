"""Which model registries there are, by the scheme of a URI."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from kedro_hone.core.contract.registry import Registry
from kedro_hone.core.errors import HoneError

REGISTRIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "models": "kedro_hone.adaptors.registries.mlflow.registry:MlflowRegistry",
        "": "kedro_hone.adaptors.registries.local.registry:LocalRegistry",
    }
)
"""Model registries: the scheme of a URI to the class that serves it. A path has no scheme."""


def find_registry(uri: str, registries: Mapping[str, str] = REGISTRIES) -> Registry:
    """Return the model registry that serves a URI.

    Args:
        uri: Such as ``models:/digits/3``, or a path.
        registries: Scheme to import string; the table above unless a test says otherwise.

    Returns:
        The registry, made with its defaults.

    Raises:
        HoneError: ``registry-unknown``, with the schemes that are served.
    """
    scheme = urlsplit(uri).scheme
    if scheme not in registries:
        known = ", ".join(f"{name}:/…" if name else "a path" for name in sorted(registries, reverse=True))
        nearest = difflib.get_close_matches(scheme, [name for name in registries if name], n=1)
        raise HoneError(
            "registry-unknown",
            f"No registry serves {uri!r}.",
            why=f"Nothing is known of the scheme {scheme!r}; there are: {known}.",
            hint=(f"Did you mean {nearest[0]}:/…? " if nearest else "")
            + "Name a version as models:/<name>/<version> or models:/<name>@<alias>, or give a path.",
        )
    module, _, name = registries[scheme].partition(":")
    make: Callable[[], Registry] = getattr(importlib.import_module(module), name)
    return make()
