"""The files of kedro-hone that a serving process needs, so that it runs without kedro-hone's own environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import hone_runtime
import kedro_hone
from hone_runtime.contract.catalogue import find_installed, list_builtin
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact

_SUFFIXES: Final = frozenset({".py", ".typed", ".md"})
_METADATA: Final = "Metadata-Version: 2.1\nName: kedro-hone\nVersion: {version}\n"
_ENTRY_POINTS: Final = "[hone_runtime.parts]\nadaptors = kedro_hone.adaptors\n"


def list_runtime_files(artifact: Artifact) -> dict[PurePosixPath, Path | bytes]:
    """Return the files that a process needs to open and serve an artifact, besides installed packages.

    These are ``hone_runtime``, the server, the toolchains that run the artifact, and the metadata by which
    ``hone_runtime`` finds them. Equal versions of kedro-hone give equal files.

    Returns:
        The file, or its content, by its path below a folder of packages.

    Raises:
        HoneError: ``serving-unsupported``: its toolchain is not part of kedro-hone.
    """
    runtime, package = Path(hone_runtime.__file__).parent, Path(kedro_hone.__file__).parent
    found: dict[PurePosixPath, Path | bytes] = dict(_list_package(runtime, PurePosixPath("hone_runtime")))
    for name in ("__init__.py", "py.typed", "adaptors/__init__.py", "serving/__init__.py"):
        found[PurePosixPath("kedro_hone", name)] = package / name
    for name in ("serving/server", *(f"adaptors/{one}" for one in _list_toolchains(str(artifact.runtime)))):
        found |= _list_package(package / name, PurePosixPath("kedro_hone", name))
    info = PurePosixPath(f"kedro_hone-{kedro_hone.__version__}.dist-info")
    found[info / "METADATA"] = _METADATA.format(version=kedro_hone.__version__).encode()
    found[info / "entry_points.txt"] = _ENTRY_POINTS.encode()
    return dict(sorted(found.items()))


def write_runtime(artifact: Artifact, folder: Path) -> None:
    """Write the files of ``list_runtime_files`` below an empty folder."""
    for name, content in list_runtime_files(artifact).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            shutil.copyfile(content, path)


def _list_toolchains(runtime: str) -> list[str]:
    """Return the folders of the toolchain that opens an artifact, and of those that its worker imports."""
    found, pending = list[str](), [runtime]
    while pending:
        name = pending.pop(0)
        toolchain = find_installed(name)
        if toolchain is None or name not in list_builtin():
            raise HoneError(
                "serving-unsupported",
                f"The winner's runtime {name!r} cannot be served.",
                why="Its toolchain is not part of kedro-hone: the server's environment has no packages for it.",
                hint="Call the winner in your own process by kedro_hone.load, or export it.",
            )
        if name not in found:
            found.append(name)
            pending += toolchain.uses
    return found


def _list_package(folder: Path, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, Path]]:
    for base, _, names in os.walk(folder, followlinks=True):  # the pages of errors are behind a link
        for path in (Path(base, name) for name in names):
            if path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
                yield place / path.relative_to(folder).as_posix(), path
