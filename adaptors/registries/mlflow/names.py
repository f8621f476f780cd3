"""Names of models, versions and aliases: read from a URI, looked up, and explained when they do not exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kedro_hone.adaptors.registries.mlflow.connection import is_missing
from kedro_hone.adaptors.registries.suggestions import suggest
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Value

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

LATEST: Final = "latest"
_URI = re.compile(r"models:/+(?P<name>[^/@]+)(?:/(?P<version>[^/@]+)|@(?P<alias>[^/@]+))?/?")


class Reference(Value):
    """What a ``models:/`` URI says: a name, and a version or an alias.

    Attributes:
        name: The registered model's name.
        version: The version, or ``latest``.
        alias: The alias.
    """

    name: str
    version: str | None = None
    alias: str | None = None


def read_uri(uri: str) -> Reference:
    """Return what a URI says.

    Raises:
        HoneError: ``registry-unknown``: it is no ``models:/`` URI; ``version-unknown``: it names no version.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise HoneError(
            "registry-unknown",
            f"{uri!r} is no URI of an MLflow registry.",
            why="Such a URI is models:/<name>/<version> or models:/<name>@<alias>.",
            hint="Write the model's name and a version or an alias.",
        )
    if not (match["version"] or match["alias"]):
        raise HoneError(
            "version-unknown",
            f"{uri!r} names no version.",
            why="A model has many versions, and the URI must name one.",
            hint=f"Write models:/{match['name']}/<version>, models:/{match['name']}@<alias> or "
            f"models:/{match['name']}/{LATEST}.",
        )
    return Reference(**match.groupdict())


def find_version(client: MlflowClient, reference: Reference) -> VersionInfo:
    """Return what the registry knows of a version.

    Args:
        client: The registry.
        reference: Which version.

    Returns:
        The version, pinned.

    Raises:
        HoneError: ``model-unknown``, ``version-unknown`` or ``alias-unknown``, with what there is.
    """
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        if reference.alias is not None:
            found = client.get_model_version_by_alias(reference.name, reference.alias)
        elif reference.version == LATEST:
            newest = client.search_model_versions(
                f"name={_quote(reference.name)}", order_by=["version_number DESC"], max_results=1
            )
            if not newest:
                raise _explain_missing(client, reference)
            found = client.get_model_version(reference.name, newest[0].version)
        else:
            version = str(reference.version)
            if not version.isdecimal():
                raise _explain_missing(client, reference)
            found = client.get_model_version(reference.name, version)
    except MlflowException as error:
        # MLflow calls an alias that does not exist an invalid parameter.
        if is_missing(error) or (reference.alias and error.error_code == "INVALID_PARAMETER_VALUE"):
            raise _explain_missing(client, reference) from error
        raise
    return make_info(found)


def make_info(version: ModelVersion) -> VersionInfo:
    """Return our value of MLflow's version."""
    return VersionInfo(
        uri=f"models:/{version.name}/{version.version}",
        name=version.name,
        version=str(version.version),
        aliases=tuple(version.aliases or ()),
        tags=dict(version.tags or {}),
    )


def search_versions(client: MlflowClient, name: str) -> list[ModelVersion]:
    """Return every version of a model, newest first; none when there is no such model."""
    versions: list[ModelVersion] = []
    token = None
    while True:
        page = client.search_model_versions(
            f"name={_quote(name)}", order_by=["version_number DESC"], max_results=200, page_token=token
        )
        versions.extend(page)
        token = page.token
        if not token:
            return versions


def _explain_missing(client: MlflowClient, reference: Reference) -> HoneError:
    name = reference.name
    models = [model.name for model in client.search_registered_models(max_results=1000)]
    if name not in models:
        why, hint = suggest(name, models, "models")
        return HoneError("model-unknown", f"The registry has no model {name!r}.", why=why, hint=hint)
    if reference.alias is not None:
        aliases = dict(client.get_registered_model(name).aliases or {})
        why, hint = suggest(reference.alias, sorted(aliases), "aliases")
        return HoneError("alias-unknown", f"{name!r} has no alias {reference.alias!r}.", why=why, hint=hint)
    versions = [str(version.version) for version in search_versions(client, name)]
    why, hint = suggest(str(reference.version), versions, "versions")
    return HoneError("version-unknown", f"{name!r} has no version {reference.version!r}.", why=why, hint=hint)


def _quote(name: str) -> str:
    """Return a name as a string of MLflow's search language, which knows no escapes but two kinds of quotes."""
    return f'"{name}"' if "'" in name else f"'{name}'"
