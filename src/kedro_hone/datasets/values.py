"""Values between nodes, each in a JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kedro.io import AbstractDataset, DatasetError
from pydantic import ImportString, TypeAdapter, ValidationError

from kedro_hone.core.store.disk import write_file
from kedro_hone.core.values.base import Json


class ValueDataset(AbstractDataset[Any, Any]):
    """A pydantic value in a JSON file, checked on the way in and on the way out.

    ```yaml
    "{route}.artifact":
      type: kedro_hone.datasets.ValueDataset
      filepath: data/hone/work/{route}.json
      model: kedro_hone.core.values.outcome:OUTCOME
    ```

    Args:
        filepath: The JSON file.
        model: ``package.module:NAME`` of a type (such as a pydantic model) or of a ``TypeAdapter``, imported when used.
        metadata: Free for other plug-ins; unused.
    """

    def __init__(self, *, filepath: str, model: str, metadata: dict[str, Any] | None = None) -> None:
        self._path, self._model = Path(filepath), model
        self.metadata = metadata

    def load(self) -> Any:
        """Return the value; ``DatasetError`` where the file is missing, or does not hold a value of the model."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise DatasetError(f"{self._path} does not exist: the node that makes it has not run yet.") from error
        try:
            return self._find_adapter().validate_python(json.loads(text))
        except (ValidationError, json.JSONDecodeError) as error:
            raise DatasetError(f"{self._path} does not hold a {self._model}: {error}") from error

    def save(self, data: Any) -> None:
        """Write the value in one go; ``DatasetError`` where it is none of the model."""
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
            found = TypeAdapter(ImportString).validate_python(self._model)
        except ValidationError as error:
            raise DatasetError(f"model {self._model!r} of {self._path} cannot be imported: {error}") from error
        return found if isinstance(found, TypeAdapter) else TypeAdapter(found)

    def _exists(self) -> bool:
        return self._path.is_file()

    def _describe(self) -> dict[str, Json]:
        return {"filepath": str(self._path), "model": self._model}
