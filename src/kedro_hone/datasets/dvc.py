"""A catalog entry for data that DVC tracks, at a pinned git revision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from kedro.io import AbstractDataset

from hone_runtime.values.base import Json
from hone_runtime.values.samples import TrackedFile
from kedro_hone.datasets.errors import DataError
from kedro_hone.datasets.runs import find_project

if TYPE_CHECKING:
    from kedro_hone.datasets.revision import Revision

HEAD = "HEAD"


class DVCDataset(AbstractDataset[None, TrackedFile]):
    """A file or directory that DVC tracks, as a verified read-only copy that is made once.

    ```yaml
    calibration: {type: kedro_hone.datasets.DVCDataset, path: calibration.npz, repo: data/demo, rev: v1}
    ```

    The revision is always pinned: DVC's own file system reads a changed working file and still reports the committed
    md5, so that without a revision the recorded digest might not be that of the data. At ``HEAD``, a changed
    working file is refused.

    Args:
        path: The file or directory, relative to the folder of ``repo``.
        repo: The folder in which ``dvc init`` was run, absolute or relative to the project's root, or a git URL.
        rev: A branch, tag or commit; ``HEAD`` if empty.
        remote: The DVC remote to download from; the repository's default if empty.
        cache: The folder of the copies, absolute or relative to the project's root.
        metadata: Not used here; for other plug-ins.
    """

    def __init__(
        self,
        *,
        path: str,
        repo: str = ".",
        rev: str | None = HEAD,
        remote: str | None = None,
        cache: str = "data/hone/dvc",
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._project = find_project(path)
        self._source = _read_source(path, self._project)
        self._repo, self._rev, self._remote = repo, rev or HEAD, remote
        self._cache = self._project / cache
        self.metadata = metadata

    def load(self) -> TrackedFile:
        """Return the data as a verified copy, with its lineage.

        Raises:
            DataError: ``data-not-tracked``, ``data-revision-unknown``, ``data-modified`` or ``data-not-pulled``.
        """
        with self._open() as file:
            path, lineage = str(file.cache_copy(self._cache)), {"resolved_rev": file.commit, "md5": file.md5}
        return TrackedFile(path=path, source=self._source, repo=self._repo, rev=self._rev, **lineage)

    def save(self, data: None) -> None:  # noqa: ARG002 - Kedro names it
        """Refuse (``data-modified``): tracked data are changed with DVC and git."""
        what = f"{self._source} in {self._repo} cannot be saved by a node."
        why = "Pinned data are read-only; a revision that changed under a run would prove nothing."
        hint = "Write it elsewhere, then `dvc add`, `git commit` and `dvc push` it."
        raise DataError("data-modified", what, why=why, hint=hint)

    @contextmanager
    def _open(self) -> Iterator[Revision]:
        from kedro_hone.datasets.revision import Revision  # noqa: PLC0415 - it imports DVC, which is slow

        with closing(Revision(self._source, self._repo, self._rev, project=self._project, remote=self._remote)) as file:
            if self._rev == HEAD:
                file.check_unmodified()
            yield file

    def _exists(self) -> bool:
        with suppress(DataError), self._open() as file:
            return bool(file.md5)
        return False

    def _describe(self) -> dict[str, Json]:
        return {"path": self._source, "repo": self._repo, "rev": self._rev}


def _read_source(path: str, project: Path) -> str:
    """Restore the path: Kedro's context converts every relative ``path`` to one below the project."""
    given = PurePosixPath(path)
    if given.is_absolute() and given.is_relative_to(project.as_posix()):
        given = given.relative_to(project.as_posix())
    if given.is_absolute() or ".." in given.parts:
        what, why = f"{path} is not relative to its repository.", "`path` leads out of the folder that `repo` names."
        hint = "Name the folder in which `dvc init` was run as `repo`, and give `path` from there."
        raise DataError("data-not-tracked", what, why=why, hint=hint)
    return given.as_posix()
