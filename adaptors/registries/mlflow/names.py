"""Names of models, versions and aliases: read from a URI, looked up, and explained when they do not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from kedro_hone.adaptors.registries.suggestions import suggest
from kedro_hone.core.contract.registry import VersionInfo
from kedro_hone.core.errors import HoneError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

LATEST: Final = "latest"
_URI = re.compile(r"models:/+(?P<name>[^/@]+)(?:/(?P<version>[^/@]+)|@(?P<alias>[^/@]+))?/?")
_MISSING = frozenset({"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND", "ENDPOINT_NOT_FOUND"})


class Reference(NamedTuple):
    """What a ``models:/`` URI says: a name, and a version (or ``latest``) or an alias."""

    name: str
    version: str | None
    alias: str | None


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
        model = f"models:/{match['name']}"
        raise HoneError(
            "version-unknown",
            f"{uri!r} names no version.",
            why="A model has many versions, and the URI must name one.",
            hint=f"Write {model}/<version>, {model}@<alias> or {model}/{LATEST}.",
        )
    return Reference(**match.groupdict())


def find_version(client: MlflowClient, reference: Reference) -> VersionInfo:
    """Return what the registry knows of a version, pinned.

    Raises:
        HoneError: ``model-unknown``, ``version-unknown`` or ``alias-unknown``, with what there is.
    """
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    name, version, alias = reference
    try:
        if alias is not None:
            return make_info(client.get_model_version_by_alias(name, alias))
        if version == LATEST:
            version = next((newest.version for newest in iterate_versions(client, name)), None)
        if version is not None and str(version).isdecimal():
            return make_info(client.get_model_version(name, str(version)))
    except MlflowException as error:
        # MLflow calls an alias that does not exist an invalid parameter.
        if error.error_code in _MISSING or (alias and error.error_code == "INVALID_PARAMETER_VALUE"):
            raise _explain_missing(client, reference) from error
        raise
    raise _explain_missing(client, reference)


def make_info(version: ModelVersion) -> VersionInfo:
    """Return our value of MLflow's version."""
    return VersionInfo(
        uri=f"models:/{version.name}/{version.version}",
        name=version.name,
        version=str(version.version),
        aliases=tuple(version.aliases or ()),
        tags=dict(version.tags or {}),
    )


def iterate_versions(
    client: MlflowClient, name: str | None = None, order: str = "version_number DESC"
) -> Iterator[ModelVersion]:
    """Yield every version of a model, or of all, newest first; none when there is no such model."""
    # MLflow's search language knows no escapes but two kinds of quotes.
    wanted = name and (f'name="{name}"' if "'" in name else f"name='{name}'")
    token = None
    while True:
        page = client.search_model_versions(wanted, order_by=[order], max_results=200, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _explain_missing(client: MlflowClient, reference: Reference) -> HoneError:
    name = reference.name
    models = [model.name for model in client.search_registered_models(max_results=1000)]
    if name not in models:
        why, hint = suggest(name, models, "models")
        return HoneError("model-unknown", f"The registry has no model {name!r}.", why=why, hint=hint)
    if reference.alias is not None:
        why, hint = suggest(reference.alias, sorted(client.get_registered_model(name).aliases or {}), "aliases")
        return HoneError("alias-unknown", f"{name!r} has no alias {reference.alias!r}.", why=why, hint=hint)
    versions = [str(version.version) for version in iterate_versions(client, name)]
    why, hint = suggest(str(reference.version), versions, "versions")
    return HoneError("version-unknown", f"{name!r} has no version {reference.version!r}.", why=why, hint=hint)
