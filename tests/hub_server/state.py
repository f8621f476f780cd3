"""What the loopback Hub holds: repositories with their commits, references and pull requests, and tokens."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

LFS_FROM = 1000
"""Bytes from which a file is large; those with a model's suffix always are."""
_LARGE = (".safetensors", ".bin", ".onnx", ".pt2", ".h5", ".msgpack", ".npz")
_SHORTEST = 7


@dataclass(frozen=True)
class Content:
    """A file of a commit: bytes, or a file of this machine that nobody changes."""

    data: bytes | Path

    @cached_property
    def size(self) -> int:
        """Its size in bytes."""
        return self.data.stat().st_size if isinstance(self.data, Path) else len(self.data)

    @cached_property
    def sha256(self) -> str:
        """The digest that names it as a large file."""
        if isinstance(self.data, bytes):
            return hashlib.sha256(self.data).hexdigest()
        with self.data.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def name_blob(self, path: str) -> str:
        """Return git's id of it at a path: a large file is in git as a pointer (git-lfs.com, ``docs/spec.md``)."""
        version = "version https://git-lfs.github.com/spec/v1"
        pointer = f"{version}\noid sha256:{self.sha256}\nsize {self.size}\n"
        data = pointer.encode() if is_large(path, self.size) else self.read()
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def open(self) -> BinaryIO:
        """Return a stream of the bytes."""
        return self.data.open("rb") if isinstance(self.data, Path) else io.BytesIO(self.data)

    def read(self) -> bytes:
        """Return the bytes."""
        return self.data.read_bytes() if isinstance(self.data, Path) else self.data


@dataclass(frozen=True)
class Commit:
    """One commit: all files by their path, and which of them are large."""

    sha: str
    files: Mapping[str, Content]
    parent: str | None
    title: str
    message: str
    created: str


@dataclass
class PullRequest:
    """A pull request: its head is the reference ``refs/pr/<number>``."""

    number: int
    title: str
    author: str
    status: str = "open"


@dataclass
class Token:
    """Who a token belongs to, and what it may do.

    Attributes:
        user: The account.
        role: ``read`` or ``write``.
        orgs: The organizations whose repositories it may use, next to the account's own.
        accepted: Gated repositories whose terms the account has accepted.
    """

    user: str
    role: str = "write"
    orgs: tuple[str, ...] = ()
    accepted: set[str] = field(default_factory=set)

    def owns(self, name: str) -> bool:
        """Return whether a repository is the account's or its organizations'."""
        return name.partition("/")[0] in {self.user, *self.orgs}


def is_large(path: str, size: int) -> bool:
    """Return whether a file is uploaded as a large one."""
    return size >= LFS_FROM or path.endswith(_LARGE)


class Repository:
    """A repository of a model: commits, branches, tags and pull requests."""

    def __init__(self, name: str, *, private: bool = False, gated: bool = False) -> None:
        self.name, self.private, self.gated = name, private, gated
        self.commits: dict[str, Commit] = {}
        self.refs: dict[str, str] = {}
        self.pulls: list[PullRequest] = []
        self.commit({".gitattributes": b"*.safetensors filter=lfs"}, title="initial commit")

    @property
    def head(self) -> str:
        """The commit that ``main`` points to."""
        return self.refs["refs/heads/main"]

    @property
    def files(self) -> Mapping[str, Content]:
        """The files on ``main``."""
        return self.commits[self.head].files

    def find(self, revision: str) -> str | None:
        """Return the commit of a branch, a tag, a reference or the beginning of a commit's id; None if unknown."""
        for ref in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if ref in self.refs:
                return self.refs[ref]
        fits = [sha for sha in self.commits if sha.startswith(revision)]
        return fits[0] if len(revision) >= _SHORTEST and len(fits) == 1 else None

    def commit(
        self,
        files: Mapping[str, bytes | Path | Content | None],
        *,
        ref: str = "refs/heads/main",
        parent: str | None = None,
        title: str = "commit",
        message: str = "",
    ) -> str:
        """Commit files, None for one that is deleted, onto a reference, and return the commit's id."""
        parent = parent or self.refs.get(ref)
        content = dict(self.commits[parent].files) if parent else {}
        for path, data in files.items():
            if data is None:
                content.pop(path)
            else:
                content[path] = data if isinstance(data, Content) else Content(data)
        listing = sorted((path, one.name_blob(path)) for path, one in content.items())
        text = json.dumps([listing, parent, title, message, len(self.commits)])
        sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        self.commits[sha] = Commit(sha, content, parent, title, message, now())
        self.refs[ref] = sha
        return sha

    def history(self, sha: str) -> list[Commit]:
        """Return a commit and those before it, newest first."""
        found: list[Commit] = []
        current: str | None = sha
        while current:
            found.append(self.commits[current])
            current = found[-1].parent
        return found

    def describe(self, sha: str, *, blobs: bool) -> dict[str, Any]:
        """Return what the Hub says of a repository at a commit."""
        commit = self.commits[sha]
        return {
            "_id": self.name,
            "id": self.name,
            "modelId": self.name,
            "author": self.name.partition("/")[0],
            "sha": sha,
            "lastModified": commit.created,
            "createdAt": self.commits[next(iter(self.commits))].created,
            "private": self.private,
            "gated": "auto" if self.gated else False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [
                {"rfilename": path, **(describe_blob(path, one) if blobs else {})}
                for path, one in sorted(commit.files.items())
            ],
        }


def describe_blob(path: str, content: Content) -> dict[str, Any]:
    """Return what a model's description with ``blobs`` says of a file."""
    lfs = {"sha256": content.sha256, "size": content.size, "pointerSize": 134}
    blob = {"blobId": content.name_blob(path), "size": content.size}
    return blob | ({"lfs": lfs} if is_large(path, content.size) else {})


def describe_entry(path: str, content: Content) -> dict[str, Any]:
    """Return what a tree says of a file."""
    lfs = {"oid": content.sha256, "size": content.size, "pointerSize": 134}
    entry = {"type": "file", "path": path, "size": content.size, "oid": content.name_blob(path)}
    return entry | ({"lfs": lfs} if is_large(path, content.size) else {})


def read_revision(repository: Repository, text: str) -> tuple[str | None, str]:
    """Split what follows ``resolve/`` into a commit and a path: a revision may have slashes (``refs/pr/1``)."""
    parts = text.split("/")
    for count in (1, 3):
        if sha := repository.find("/".join(parts[:count])):
            return sha, "/".join(parts[count:])
    return None, text


def now() -> str:
    """Return the time as the Hub writes it."""
    return re.sub(r"(\.\d{3})\d*", r"\1Z", datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds"))
