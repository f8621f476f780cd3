"""Where the files of a version may be: what a registry says of it is a text that whoever made the version has chosen.

A version names the place of its files by any URL. Here it must be one of the registry's own places, so that nobody is
asked, and no token sent, because a stranger's version says so.
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
"""The variable with more places that files may be pulled from: paths and URLs, separated by blanks."""
_SERVED: Final = "/api/2.0/mlflow-artifacts/artifacts/"
_WEB: Final = frozenset({"http", "https"})
_LOCAL: Final = frozenset({"", "file"})
_PORTS: Final = {"http": 80, "https": 443}
_DEEPEST: Final = 3
"""How often the place of a version may be that of another model or run."""
_ODD: Final = re.compile(r"[\x00-\x20\x7f\\#]")


def find_place(
    client: MlflowClient, location: str, *, tracking_uri: str, project: Path, variables: Mapping[str, str] = os.environ
) -> Path | str:
    """Return where the files of a version are: a folder of this machine, or a URL of the registry's own.

    Args:
        client: Knows the experiments, whose places are the registry's.
        location: What the registry says.
        tracking_uri: The registry.
        project: The folder below which the files of a registry without a server may be, too.
        variables: May name more places.

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
    """Return the place that a location means which names a run or a logged model."""
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


def enter(place: Path | str, path: str) -> Path | str:
    """Return a file or folder in a place; ``path`` has no part that leads upwards, and may be empty.

    Raises:
        HoneError: ``files-elsewhere``: a link leads out of the place.
        FileNotFoundError: There is none.
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
    """Return the parts of a place; None where two readers could read it differently, or it leaves its folder."""
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
    """Return whether a URL is the registry's own: of what its server serves, or of a place that it keeps files in.

    MLflow sends its token to any web server, so that other places there are none, also where a variable names them.
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
    """Return whether a URL is of the artifacts that a server itself serves."""
    below = parts.path.startswith(re.sub("/+", "/", f"{server.path}{_SERVED}"))
    return server.scheme == parts.scheme and _is_same_host(server, parts) and below


def _find_folder(
    client: MlflowClient, parts: SplitResult, place: str, *, tracking_uri: str, project: Path, own: Iterable[str]
) -> Path:
    """Return a folder of this machine that is below one of the registry's.

    Below the place of an experiment, which whoever can write to the registry can choose, it must be a model that MLflow
    logged.
    """
    folder = _read_path(place, parts)
    roots = [_read_path(root, urlsplit(root)) for root in own if urlsplit(root).scheme in _LOCAL]
    if not connection.has_server(tracking_uri):
        file = connection.find_sqlite_file(tracking_uri)
        roots += [project.resolve(), *([file.parent] if file else [])]
    if any(folder != root and folder.is_relative_to(root) for root in roots if root != Path(root.anchor)):
        return folder
    if (folder / MLMODEL).is_file():
        said = [(one, urlsplit(one)) for one in _list_places(client)]
        found = (_read_path(one, each) for one, each in said if each.scheme in _LOCAL)
        if any(folder.is_relative_to(root) for root in found if root != Path(root.anchor)):
            return folder
    raise _explain(place)


def _read_path(place: str, parts: SplitResult) -> Path:
    from mlflow.utils.file_utils import local_file_uri_to_path  # noqa: PLC0415 - slow to import

    return Path(local_file_uri_to_path(place) if parts.scheme else place).resolve()


def _is_below(place: str, roots: Iterable[str]) -> bool:
    return any(place == root.rstrip("/") or place.startswith(root.rstrip("/") + "/") for root in roots if "://" in root)


def _list_places(client: MlflowClient) -> Iterator[str]:
    """Yield where experiments keep their files, deleted ones too."""
    token = None
    while True:
        page = client.search_experiments(view_type=ViewType.ALL, max_results=1000, page_token=token)
        yield from (str(experiment.artifact_location) for experiment in page if experiment.artifact_location)
        if not (token := page.token):
            return


def _explain(location: str) -> HoneError:
    return HoneError(
        "files-elsewhere",
        "The version's files are in a place that is none of the registry's.",
        why=f"It says that they are in {hide_secrets(location)!r:.300}; nobody was asked for them.",
        hint=f"Log the model again by MLflow; or, where you know the place, name it in {ROOTS}.",
    )
