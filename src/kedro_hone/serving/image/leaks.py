"""Secrets and paths of this machine in what an image would contain: an image is pushed to where others read it.

The files of packages are not read for this: ``packages.py`` takes only bytes that a public wheel lists.
"""

from __future__ import annotations

import getpass
import json
import mmap
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from hone_runtime.errors import HoneError
from hone_runtime.text import SECRET_NAME
from hone_runtime.tokens import TOKENS
from hone_runtime.values.regular import open_regular
from kedro_hone.serving.image.archives import Content, Tree
from kedro_hone.serving.image.bytecode import read_content

_SHORTEST: Final = 8
"""The shortest value of a variable that counts as a secret, in characters: shorter ones occur in other words."""
_TOKENS: Final[Mapping[bytes, bytes]] = MappingProxyType(
    {
        b"-----BEGIN ": rb"-----BEGIN (?:[A-Z]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----",
        **{start.encode(): pattern.encode() for start, pattern in TOKENS.items()},
    }
)
"""Private keys and tokens by how they begin."""
_START: Final = rb"(?<![A-Za-z0-9._-])"
_END: Final = rb"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
"""What is not part of the same name, before and after a path."""

Pattern = tuple[bytes, re.Pattern[bytes]]
"""How something private begins, and all of it."""


@dataclass(frozen=True, kw_only=True)
class Private:
    """What no image may contain.

    Attributes:
        secrets: The values of secret variables by the variables' names.
        places: Paths and names of this machine by what they are.
    """

    secrets: Mapping[str, str]
    places: Mapping[str, str]


def read_private(project: Path, variables: Mapping[str, str] = os.environ) -> Private:
    """Return what is private to this process, its user and its project."""
    secrets = {name: value.strip() for name, value in variables.items() if SECRET_NAME.search(name.upper())}
    places = {
        "the home folder": str(Path.home()),
        "the project's folder": str(project.resolve()),
        "the folder of environments": variables.get("HONE_HOME", ""),
        "the user's name at this machine": f"{_find_user()}@{socket.gethostname()}",
    }
    return Private(
        secrets={name: value for name, value in secrets.items() if len(value) >= _SHORTEST},
        places={name: value for name, value in places.items() if len(value) > 1},
    )


def refuse_leaks(tree: Tree, private: Private, *, paths: bool = True) -> None:
    """Read all files, and refuse them if one contains a secret, or a path of this machine.

    Args:
        tree: The files.
        private: What none of them may contain.
        paths: Whether paths and names of this machine are looked for as well.

    Raises:
        HoneError: ``image-leaks``, with the names of the files.
    """
    secrets = {
        f"{name}{form}": _compile(text) for name, value in private.secrets.items() for form, text in _list_forms(value)
    }
    places = {name: _compile(value, _START, _END) for name, value in private.places.items()}
    tokens = {pattern.decode(): (start, re.compile(pattern)) for start, pattern in _TOKENS.items()}
    found = list[str]()
    hint = "Remove it from the model or its evidence, and publish the winner again."
    for place in sorted(tree):
        with _open(tree[place]) as content:
            if named := _search(str(place).encode(), secrets):
                found.append(f"The name of a file contains the value of {named}.")
            elif named := _search(content, secrets):
                found.append(f"{place} contains the value of {named}.")
            elif _search(content, tokens):
                found.append(f"{place} contains a key or a token.")
            elif paths and (named := _search(content, places)):
                found.append(f"{place} contains {named}, {private.places[named]}.")
                hint = (
                    "Name the source by a registry's URI or a path within the project, and publish the winner again. "
                    "Where the path may be public, `kedro-hone image --allow-paths` packs it; secrets are refused "
                    "anyway."
                )
    if found:
        raise HoneError("image-leaks", "The image would publish what is private to this machine.", why=found, hint=hint)


def hide_places(text: str, private: Private) -> str:
    """Return a text with the names of paths of this machine in their place: errors of toolchains quote paths."""
    found = text.encode()
    for name, value in sorted(private.places.items(), key=lambda one: -len(one[1])):  # one may be within another
        found = _compile(value, _START, _END)[1].sub(f"({name})".encode(), found)
    return found.decode()


def _list_forms(value: str) -> list[tuple[str, str]]:
    """Return a secret as it is, and as it is written in JSON if that differs, each with a remark for the error."""
    plain = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    escaped = {*plain, *(one.replace("/", "\\/") for one in plain), quote(value, safe=""), quote(value)} - {value}
    return [("", value), *((f", escaped ({at})", one) for at, one in enumerate(sorted(escaped), 1))]


def _compile(value: str, start: bytes = b"", end: bytes = b"") -> Pattern:
    return value.encode(), re.compile(start + re.escape(value.encode()) + end)


@contextmanager
def _open(content: Content) -> Iterator[bytes | mmap.mmap]:
    """Yield the bytes of a file, which may be larger than the memory."""
    if not isinstance(content, Path) or not content.stat().st_size:
        yield b"" if isinstance(content, Path) else read_content(content)
        return
    with open_regular(content) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        yield mapped


def _search(content: bytes | mmap.mmap, patterns: Mapping[str, Pattern]) -> str:
    """Return the name of the first pattern that occurs; empty if none does."""
    return next((name for name, pattern in patterns.items() if _occurs(content, *pattern)), "")


def _occurs(content: bytes | mmap.mmap, start: bytes, pattern: re.Pattern[bytes]) -> bool:
    """Return whether a pattern occurs. Its start is looked for first, ten times as fast as an expression is."""
    place = content.find(start)
    while place >= 0:
        if pattern.match(content, place):
            return True
        place = content.find(start, place + 1)
    return False


def _find_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
