"""Allowed locations of a version's files: the registry's value is a text chosen by the author of the version.

A version may have any URL as the location of its files. Here it must be one of the registry's own locations, so that an
untrusted version cannot make us contact another server, or send it a token.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from mlflow import MlflowClient
from mlflow.entities import ViewType

from hone_runtime.errors import HoneError
from hone_runtime.text import hide_secrets
from kedro_hone.adaptors.registries.mlflow import connection
from kedro_hone.sources.source_format import MLMODEL

ROOTS: Final = "HONE_ARTIFACT_ROOTS"
"""The variable with more locations from which files may be pulled: paths and URLs, separated by blanks."""
_SERVED: Final = "/api/2.0/mlflow-artifacts/artifacts/"
_WEB: Final = frozenset({"http", "https"})
_LOCAL: Final = frozenset({"", "file"})
_PORTS: Final = {"http": 80, "https": 443}
_DEEPEST: Final = 3
"""How often the location of a version may refer to another model or run."""
_ODD: Final = re.compile(r"[\x00-\x20\x7f\\#]")


def find_place(
    client: MlflowClient, location: str, *, tracking_uri: str, project: Path, variables: Mapping[str, str] = os.environ
) -> Path | str:
    """Return the location of a version's files: a folder of this machine, or a URL of the registry's own.

    Args:
        client: Lists the experiments, whose locations belong to the registry.
        location: The registry's value.
        tracking_uri: The registry.
        project: The project's folder; the files of a registry without a server may also be below it.
        variables: May contain more locations.

    Raises:
        HoneError: ``files-elsewhere``.
    """
    place = _follow(client, location)
    servers = [urlsplit(uri) for uri in (tracking_uri, variables.get("MLFLOW_REGISTRY_URI") or "") if uri]
    parts = _split(place)
    own = variables.get(ROOTS, "").split()
    if parts is not None and parts.scheme in _LOCAL:
        return _find_folder(client, parts, place, tracking_uri=tracking_uri, project=project, own=own)
    if parts is not None and _is_own(client, parts, place, tracking_uri=tracking_uri, servers=servers, own=own):
        return place
    raise _explain(location)


def _follow(client: MlflowClient, location: str) -> str:
    """Return the actual location, if a location refers to a run or a logged model."""
    place = location
    for _ in range(_DEEPEST):
        if found := re.fullmatch(r"runs:/+([0-9a-f]{32})(/.*)?", place):
            place = str(client.get_run(found[1]).info.artifact_uri).rstrip("/") + (found[2] or "")
        elif found := re.fullmatch(r"models:/+(m-[0-9a-f]{32})(/.*)?", place):
            place = str(client.get_logged_model(found[1]).artifact_location).rstrip("/") + (found[2] or "")
        elif found := re.fullmatch(r"models:/+([^/@]+)/(\d{1,18})", place):
            place = str(client.get_model_version_download_uri(found[1], found[2]))
        else:
            return place
    raise _explain(location)


def join_path(place: Path | str, path: str) -> Path | str:
    """Return a file or folder in a location; ``path`` has no part that leads upwards, and may be empty.

    Raises:
        HoneError: ``files-elsewhere``: a link leads out of the location.
        FileNotFoundError: It does not exist.
    """
    if not path:
        return place
    if isinstance(place, str):
        return f"{place.rstrip('/')}/{path}"
    found = (place / path).resolve()
    if not found.is_relative_to(place.resolve()):
        raise _explain(path)
    if not found.exists():
        raise FileNotFoundError(f"there is no {path} in it")
    return found


def _split(place: str) -> SplitResult | None:
    """Return the parts of a URL; None if two parsers could read it differently, or it leads out of its folder."""
    try:
        parts = urlsplit(place)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme in _LOCAL:
        return None if "\0" in place or parts.netloc not in {"", "localhost"} else parts
    if _ODD.search(place) or "@" in parts.netloc or ".." in unquote(unquote(parts.path)).split("/"):
        return None
    return parts


def _is_own(
    client: MlflowClient,
    parts: SplitResult,
    place: str,
    *,
    tracking_uri: str,
    servers: list[SplitResult],
    own: Iterable[str],
) -> bool:
    """Return whether a URL is the registry's own: served by its server, or in a location where it stores files.

    MLflow sends its token to any web server, so other servers are refused, even if a variable lists them.
    """
    if parts.scheme == "mlflow-artifacts":  # of the tracking server, by MLflow's rules
        return servers[0].scheme in _WEB and (not parts.netloc or _is_same_host(servers[0], parts))
    if parts.scheme in _WEB:
        return any(_is_served(server, parts) for server in servers)
    return not connection.has_experiments(tracking_uri) or _is_below(place, (*own, *_list_places(client)))


def _is_same_host(server: SplitResult, parts: SplitResult) -> bool:
    ports = (parts.port or _PORTS.get(server.scheme), server.port or _PORTS.get(server.scheme))
    return parts.hostname == server.hostname and ports[0] == ports[1]


def _is_served(server: SplitResult, parts: SplitResult) -> bool:
    """Return whether a URL is of an artifact that the server itself serves."""
    below = parts.path.startswith(re.sub("/+", "/", f"{server.path}{_SERVED}"))
    return server.scheme == parts.scheme and _is_same_host(server, parts) and below


def _find_folder(
    client: MlflowClient, parts: SplitResult, place: str, *, tracking_uri: str, project: Path, own: Iterable[str]
) -> Path:
    """Return a folder of this machine that is below one of the registry's.

    Anyone with write access to the registry can choose an experiment's location. So below it, the folder must be a
    model that MLflow logged.
    """
    folder = _read_path(place, parts)
    roots = [_read_path(root, urlsplit(root)) for root in own if urlsplit(root).scheme in _LOCAL]
    if not connection.has_server(tracking_uri):
        file = connection.find_sqlite_file(tracking_uri)
        roots += [project.resolve(), *([file.parent] if file else [])]
    if any(folder != root and folder.is_relative_to(root) for root in roots if root != Path(root.anchor)):
        return folder
    if (folder / MLMODEL).is_file():
        locations = [(one, urlsplit(one)) for one in _list_places(client)]
        found = (_read_path(one, each) for one, each in locations if each.scheme in _LOCAL)
        if any(folder.is_relative_to(root) for root in found if root != Path(root.anchor)):
            return folder
    raise _explain(place)


def _read_path(place: str, parts: SplitResult) -> Path:
    from mlflow.utils.file_utils import local_file_uri_to_path  # noqa: PLC0415 - slow to import

    return Path(local_file_uri_to_path(place) if parts.scheme else place).resolve()


def _is_below(place: str, roots: Iterable[str]) -> bool:
    return any(place == root.rstrip("/") or place.startswith(root.rstrip("/") + "/") for root in roots if "://" in root)


def _list_places(client: MlflowClient) -> Iterator[str]:
    """Yield the file locations of experiments, including deleted ones."""
    token = None
    while True:
        page = client.search_experiments(view_type=ViewType.ALL, max_results=1000, page_token=token)
        yield from (str(experiment.artifact_location) for experiment in page if experiment.artifact_location)
        if not (token := page.token):
            return


def _explain(location: str) -> HoneError:
    return HoneError(
        "files-elsewhere",
        "The version's files are in a place outside the registry.",
        why=f"The registry records {hide_secrets(location)!r:.300}; nothing was requested from there.",
        hint=f"Log the model again by MLflow; or, if you trust the place, name it in {ROOTS}.",
    )
