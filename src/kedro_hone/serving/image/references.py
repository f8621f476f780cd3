"""References to images in registries: ``registry.example.org/team/model:tag`` and ``…@sha256:…``."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from hone_runtime.errors import HoneError

_REPOSITORY: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]{2,39}\])(?::[0-9]{1,5})?")
_HUB: Final = "docker.io"
_HUB_HOST: Final = "registry-1.docker.io"
_HUB_HOSTS: Final = frozenset({_HUB, _HUB_HOST, "index.docker.io"})


@dataclass(frozen=True, kw_only=True)
class Reference:
    """An image in a registry.

    Attributes:
        host: The registry's host, with its port if there is one.
        repository: The name of the repository.
        tag: The tag, or a digest ``sha256:…``.
    """

    host: str
    repository: str
    tag: str

    def __str__(self) -> str:
        return f"{self.place}{'@' if ':' in self.tag else ':'}{self.tag}"

    @property
    def place(self) -> str:
        """The repository with its registry, without the tag."""
        return f"{self.host}/{self.repository}"

    @property
    def address(self) -> str:
        """The host that is connected to: Docker Hub's has another name."""
        return _HUB_HOST if self.host == _HUB else self.host

    @property
    def is_loopback(self) -> bool:
        """Whether the registry runs on this machine."""
        name = self.host.rpartition(":")[0] if re.search(r":[0-9]+$", self.host) else self.host
        if name == "localhost":
            return True
        try:
            return ipaddress.ip_address(name.strip("[]")).is_loopback
        except ValueError:
            return False


def read_target(text: str) -> Reference:
    """Return the reference of a text to push to, which names a tag; raises as ``read_reference``."""
    reference = read_reference(text)
    if "@" in text:
        why = "A digest follows from the content, and is not chosen."
        raise HoneError("option-invalid", f"{text!r} has a digest.", why=why, hint="Write registry/name:tag.")
    return reference


def read_reference(text: str) -> Reference:
    """Return the reference of a text as Docker reads it: ``python:3.11-slim`` is of Docker Hub, and a tag is latest.

    All spellings of a place give one reference: hosts become lower case, and the three hosts of Docker Hub docker.io.
    Docker itself does not do that for the third, registry-1.docker.io.

    Raises:
        HoneError: ``option-invalid``.
    """
    name, _, digest = text.partition("@")
    first, slash, rest = name.partition("/")
    if slash and (re.search(r"[.:]", first) or first == "localhost"):
        lower = first.lower() if first.isascii() else first  # some other letters have an ASCII one in lower case
        host = _HUB if lower in _HUB_HOSTS else lower
    else:
        host, rest = _HUB, name
    if host == _HUB and "/" not in rest:
        rest = f"library/{rest}"
    repository, _, tag = rest.partition(":")
    valid = _HOST.fullmatch(host) and _REPOSITORY.fullmatch(repository) and len(repository) < 256
    if (
        not valid
        or not _TAG.fullmatch(tag or "latest")
        or (digest and not _DIGEST.fullmatch(digest))
        or "@" in text[-1:]
    ):
        raise HoneError(
            "option-invalid",
            f"{text!r} is not the name of an image.",
            why="It is registry/name:tag, such as registry.example.org/team/digits:4, in lower case but for the tag.",
            hint="Write the name as Docker does.",
        )
    return Reference(host=host, repository=repository, tag=digest or tag or "latest")
