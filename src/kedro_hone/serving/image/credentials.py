"""The user's credentials for registries, from the files of Docker and Podman; no value of them is ever printed."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hone_runtime.values.regular import LARGEST_FILE

_HUB_KEYS: Final = ("https://index.docker.io/v1/", "index.docker.io")


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What a registry, or its token server, asks for; empty if there is nothing.

    Attributes:
        basic: User and password in the form of an ``Authorization`` header.
        refresh: A token to get other tokens by.
    """

    basic: str = field(default="", repr=False)
    refresh: str = field(default="", repr=False)


def find_credentials(host: str, variables: Mapping[str, str] = os.environ) -> Credentials:
    """Return the credentials for a registry: of the first file that has some.

    The files are ``REGISTRY_AUTH_FILE``, ``config.json`` in ``DOCKER_CONFIG`` or ``~/.docker``, and Podman's
    ``containers/auth.json``. Helper programs (``credsStore``) are not started.
    """
    keys = (host, f"https://{host}", f"https://{host}/v1/", *(_HUB_KEYS if host == "docker.io" else ()))
    for path in _list_files(variables):
        known = _read_auths(path)
        for key in keys:
            if isinstance(entry := known.get(key), dict) and (found := _read_entry(entry)):
                return found
    return Credentials()


def _list_files(variables: Mapping[str, str]) -> Iterator[Path]:
    if named := variables.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    yield Path(variables.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    if runtime := variables.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"


def _read_auths(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:  # may be a link, as a mounted secret is
            document = json.loads(stream.read(LARGEST_FILE))
    except (OSError, ValueError):
        return {}
    found = document.get("auths") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _read_entry(entry: Mapping[str, Any]) -> Credentials | None:
    if token := entry.get("identitytoken"):
        return Credentials(refresh=str(token))
    user, password = entry.get("username"), entry.get("password")
    if not entry.get("auth") and user and password:
        return Credentials(basic=base64.b64encode(f"{user}:{password}".encode()).decode())
    try:
        plain = base64.b64decode(str(entry.get("auth") or ""), validate=True)
    except binascii.Error:
        return None
    return Credentials(basic=base64.b64encode(plain).decode()) if b":" in plain else None
