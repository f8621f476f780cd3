"""What DVC recorded of a file at a git revision, and verified copies. Importing this imports DVC, which is slow."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dvc.api import DVCFileSystem
from dvc.config import RemoteConfigError
from dvc.exceptions import DvcException
from dvc.fs import LocalFileSystem
from dvc.ignore import DvcIgnoreFilter
from dvc.scm import RevError
from dvc_data.hashfile.build import build
from dvc_data.hashfile.db import HashFileDB
from dvc_data.index import DataIndexDirError

from kedro_hone.datasets.errors import DataError

_URL = re.compile(r"[a-z][a-z0-9+]*://|[^/@]+@[^/:]+:")


class Pin(NamedTuple):
    """What DVC recorded of one file or directory (``source``, from DVC's root) at one commit.

    The hash's name is ``md5``, or ``md5-dos2unix`` before DVC 3; that of a directory, a listing, ends in ``.dir``.
    """

    source: str
    commit: str
    hash_name: str
    md5: str


class Revision:
    """A git repository that uses DVC, opened at a branch, tag or commit.

    It is named by a folder, absolute or from the project's root, or by a URL. Where no DVC remote is given, it is the
    repository's default.

    Raises:
        DataError: ``data-not-tracked`` when there is no DVC, ``data-revision-unknown`` when there is no git, or no such
            revision.
    """

    def __init__(self, name: str, rev: str, *, project: Path, remote: str | None) -> None:
        self._name, self._rev = name, rev
        folder = (project / name).resolve()
        self._workspace = None if _URL.match(name) and not folder.is_dir() else folder
        git = _find_git(name, folder) if self._workspace else None
        self._prefix = folder.relative_to(git).parts if git else ()
        os.environ.setdefault("DVC_NO_ANALYTICS", "1")  # otherwise DVC sends usage statistics
        # DVC looks for its root at the root of git only, unless it is told to look below.
        self._files = DVCFileSystem(str(git or name), rev=rev, remote=remote, subrepos=bool(self._prefix))
        try:
            self._commit = str(self._files.repo.get_rev())
        except RevError as error:
            raise DataError(
                "data-revision-unknown",
                f"{name} has no revision {rev!r}.",
                why=str(error),
                hint=f"See `git -C {name} log --oneline --all`; a revision must be committed, and fetched.",
            ) from error

    def close(self) -> None:
        """Release what DVC holds."""
        self._files.close()

    def find_pin(self, source: str) -> Pin:
        """Return what DVC recorded of a file (from DVC's root). Needs no data, only git.

        Raises:
            DataError: ``data-not-tracked``, or ``data-not-pulled`` when a directory's listing is not found, or the
                remote does not exist.
        """
        what = "is not tracked by DVC"
        why = "It is kept by git alone, or holds tracked files without being one; no digest of it is recorded."
        try:
            entry = self._files.info(self._locate(source)).get("dvc_info", {}).get("entry")
        except FileNotFoundError:
            entry, what, why = None, "does not exist", "Neither git nor DVC knows it at this revision."
        except (DataIndexDirError, RemoteConfigError) as error:
            raise self._explain_missing(source, why=str(error)) from error
        recorded = entry.hash_info if entry is not None else None
        if not recorded or not recorded.name.startswith("md5"):
            raise DataError(
                "data-not-tracked",
                f"{source} {what} in {self._name} at {self._rev}.",
                why=why,
                hint=f"`cd {self._name} && dvc add {source} && git commit`; `path` counts from the folder of `repo`.",
            )
        return Pin(source=source, commit=self._commit, hash_name=recorded.name, md5=recorded.value)

    def check_unmodified(self, pin: Pin) -> None:
        """Refuse a file whose working copy differs from its pin; a repository elsewhere has no working copy.

        Raises:
            DataError: ``data-modified``.
        """
        source = pin.source
        if self._workspace is None or not (self._workspace / source).exists():
            return
        found = _hash_path(self._workspace / source, pin, root=self._workspace)
        if found != pin.md5:
            raise DataError(
                "data-modified",
                f"{source} in {self._name} was changed since it was committed.",
                why=f"HEAD pins md5 {pin.md5}, and the file has {found}.",
                hint=f"`cd {self._name} && dvc add {source} && git commit` to use the change, "
                f"`dvc checkout {source}` to drop it, or pin another revision by `rev`.",
            )

    def keep_copy(self, pin: Pin, cache: Path) -> Path:
        """Return the copy of pinned data in a cache (as ``<md5>/<name>``), which is made if there is none.

        Its bytes were just compared with the pinned hash; a damaged copy is made again.

        Raises:
            DataError: ``data-not-pulled``.
        """
        target = cache / pin.md5 / PurePosixPath(pin.source).name
        if _is_intact(target, pin):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".copy-") as folder:
            staged = Path(folder) / target.name
            self._fetch(pin, staged)
            if target.is_dir():
                target.rename(Path(folder) / "damaged")
            try:
                staged.replace(target)
            except OSError:
                # Another process placed the same directory first; its content is the same.
                if not _is_intact(target, pin):
                    raise
        return target

    def _fetch(self, pin: Pin, staged: Path) -> None:
        """Copy pinned data from DVC's cache or remote, verify it, and make it read-only."""
        name = f"{pin.source} (md5 {pin.md5}, commit {pin.commit[:12]})"
        try:
            self._files.get(self._locate(pin.source), str(staged), recursive=pin.md5.endswith(".dir"))
        except (FileNotFoundError, ConnectionError, DvcException, DataIndexDirError) as error:
            raise self._explain_missing(name, why=str(error)) from error
        found = _hash_path(staged, pin) if staged.exists() else "nothing"
        if found != pin.md5:
            raise self._explain_missing(name, why=f"DVC's cache or remote returned other content: {found}.")
        for file in [staged, *staged.rglob("*")]:
            if file.is_file():
                file.chmod(0o444)

    def _locate(self, source: str) -> str:
        return "/" + "/".join((*self._prefix, source))

    def _explain_missing(self, what: str, *, why: str) -> DataError:
        return DataError(
            "data-not-pulled",
            f"DVC knows {what} in {self._name}, but no cache or remote gave it.",
            why=why,
            hint=f"Where the data are: `cd {self._name} && dvc push --all-tags` (or --all-commits; a plain push "
            "leaves older revisions out). Here: check `dvc remote list` and its credentials.",
        )


def _find_git(name: str, folder: Path) -> Path:
    """Return the root of the git repository that a folder with DVC is in."""
    if not (folder / ".dvc").is_dir():
        raise DataError(
            "data-not-tracked",
            f"{name} is not a DVC repository.",
            why="The folder does not exist or has no .dvc folder.",
            hint="Name the folder in which `dvc init` was run as `repo`, or run it there.",
        )
    for git in (folder, *folder.parents):
        if (git / ".git").exists():
            return git
    raise DataError(
        "data-revision-unknown",
        f"{name} is not in a git repository.",
        why="A revision pins the data, and only git has revisions.",
        hint="Run `git init` in it, and commit the .dvc files.",
    )


def _is_intact(target: Path, pin: Pin) -> bool:
    return target.exists() and _hash_path(target, pin) == pin.md5


def _hash_path(path: Path, pin: Pin, *, root: Path | None = None) -> str:
    """Hash a file or directory as DVC hashed a pin; in a workspace the ``.dvcignore`` files of DVC's root count."""
    local = LocalFileSystem()
    database = HashFileDB(local, str(path.parent))  # a dry run writes nothing to it
    ignore = DvcIgnoreFilter(local, str(root)) if root else None
    _, _, hashed = build(database, str(path), local, pin.hash_name, dry_run=True, ignore=ignore)
    return str(hashed.hash_info.value)
