"""What DVC recorded of a file at a git revision. DVC is imported only by the functions that need it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kedro_hone.datasets.errors import DataError

_URL = re.compile(r"[a-z][a-z0-9+]*://|[^/@]+@[^/:]+:")


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A git repository that uses DVC.

    Attributes:
        name: As the catalog names it.
        git: The folder of the git repository, or its URL.
        prefix: The path of DVC's root in it; empty when they are the same.
        workspace: DVC's root when it is a folder of this machine, or None.
    """

    name: str
    git: str
    prefix: str
    workspace: Path | None


@dataclass(frozen=True, kw_only=True)
class Pin:
    """What DVC recorded of one file or directory at one commit.

    Attributes:
        source: Its path from DVC's root.
        hash_name: How it was hashed: ``md5``, or ``md5-dos2unix`` before DVC 3.
        md5: The hash; ``.dir`` at its end for a directory.
    """

    source: str
    commit: str
    hash_name: str
    md5: str

    @property
    def is_directory(self) -> bool:
        """Whether DVC hashed a listing."""
        return self.md5.endswith(".dir")


def find_repository(name: str, project: Path) -> Repository:
    """Find the repository that a catalog entry names.

    Args:
        name: A folder, absolute or from the project's root, or the URL of a git repository.
        project: The project's root.

    Raises:
        DataError: ``data-not-tracked`` when there is no DVC, ``data-revision-unknown`` when there is no git.
    """
    folder = (project / name).resolve()
    if not folder.is_dir() and _URL.match(name):
        return Repository(name=name, git=name, prefix="", workspace=None)
    if not (folder / ".dvc").is_dir():
        raise DataError(
            "data-not-tracked",
            f"{name} is not a DVC repository.",
            why="The folder does not exist or has no .dvc folder.",
            hint="Name the folder in which `dvc init` was run as `repo`, or run it there.",
        )
    git = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
    if git is None:
        raise DataError(
            "data-revision-unknown",
            f"{name} is not in a git repository.",
            why="A revision pins the data, and only git has revisions.",
            hint="Run `git init` in it, and commit the .dvc files.",
        )
    prefix = folder.relative_to(git).as_posix()
    return Repository(name=name, git=str(git), prefix="" if prefix == "." else prefix, workspace=folder)


@contextmanager
def open_revision(repository: Repository, rev: str, *, remote: str | None) -> Iterator[Any]:
    """Open a repository's files at a branch, tag or commit, as a ``DVCFileSystem``; ``remote`` is DVC's.

    Raises:
        DataError: ``data-revision-unknown``.
    """
    os.environ.setdefault("DVC_NO_ANALYTICS", "1")  # otherwise DVC sends usage statistics
    from dvc.api import DVCFileSystem  # noqa: PLC0415 - heavy, and only needed here
    from dvc.scm import RevError  # noqa: PLC0415 - heavy, and only needed here

    # DVC looks for its root at the root of git only, unless it is told to look below.
    files = DVCFileSystem(repository.git, rev=rev, remote=remote, subrepos=bool(repository.prefix))
    try:
        _ = files.repo  # opens it
    except RevError as error:
        raise DataError(
            "data-revision-unknown",
            f"{repository.name} has no revision {rev!r}.",
            why=str(error),
            hint=f"See `git -C {repository.name} log --oneline --all`; a revision must be committed, and fetched.",
        ) from error
    try:
        yield files
    finally:
        files.close()


def locate(repository: Repository, source: str) -> str:
    """Return a file's path inside the file system that ``open_revision`` opens."""
    return "/" + "/".join(part for part in (repository.prefix, source) if part)


def find_pin(files: Any, repository: Repository, *, source: str, rev: str) -> Pin:
    """Return what DVC recorded of a file (``source``, from DVC's root). Needs no data, only git; ``rev`` is its name.

    Raises:
        DataError: ``data-not-tracked``, or ``data-not-pulled`` when a directory's listing is not found, or the remote
            does not exist.
    """
    from dvc.config import RemoteConfigError  # noqa: PLC0415 - heavy, and only needed here
    from dvc_data.index import DataIndexDirError  # noqa: PLC0415 - heavy, and only needed here

    hint = f"`cd {repository.name} && dvc add {source} && git commit`; `path` counts from the folder of `repo`."
    try:
        found = files.info(locate(repository, source))
    except FileNotFoundError as error:
        raise DataError(
            "data-not-tracked",
            f"{source} does not exist in {repository.name} at {rev}.",
            why="Neither git nor DVC knows it at this revision.",
            hint=hint,
        ) from error
    except (DataIndexDirError, RemoteConfigError) as error:
        raise report_missing(repository, source, why=str(error)) from error
    entry = found.get("dvc_info", {}).get("entry")
    recorded = entry.hash_info if entry is not None else None
    if not recorded or not recorded.name.startswith("md5"):
        raise DataError(
            "data-not-tracked",
            f"{source} is not tracked by DVC in {repository.name} at {rev}.",
            why="It is kept by git alone, or holds tracked files without being one; no digest of it is recorded.",
            hint=hint,
        )
    return Pin(source=source, commit=str(files.repo.get_rev()), hash_name=recorded.name, md5=recorded.value)


def report_missing(repository: Repository, what: str, *, why: str) -> DataError:
    """Return the error for data (``what``) that DVC tracks and that are in no cache or remote: ``data-not-pulled``."""
    return DataError(
        "data-not-pulled",
        f"DVC knows {what} in {repository.name}, but no cache or remote gave it.",
        why=why,
        hint=f"Where the data are: `cd {repository.name} && dvc push --all-tags` (or --all-commits; a plain push "
        "leaves older revisions out). Here: check `dvc remote list` and its credentials.",
    )


def hash_path(path: Path, hash_name: str, *, root: Path | None = None) -> str:
    """Hash a file or directory as DVC does (``.dir`` is at the end of a directory's hash).

    Args:
        path: What is hashed.
        hash_name: ``md5`` or ``md5-dos2unix``.
        root: DVC's root, whose ``.dvcignore`` files count; None outside of a workspace.
    """
    from dvc.fs import LocalFileSystem  # noqa: PLC0415 - heavy, and only needed here
    from dvc.ignore import DvcIgnoreFilter  # noqa: PLC0415 - heavy, and only needed here
    from dvc_data.hashfile.build import build  # noqa: PLC0415 - heavy, and only needed here
    from dvc_data.hashfile.db import HashFileDB  # noqa: PLC0415 - heavy, and only needed here

    local = LocalFileSystem()
    ignore = DvcIgnoreFilter(local, str(root)) if root else None
    database = HashFileDB(local, str(path.parent))  # a dry run writes nothing to it
    _, _, hashed = build(database, str(path), local, hash_name, dry_run=True, ignore=ignore)
    return str(hashed.hash_info.value)


def check_unmodified(repository: Repository, pin: Pin) -> None:
    """Refuse a file whose working copy differs from what is committed; a repository elsewhere has no working copy.

    Raises:
        DataError: ``data-modified``.
    """
    root = repository.workspace
    if root is None or not (root / pin.source).exists():
        return
    found = hash_path(root / pin.source, pin.hash_name, root=root)
    if found == pin.md5:
        return
    raise DataError(
        "data-modified",
        f"{pin.source} in {repository.name} was changed since it was committed.",
        why=f"HEAD pins md5 {pin.md5}, and the file has {found}.",
        hint=f"`cd {repository.name} && dvc add {pin.source} && git commit` to use the change, "
        f"`dvc checkout {pin.source}` to drop it, or pin another revision by `rev`.",
    )
