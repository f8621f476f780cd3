"""Versions of models: look them up by a URI, list them, and explain missing ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final, NamedTuple

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import (
    _validate_model_alias_name,
    _validate_model_alias_name_reserved,
    _validate_model_name,
)

from hone_runtime.contract.aliases import PULL, explain_waiting, format_record_name
from hone_runtime.contract.registry import NewVersions, VersionInfo, explain_unknown
from hone_runtime.errors import HoneError
from kedro_hone.adaptors.registries.mlflow.connection import find_sqlite_file, has_experiments
from kedro_hone.adaptors.registries.mlflow.references import LATEST, Reference, read_uri
from kedro_hone.adaptors.registries.mlflow.unregistered import MISSING, find_unregistered, make_inside

_PAGE: Final = 1000
"""Models per page of a list, the largest number that MLflow allows."""
_IS_PROMPT: Final = "mlflow.prompt.is_prompt"
"""The tag of a prompt."""
RECORD: Final = "hone"
"""Prefix of the tags of a registered model that record where its aliases were moved to."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
"""A version's number in the range of a database: a longer one would cause a database error."""


class Head(NamedTuple):
    """The state of a registered model.

    Attributes:
        made: Its creation time, which distinguishes it from another model with its name.
        number: Its last version.
        again: Whether another model had its name before.
    """

    made: int
    number: int
    again: bool = False


def find_problem(*, name: str | None, alias: str | None) -> str:
    """Return why MLflow refuses a registered model's name or an alias, or an empty string.

    A name that MLflow accepts but that cannot be written in a ``models:/`` URI is refused too.
    """
    try:
        if name is not None:
            _validate_model_name(name)
            if read_uri(f"models:/{name}/1").name != name:
                return f"models:/{name}/1 refers to something else than a version of it, such as a logged model."
        if alias is not None:
            _validate_model_alias_name(alias)
            _validate_model_alias_name_reserved(alias)
    except MlflowException as error:
        return str(error)
    except HoneError as error:
        return f"{error.what} {error.why}"
    return ""


def find_version(client: MlflowClient, reference: Reference) -> VersionInfo:
    """Return the registry's description of a version, pinned; an unregistered model or a part has no name.

    Raises:
        HoneError: ``model-unknown``, ``version-unknown`` or ``alias-unknown``, with the existing ones;
            ``model-corrupt``.
    """
    name, version, alias = reference.name, reference.version, reference.alias
    if name is None:
        return find_unregistered(client, reference)
    if reference.path:
        whole = find_version(client, reference._replace(path=""))
        return make_inside(whole, reference.path)
    try:
        if alias is not None:
            return _make_info(client.get_model_version_by_alias(name, alias))
        if version == LATEST:
            version = next((str(newest.version) for newest in iterate_versions(client, name)), None)
        if version is not None and _NUMBER.fullmatch(version):
            return _make_info(client.get_model_version(name, version))
    except MlflowException as error:
        # MLflow reports an alias that does not exist as an invalid parameter.
        if error.error_code not in MISSING and not (alias and error.error_code == "INVALID_PARAMETER_VALUE"):
            raise
    raise _explain_missing(client, reference)


def read_aliases(client: MlflowClient, name: str) -> dict[str, str]:
    """Return the version that each alias of a registered model points to; empty if the model does not exist."""
    try:
        aliases = client.get_registered_model(name).aliases or {}
    except MlflowException as error:
        if error.error_code not in MISSING:
            raise
        return {}
    return {alias: str(version) for alias, version in aliases.items()}


def find_given(client: MlflowClient, name: str, alias: str, *, pull: str | None) -> str | None:
    """Return the version that an alias was last moved to by a publication; None if that was from another pull."""
    given = client.get_registered_model(name).tags.get(RECORD + format_record_name(alias)) if pull else None
    try:
        return (
            given
            if given and _NUMBER.fullmatch(given) and client.get_model_version(name, given).tags.get(PULL) == pull
            else None
        )
    except MlflowException as error:
        if error.error_code not in MISSING:
            raise
        return None


def list_arrivals(client: MlflowClient, cursor: str | None) -> NewVersions:
    """Return the versions of all models that arrived after a cursor, oldest first, and the next cursor.

    Polling is needed since webhooks can get lost. The cursor contains the last number of each model. Numbers only grow
    for the same model, while the clocks of servers are corrected, and differ.
    """
    known = {name: Head(*head) for name, head in json.loads(cursor).items()} if cursor else {}
    heads = _read_heads(client)
    renamed = {head.made: head.number for name, head in known.items() if name not in heads}
    floors = {
        name: known[name].number if name in known and known[name].made == head.made else renamed.get(head.made, 0)
        for name, head in heads.items()
    }
    if cursor is None:
        found = list(iterate_versions(client, order="creation_timestamp DESC"))
    else:
        grown = [name for name, head in heads.items() if head.number > floors[name]]
        found = [
            version
            for name in grown
            for version in takewhile(lambda one: int(one.version) > floors[one.name], iterate_versions(client, name))
        ]
    # Versions that arrived while the list was read are left to the next call, which would find them again.
    new = [one for one in found if one.name in heads and int(one.version) <= heads[one.name].number]
    again = {
        name: name in known and (known[name].again or head.made not in {known[name].made, *renamed})
        for name, head in heads.items()
    }
    last = {name: Head(head.made, max(head.number, floors[name]), again[name]) for name, head in heads.items()}
    infos = (
        _make_info(one).model_copy(update={"created": one.creation_timestamp / 1000, "again": again[one.name]})
        for one in _sort(new)
    )
    return NewVersions(tuple(infos), json.dumps(known | last))


def _read_heads(client: MlflowClient) -> dict[str, Head]:
    """Return the state of each registered model, by its name."""
    heads = {}
    for model in iterate_models(client):
        numbers = (int(version.version) for version in model.latest_versions)  # one for each stage
        heads[model.name] = Head(model.creation_timestamp, max(numbers, default=0))
    return heads


def iterate_models(client: MlflowClient) -> Iterator[RegisteredModel]:
    """Yield every registered model except prompts, which MLflow lists among them.

    MLflow's client excludes prompts by filtering for a tag that is not set, unless the filter contains the tag's name.
    For such a filter, an older server (2.20) returns no model without the tag. So the filter here contains the tag's
    name, and matches everything.
    """
    wanted = f"name != '{_IS_PROMPT}'" if has_experiments(client.tracking_uri) else None
    token = None
    while True:
        page = client.search_registered_models(wanted, max_results=_PAGE, page_token=token)
        yield from (model for model in page if _IS_PROMPT not in (model.tags or {}))
        if not (token := page.token):
            return


def _sort(versions: Iterable[ModelVersion]) -> list[ModelVersion]:
    """Sort versions by time, and those of a model by number: no version is older than the one before it."""
    times: dict[str, int] = {}
    rows = {}
    for one in sorted(versions, key=lambda version: int(version.version)):
        times[one.name] = max(times.get(one.name, 0), one.creation_timestamp)
        rows[one.name, int(one.version)] = times[one.name], one
    return [one for _, one in sorted(rows.values(), key=lambda row: row[0])]


def iterate_versions(
    client: MlflowClient, name: str | None = None, order: str = "version_number DESC"
) -> Iterator[ModelVersion]:
    """Yield every version of a model, or of all, newest first; nothing if the model does not exist."""
    wanted = name and f"name={quote(name)}"
    token = None
    while True:
        page = client.search_model_versions(wanted, order_by=[order], max_results=200, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def quote(name: str) -> str:
    """Return a name in quotes that it does not contain: MLflow's search language has two kinds, and no escapes."""
    return f'"{name}"' if "'" in name else f"'{name}'"


def _make_info(version: ModelVersion) -> VersionInfo:
    return VersionInfo(
        uri=f"models:/{version.name}/{version.version}",
        name=version.name,
        version=str(version.version),
        aliases=tuple(version.aliases or ()),
        tags=dict(version.tags or {}),
    )


def _explain_missing(client: MlflowClient, reference: Reference) -> HoneError:
    name, version, alias = str(reference.name), reference.version, reference.alias
    models = [model.name for model in iterate_models(client)]
    if name not in models:
        what, where = f"The registry has no model {name!r}.", find_sqlite_file(client.tracking_uri)
        nouns = f"models in {where or client.tracking_uri}"
        return explain_unknown("model-unknown", what, name, models, f"{nouns}:" if models else nouns)
    if alias is not None:
        waiting = (explain_waiting(_make_info(one), alias) for one in iterate_versions(client, name))
        if error := next(filter(None, waiting), None):
            return error
        aliases = sorted(client.get_registered_model(name).aliases or {})
        newest = next(
            (f" Or name a version: models:/{name}/{one.version}." for one in iterate_versions(client, name)), ""
        )
        what = f"{name!r} has no alias {alias!r}."
        return explain_unknown("alias-unknown", what, alias, aliases, "aliases", advice=newest)
    versions = [str(one.version) for one in iterate_versions(client, name)]
    return explain_unknown(
        "version-unknown", f"{name!r} has no version {version!r}.", str(version), versions, "versions"
    )
