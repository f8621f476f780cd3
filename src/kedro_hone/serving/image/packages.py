"""The packages in an image: what KServe and the winner's runtime import, and of that only what their wheels list.

A wheel's ``RECORD`` has the digest of each of its files. So an image contains no file that somebody added to the
environment, and none that was changed after it was installed.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.utils import canonicalize_name

from hone_runtime.contract.catalogue import find_installed
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.digest import digest_json
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.requirements import explain_unsatisfied, find_closure
from kedro_hone.serving.image.archives import Content, Tree

_NEEDED: Final = ("kserve", "numpy", "pydantic")
_TEXT: Final = ("tokenizers",)
_TOKENIZER: Final = "tokenizer.json"
_LEFT_OUT: Final = frozenset({"__pycache__", "tests", "testdata"})
"""Folders that no server imports."""
_OF_INSTALLER: Final = frozenset({"RECORD", "RECORD.jws", "INSTALLER", "REQUESTED", "direct_url.json"})
"""Files of a package's metadata that the installer writes: they depend on where and how it was installed."""


@dataclass(frozen=True, kw_only=True)
class Packages:
    """The packages of an image.

    Attributes:
        versions: Their versions by canonical name.
        files: Their files by their paths in a folder of packages.
        key: A digest that changes if a package or a file of them changes.
    """

    versions: Mapping[str, str]
    files: Tree
    key: str


def list_packages(environment: Environment, artifact: Artifact, *, model: Tree) -> Packages:
    """Return the packages of an environment that a server of an artifact needs.

    Args:
        environment: The environment of the server.
        artifact: The winner's artifact, whose runtime is needed.
        model: The winner's files: with a tokenizer among them, the server may read text.

    Raises:
        HoneError: ``serving-unsupported``: the environment lacks the winner's runtime.
    """
    folder = _find_packages(environment)
    text = any(name.name == _TOKENIZER for name in model)
    wanted = (*_NEEDED, *(_TEXT if text else ()), *_list_requirements(artifact))
    versions = find_closure(wanted, folders=[str(folder)])
    if unsatisfied := explain_unsatisfied(wanted, versions):
        raise HoneError(
            "serving-unsupported",
            f"The winner's runtime {artifact.runtime!r} is not in the server's environment.",
            why=f"There, {unsatisfied}.",
            hint="Pack the model alone by --format modelpack, or export it for another server.",
        )
    files, states = dict[PurePosixPath, Content](), []
    for distribution in _find_distributions(folder, frozenset(versions)):
        record = _read_record(distribution.read_text("RECORD") or "")
        for name, digest, size in record:
            files[PurePosixPath(name)] = partial(read_package, folder / name, digest)
            states.append((name, digest, size, *_read_state(folder / name)))
        if infos := {PurePosixPath(name).parts[0] for name, *_ in record if ".dist-info/" in name}:
            files[PurePosixPath(min(infos), "RECORD")] = _format_record(record)
    return Packages(versions=versions, files=files, key=digest_json([environment.key, versions, sorted(states)]))


def read_package(path: Path, digest: str) -> bytes:
    """Return the bytes of a package's file.

    Args:
        path: The installed file.
        digest: ``sha256=…`` in the form of ``RECORD``.

    Raises:
        HoneError: ``toolchain-unbuildable``: it was changed after it was installed.
    """
    content = path.read_bytes()
    algorithm, _, due = digest.partition("=")
    found = base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode()
    if found != due:
        raise HoneError(
            "toolchain-unbuildable",
            "The environment of the server is not the one that was installed.",
            why=f"The digest of {path} differs from the one in its package's RECORD.",
            hint="Remove the folder of that environment, below `environments`, and run again: it is built again.",
        )
    return content


def _find_packages(environment: Environment) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Path(environment.python).parents[1] / "lib" / version / "site-packages"


def _list_requirements(artifact: Artifact) -> list[str]:
    """Return the requirements of the toolchain that opens an artifact; ``list_runtime_files`` refuses others."""
    toolchain = find_installed(str(artifact.runtime))
    return list(toolchain.runtime_requirements) if toolchain else []


def _find_distributions(folder: Path, names: frozenset[str]) -> Iterator[metadata.Distribution]:
    for distribution in metadata.distributions(path=[str(folder)]):
        name = distribution.metadata["Name"]
        if name is not None and canonicalize_name(name) in names:
            yield distribution


def _read_record(text: str) -> list[tuple[str, str, str]]:
    """Return the name, the digest and the size of each file that a package brings to an image, by name."""
    rows = (row for row in csv.reader(io.StringIO(text)) if len(row) == 3)
    return sorted((name, digest, size) for name, digest, size in rows if digest and _is_wanted(PurePosixPath(name)))


def _is_wanted(place: PurePosixPath) -> bool:
    if place.is_absolute() or ".." in place.parts or _LEFT_OUT & set(place.parts):
        return False  # a script of bin/, or what no server imports
    return place.parent.suffix != ".dist-info" or place.name not in _OF_INSTALLER


def _format_record(rows: Sequence[tuple[str, str, str]]) -> bytes:
    """Return a ``RECORD`` of the files in the image, for the scanners that read it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _read_state(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns
