"""Secrets and paths of this machine in what an image would contain: an image is pushed to where others read it.

The files of packages are not read for this: ``packages.py`` takes only bytes that a public wheel lists.
"""

from __future__ import annotations

import getpass
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

from hone_runtime.errors import HoneError
from hone_runtime.text import SECRET_NAME
from hone_runtime.tokens import ESCAPED, TOKENS
from hone_runtime.values.regular import open_regular
from kedro_hone.serving.image.archives import Content, Tree
from kedro_hone.serving.image.bytecode import read_content
from kedro_hone.serving.image.contents import MODEL
from kedro_hone.serving.image.spellings import Spellings, spell

_SHORTEST: Final = 8
"""The shortest value of a variable that counts as a secret, in characters: shorter ones occur in other words."""
_PLACEHOLDER: Final = (
    rb"(?:(?i:pass(?:word|wd|phrase)?|passwd|pwd|pw|secret|token|key|change[_-]?me|x+|(?:your|my|the|some)[_-]?[a-z_-]*)@"
    rb"|[.$*%]|(?P=user)@)"
)
"""What documentation writes for a password: a word for it, the start of a variable, or the user's name again."""
_TOKENS: Final[Mapping[bytes, bytes]] = MappingProxyType(
    {
        b"-----BEGIN ": rb"-----BEGIN (?:[A-Z]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----",
        b"://": (
            rb"(?<=[A-Za-z0-9])://(?P<user>[A-Za-z0-9._~%+-]{0,64}):(?!" + _PLACEHOLDER + rb")"
            rb"(?:[A-Za-z0-9._~%+!$&()*=,;-]|\\u[0-9A-Fa-f]{4}){4,256}@(?!sha(?:256|512):)[A-Za-z0-9][A-Za-z0-9.-]{2}"
        ),
        **{start.encode(): pattern.encode() for start, pattern in TOKENS.items()},
    }
)
"""Private keys, passwords in URLs, and tokens, by how they begin."""
_START: Final = rb"(?:(?<![A-Za-z0-9._-])|" + ESCAPED.encode() + b")"
_END: Final = rb"(?![A-Za-z0-9_-]|\.[A-Za-z0-9])"
"""What is not part of the same name, before and after a path."""


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
    current, environments = Path(variables.get("PWD", "")), variables.get("HONE_HOME", "")
    places = {
        **_name_folder("the home folder", Path.home()),
        **_name_folder("the project's folder", current if _is_same(current, project) else project),
        **(_name_folder("the folder of environments", Path(environments)) if environments else {}),
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
    secrets = {name: spell(value) for name, value in private.secrets.items()}
    places = {name: _spell_place(value) for name, value in private.places.items()} if paths else {}
    found = list[str]()
    hint = "Remove it from the model or its evidence, and publish the winner again."
    for place in sorted(tree):
        name = f"/{place}".encode(errors="surrogateescape")
        within = f"/{place.relative_to(MODEL) if place.is_relative_to(MODEL) else place}"
        with _open(tree[place]) as content:
            if named := _search(name, secrets):
                found.append(f"The name of a file contains the value of {named}.")
            elif _has_token(name):
                found.append("The name of a file contains a key, a token or a URL with a password.")
            elif named := _search(content, secrets):
                found.append(f"{place} contains the value of {named}.")
            elif _has_token(content):
                found.append(f"{place} contains a key, a token or a URL with a password.")
            elif named := _search(within.encode(errors="surrogateescape"), places):
                found.append(f"The name of a file contains {named}, {private.places[named]}.")
                hint = "Rename the file, and publish the winner again."
            elif named := _search(content, places):
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
    found = text.encode(errors="surrogateescape")
    for name, value in sorted(private.places.items(), key=lambda one: -len(one[1])):  # one may be within another
        found = _spell_place(value).pattern.sub(f"({name})".encode(), found)
    return found.decode(errors="surrogateescape")


def _name_folder(name: str, folder: Path) -> dict[str, str]:
    """Return both paths of a folder by its name: as it was given, and without links."""
    given, real = str(folder.absolute()), os.path.realpath(folder)
    return {name: given} if given == real else {name: given, f"{name} without links": real}


def _is_same(one: Path, other: Path) -> bool:
    """Return whether an absolute path leads to a folder: the shell's path keeps the links that ``getcwd`` follows."""
    return one.is_absolute() and os.path.realpath(one) == os.path.realpath(other)


def _spell_place(value: str) -> Spellings:
    return spell(value, _START + rb"(?<!\\)" if value.startswith("/") else _START, _END)


@contextmanager
def _open(content: Content) -> Iterator[bytes | mmap.mmap]:
    """Yield the bytes of a file, which may be larger than the memory."""
    if not isinstance(content, Path) or not content.stat().st_size:
        yield b"" if isinstance(content, Path) else read_content(content)
        return
    with open_regular(content) as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        yield mapped


def _search(content: bytes | mmap.mmap, private: Mapping[str, Spellings]) -> str:
    """Return the name of the first text that occurs; empty if none does."""
    return next((name for name, spellings in private.items() if spellings.occurs(content)), "")


def _has_token(content: bytes | mmap.mmap) -> bool:
    return any(_occurs(content, start, re.compile(pattern)) for start, pattern in _TOKENS.items())


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
