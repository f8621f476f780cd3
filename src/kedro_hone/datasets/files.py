"""A catalog entry for data that nothing versions, pinned by the digest of their content."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import get_protocol
from kedro.io import AbstractDataset

from hone_runtime.text import hide_secrets
from hone_runtime.values.base import Json
from hone_runtime.values.samples import TrackedFile
from kedro_hone.datasets.copies import cache_copy, explain_change, explain_missing
from kedro_hone.datasets.errors import DataError
from kedro_hone.datasets.runs import find_project


class FileDataset(AbstractDataset[None, TrackedFile]):
    """A file or folder, here or at a URL of fsspec, as a verified read-only copy.

    ```yaml
    gate: {type: kedro_hone.datasets.FileDataset, path: data/gate.csv}
    ```

    Nothing versions it: the digest of the content that was read is all that pins it. Each load reads it again, and
    content that differs from that of an earlier load of the same run is refused.

    Args:
        path: The file or folder, absolute or relative to the project's root, or a URL such as ``s3://bucket/gate.csv``.
        sha256: The digest that the content must have, with or without ``sha256:``; any content if empty.
        cache: The folder of the copies, absolute or relative to the project's root.
        credentials: Secret options of the URL's fsspec file system, such as ``{key: …, secret: …}``.
        fs_args: Its other options, such as ``endpoint_url``.
        metadata: Not used here; for other plug-ins.
    """

    def __init__(
        self,
        *,
        path: str,
        sha256: str = "",
        cache: str = "data/hone/files",
        credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        local = get_protocol(path) in {"file", "local"}
        plain = path.partition("://")[2] if "://" in path else path
        self._project = find_project(plain if local else cache)
        self._path = str(self._project / plain) if local else path
        self._cache = self._project / cache
        self._options = {**(fs_args or {}), **(credentials or {})}
        self._asked = f"sha256:{sha256.removeprefix('sha256:')}" if sha256 else ""
        self._seen = ""
        self.metadata = metadata

    @property
    def source(self) -> str:
        """The path as evidence names it: relative to the project where it is inside, and without secrets."""
        path = Path(self._path)
        if path.is_absolute() and path.is_relative_to(self._project):
            return path.relative_to(self._project).as_posix()
        return hide_secrets(self._path)

    def load(self) -> TrackedFile:
        """Return the data as a verified copy.

        Raises:
            DataError: ``data-missing``, or ``data-modified``: its content is not the pinned one, or changed since it
                was first loaded by this run.
        """
        path, digest = cache_copy(*self._open(), name=self.source, cache=self._cache)
        if self._asked and digest != self._asked:
            raise explain_change(self.source, why=f"The catalog pins {self._asked}, and it has {digest}.")
        if self._seen and digest != self._seen:
            raise explain_change(self.source, why=f"This run first read {self._seen}, and now it has {digest}.")
        self._seen = digest
        return TrackedFile(path=str(path), source=self.source, sha256=digest)

    def save(self, data: None) -> None:  # noqa: ARG002 - Kedro names it
        """Refuse (``data-modified``): the entry only reads."""
        what, why = f"{self.source} cannot be saved by a node.", "The entry FileDataset only reads."
        hint = "Save it by an ordinary dataset, such as pandas.CSVDataset: kedro-hone reads its file."
        raise DataError("data-modified", what, why=why, hint=hint)

    def _open(self) -> tuple[AbstractFileSystem, str]:
        """Return the file system and the path in it."""
        if get_protocol(self._path) in {"file", "local"}:
            return LocalFileSystem(), self._path
        try:
            files, path = url_to_fs(self._path, **self._options)
        except Exception as error:  # clients of file systems have exceptions of their own
            raise explain_missing(self.source, error) from error
        return files, str(path)

    def _exists(self) -> bool:
        with suppress(DataError):
            files, path = self._open()
            return bool(files.exists(path))
        return False

    def _describe(self) -> dict[str, Json]:
        return {"path": self.source}
