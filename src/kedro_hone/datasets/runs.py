"""Datasets that the nodes of a run share, in any process: values in JSON files, the store, the run's folder."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from fsspec.core import strip_protocol
from fsspec.utils import get_protocol
from kedro.framework import project
from kedro.io import AbstractDataset, AbstractVersionedDataset, DatasetError, Version
from kedro.utils import find_kedro_project
from pydantic import ImportString, TypeAdapter, ValidationError

from hone_runtime.text import hide_secrets
from hone_runtime.values.base import Json
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.disk import write_file
from kedro_hone.core.store.remote import Remote
from kedro_hone.core.store.runs import RunFolder


class ValueDataset(AbstractDataset[Any, Any]):
    """A pydantic value in a JSON file, validated when saved and when loaded.

    ```yaml
    "{route}.artifact":
      type: kedro_hone.datasets.ValueDataset
      filepath: data/hone/work/{route}.json
      model: hone_runtime.values.outcome:OUTCOME
    ```

    Args:
        filepath: The JSON file.
        model: ``package.module:NAME`` of a type (such as a pydantic model) or of a ``TypeAdapter``, imported when used.
        metadata: Not used here; for other plug-ins.
    """

    def __init__(self, *, filepath: str, model: str, metadata: dict[str, Any] | None = None) -> None:
        self._path, self._model = Path(filepath), model
        self.metadata = metadata

    def load(self) -> Any:
        """Return the value; ``DatasetError`` if the file is missing, or does not contain a value of the model."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise DatasetError(f"{self._path} does not exist: the node that makes it has not run yet.") from error
        try:
            return self._find_adapter().validate_python(json.loads(text))
        except (ValidationError, json.JSONDecodeError) as error:
            raise DatasetError(f"{self._path} does not contain a {self._model}: {error}") from error

    def save(self, data: Any) -> None:
        """Write the value atomically; ``DatasetError`` if it is not a value of the model."""
        adapter = self._find_adapter()
        try:
            value = adapter.dump_python(adapter.validate_python(data), mode="json")
        except ValidationError as error:
            raise DatasetError(f"what is to be saved in {self._path} is not a {self._model}: {error}") from error
        # Not pydantic's own JSON: it writes NaN and the infinities as null, which cannot be read back.
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self._path, text.encode())

    def read_time(self) -> int:
        """Return when the value was saved, in nanoseconds since 1970."""
        return self._path.stat().st_mtime_ns

    def _find_adapter(self) -> TypeAdapter[Any]:
        try:
            return _read_adapter(self._model)
        except ValidationError as error:
            raise DatasetError(f"model {self._model!r} of {self._path} cannot be imported: {error}") from error

    def _exists(self) -> bool:
        return self._path.is_file()

    def _describe(self) -> dict[str, Json]:
        return {"filepath": str(self._path), "model": self._model}


@cache
def _read_adapter(model: str) -> TypeAdapter[Any]:
    """Return the adapter of a type by its path (cached: making one takes longer than reading most values)."""
    found = TypeAdapter(ImportString).validate_python(model)
    return found if isinstance(found, TypeAdapter) else TypeAdapter(found)


class _MadeByCode:
    """A dataset that exists without being saved: the code that writes into it makes its content."""

    def save(self, data: None) -> None:  # noqa: ARG002 - Kedro names it
        """Refuse."""
        raise DatasetError(f"{self} is not saved: the code that writes into it makes it")

    def _exists(self) -> bool:
        return True


class StoreDataset(_MadeByCode, AbstractDataset[None, Store]):
    """Returns the artifact store: in a local folder, or shared between machines at a URL of fsspec.

    ```yaml
    store: {type: kedro_hone.datasets.StoreDataset, filepath: s3://bucket/hone, credentials: store}
    ```

    Args:
        filepath: A folder, or a URL such as ``s3://bucket/folder``.
        cache: This machine's cache folder for a shared store; relative to the project's root.
        credentials: Secret options of the URL's fsspec file system, such as ``{key: …, secret: …}``.
        fs_args: Its other options, such as ``endpoint_url``.
        metadata: Not used here; for other plug-ins.
    """

    def __init__(
        self,
        *,
        filepath: str,
        cache: str = "data/hone/store",
        credentials: dict[str, Any] | None = None,
        fs_args: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        shared = get_protocol(filepath) not in {"file", "local"}
        self._url = filepath if shared else None
        self._path = find_project(cache) / cache if shared else Path(strip_protocol(filepath))
        self._options = {**(fs_args or {}), **(credentials or {})}
        self.metadata = metadata

    def load(self) -> Store:
        """Open the store; its local folder is made if it does not exist."""
        return Store(self._path, remote=None if self._url is None else Remote(self._url, self._options))

    def _describe(self) -> dict[str, Any]:
        return {"filepath": hide_secrets(self._url or str(self._path))}


class RunDataset(_MadeByCode, AbstractVersionedDataset[None, RunFolder]):
    """Returns the folder of the run.

    The run's id is Kedro's version of all datasets saved in one run, so it is the same with every runner.

    ```yaml
    run: {type: kedro_hone.datasets.RunDataset, filepath: data/hone/runs, versioned: true}
    ```
    """

    def __init__(
        self, *, filepath: str, version: Version | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        super().__init__(filepath=PurePosixPath(Path(filepath).absolute()), version=version)
        self._project = find_project(filepath)
        self.metadata = metadata

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "package": project.PACKAGE_NAME}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle in another process, and configure Kedro there with the project's settings.

        ParallelRunner is meant to do so, but the name of the project's package is missing in a spawned process (Kedro
        1.7): the adaptors registered in the project's settings, and its hooks, would be missing.
        """
        package = state.pop("package")
        self.__dict__.update(state)
        if package is not None and f"{package}.settings" not in sys.modules:
            project.settings.configure(f"{package}.settings")

    def load(self) -> RunFolder:
        """Return the folder of this run; nothing is made yet."""
        version: Version | None = self._version
        if version is None or version.save is None:
            raise DatasetError("the run needs `versioned: true`: its id is the version that Kedro saves under")
        return RunFolder(root=Path(self._filepath), run_id=str(version.save), project=self._project)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath)}


def find_project(path: str) -> Path:
    """Return the project of a path in the catalog, which Kedro makes absolute; otherwise that of the current folder.

    Only the process that makes the catalog must be in the project: the result is passed on to the nodes.
    """
    return Path(find_kedro_project(Path(path).absolute()) or find_kedro_project(Path.cwd()) or Path.cwd())
