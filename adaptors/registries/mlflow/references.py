"""Parse MLflow URIs: a version of a registered model, a logged model, or an artifact of a run."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hone_runtime.errors import HoneError

LATEST: Final = "latest"
_PART: Final = r"(?!\.{1,2}(?:/|$))[^/\\%#?\x00-\x1f\x7f]+"
"""One name in a path: without parts that lead upwards, or that two URL parsers could read differently."""
_PATH: Final = rf"(?P<path>{_PART}(?:/{_PART})*)"
_URI: Final = re.compile(r"models:/+(?!m-[0-9a-f]{32}/)(?P<name>[^/@]+)(?:/(?P<version>[^/@]+)|@(?P<alias>[^/@]+))?/?")
_INSIDE: Final = re.compile(rf"models:/+(?P<name>[^/@]+)(?:/(?P<version>[0-9]+|{LATEST})|@(?P<alias>[^/@]+))/{_PATH}/?")
_MODEL: Final = re.compile(rf"models:/+(?P<model>m-[0-9a-f]{{32}})(?:/{_PATH})?/?")
_RUN: Final = re.compile(rf"runs:/+(?P<run>[0-9a-f]{{32}})/{_PATH}/?")


class Reference(NamedTuple):
    """The parts of a URI.

    Attributes:
        name: A registered model, with its version (or ``latest``) or an alias; None if not registered.
        model: The id of a logged model.
        run: The id of a run.
        path: A file or folder in it; empty for the whole model. For a run it is never empty.
    """

    name: str | None = None
    version: str | None = None
    alias: str | None = None
    model: str | None = None
    run: str | None = None
    path: str = ""


def read_uri(uri: str) -> Reference:
    """Return the parts of a URI.

    Raises:
        HoneError: ``registry-unknown``: it is not an MLflow URI; ``version-unknown``: it has no version.
    """
    for pattern in (_MODEL, _RUN, _INSIDE):
        if match := pattern.fullmatch(uri):
            return Reference(**{name: text for name, text in match.groupdict().items() if text})
    match = _URI.fullmatch(uri)
    if match is None:
        raise HoneError(
            "registry-unknown",
            f"{uri!r} is not a URI of an MLflow registry.",
            why="Such a URI is models:/<name>/<version> or models:/<name>@<alias>, with /<path> for a part of it; "
            "models:/<id> for a logged model, whose id is m- and 32 digits; or runs:/<id>/<path>.",
            hint="Write the model's name and a version or an alias.",
        )
    if not (match["version"] or match["alias"]):
        model = f"models:/{match['name']}"
        raise HoneError(
            "version-unknown",
            f"{uri!r} names no version.",
            why="A model has many versions, and the URI must name one.",
            hint=f"Write {model}/<version>, {model}@<alias> or {model}/{LATEST}.",
        )
    return Reference(**match.groupdict())
