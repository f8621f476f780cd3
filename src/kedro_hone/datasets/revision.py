"""DVC's record of a file at a git revision, and verified copies. Importing this imports DVC, which is slow."""

from __future__ import annotations

import os
import re
import tempfile
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

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


class Revision:
    """A file or directory that DVC tracks in a git repository, at a branch, tag or commit.

    The repository is a folder, absolute or relative to the project's root, or a URL. The file is relative to DVC's
    root. The default DVC remote is that of the repository.

    Raises:
        DataError: ``data-not-tracked`` without DVC, ``data-revision-unknown`` without git or without such a revision.
    """

    def __init__(self, source: str, repo: str, rev: str, *, project: Path, remote: str | None) -> None:
        self._source, self._repo, self._rev = source, repo, rev
        folder = (project / repo).resolve()
        self._workspace = None if _URL.match(repo) and not folder.is_dir() else folder
        git = _find_git(repo, folder) if self._workspace else None
        prefix = folder.relative_to(git).parts if git else ()
        self._path = "/" + "/".join((*prefix, source))
        os.environ.setdefault("DVC_NO_ANALYTICS", "1")  # otherwise DVC sends usage statistics
        # DVC looks for its root at the root of git only, unless it is configured to look below.
        self._files = DVCFileSystem(str(git or repo), rev=rev, remote=remote, subrepos=bool(prefix))
        try:
            self.commit = str(self._files.repo.get_rev())
        except RevError as error:
            hint = f"See `git -C {repo} log --oneline --all`; a revision must be committed, and fetched."
            why = str(error)
            if git and (git / ".git" / "shallow").exists():
                why += "; the clone is shallow, and has neither older commits nor tags"
                hint = f"Run `git -C {repo} fetch --unshallow --tags`; for actions/checkout, set `fetch-depth: 0`."
            raise DataError("data-revision-unknown", f"{repo} has no revision {rev!r}.", why=why, hint=hint) from error

    def close(self) -> None:
        """Release the resources of DVC."""
        self._files.close()

    @property
    def md5(self) -> str:
        """DVC's md5 of the file, or of a directory's listing (it ends in ``.dir``). Needs only git, not the data.

        Raises:
            DataError: ``data-not-tracked``, or ``data-not-pulled`` if a directory's listing is not found or the remote
                does not exist.
        """
        return str(self._recorded.value)

    @cached_property
    def _recorded(self) -> Any:
        """DVC's hash: its name is ``md5``, or ``md5-dos2unix`` before DVC 3."""
        source, repo, what = self._source, self._repo, "is not tracked by DVC"
        why = "Only git tracks it, or it is a folder with tracked files; no digest of it is recorded."
        try:
            entry = self._files.info(self._path).get("dvc_info", {}).get("entry")
        except FileNotFoundError:
            entry, what, why = None, "does not exist", "Neither git nor DVC tracks it at this revision."
        except (DataIndexDirError, RemoteConfigError) as error:
            raise self._explain_missing(source, why=str(error)) from error
        recorded = entry.hash_info if entry is not None else None
        if not recorded or not recorded.name.startswith("md5"):
            hint = f"`cd {repo} && dvc add {source} && git commit`; `path` counts from the folder of `repo`."
            raise DataError("data-not-tracked", f"{source} {what} in {repo} at {self._rev}.", why=why, hint=hint)
        return recorded

    def check_unmodified(self) -> None:
        """Refuse a file with a working copy that differs from DVC's record; a remote repository has no working copy.

        Raises:
            DataError: ``data-modified``; as ``md5``.
        """
        source, repo, recorded = self._source, self._repo, self.md5
        if self._workspace is None or not (self._workspace / source).exists():
            return
        found = self._hash(self._workspace / source, root=self._workspace)
        if found != recorded:
            what = f"{source} in {repo} was changed since it was committed."
            use, drop = f"`cd {repo} && dvc add {source} && git commit`", f"`dvc checkout {source}`"
            hint = f"{use} to use the change, {drop} to drop it, or pin another revision by `rev`."
            why = f"HEAD pins md5 {recorded}, and the file has {found}."
            raise DataError("data-modified", what, why=why, hint=hint)

    def cache_copy(self, cache: Path) -> Path:
        """Return the copy of the data in a cache (``<md5>/<name>``), made if there is none.

        Its bytes are compared with the recorded hash on each call; a damaged copy is made again.

        Raises:
            DataError: ``data-not-pulled``; as ``md5``.
        """
        target = cache / self.md5 / PurePosixPath(self._source).name
        if self._is_intact(target):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".copy-") as folder:
            staged = Path(folder) / target.name
            self._fetch(staged)
            if target.is_dir():
                target.rename(Path(folder) / "damaged")
            try:
                staged.replace(target)
            except OSError:
                # Another process placed the same directory first; its content is the same.
                if not self._is_intact(target):
                    raise
        return target

    def _fetch(self, staged: Path) -> None:
        """Copy the data from DVC's cache or remote, verify them, and make them read-only."""
        name = f"{self._source} (md5 {self.md5}, commit {self.commit[:12]})"
        try:
            self._files.get(self._path, str(staged), recursive=self.md5.endswith(".dir"))
        except (FileNotFoundError, ConnectionError, DvcException, DataIndexDirError) as error:
            raise self._explain_missing(name, why=str(error)) from error
        found = self._hash(staged) if staged.exists() else "nothing"
        if found != self.md5:
            raise self._explain_missing(name, why=f"DVC's cache or remote returned other content: {found}.")
        for file in [staged, *staged.rglob("*")]:
            if file.is_file():
                file.chmod(0o444)

    def _is_intact(self, target: Path) -> bool:
        return target.exists() and self._hash(target) == self.md5

    def _hash(self, path: Path, *, root: Path | None = None) -> str:
        """Hash a file or directory like DVC; in a workspace the ``.dvcignore`` files of DVC's root apply."""
        local = LocalFileSystem()
        database = HashFileDB(local, str(path.parent))  # a dry run writes nothing to it
        ignore = DvcIgnoreFilter(local, str(root)) if root else None
        _, _, hashed = build(database, str(path), local, self._recorded.name, dry_run=True, ignore=ignore)
        return str(hashed.hash_info.value)

    def _explain_missing(self, what: str, *, why: str) -> DataError:
        hint = (
            f"Where the data are: `cd {self._repo} && dvc push --all-tags` (or --all-commits; a plain push "
            "leaves older revisions out). Here: check `dvc remote list` and its credentials."
        )
        what = f"DVC knows {what} in {self._repo}, but no cache or remote has it."
        return DataError("data-not-pulled", what, why=why, hint=hint)


def _find_git(name: str, folder: Path) -> Path:
    """Return the root of the git repository of a folder with DVC."""
    if not (folder / ".dvc").is_dir():
        what, why = f"{name} is not a DVC repository.", "The folder does not exist or has no .dvc folder."
        hint = "Name the folder in which `dvc init` was run as `repo`, or run it there."
        raise DataError("data-not-tracked", what, why=why, hint=hint)
    for git in (folder, *folder.parents):
        if (git / ".git").exists():
            return git
    what, why = f"{name} is not in a git repository.", "A revision pins the data, and only git has revisions."
    hint = "Run `git init` in it, and commit the .dvc files."
    raise DataError("data-revision-unknown", what, why=why, hint=hint)
