"""The run's own folder, as a dataset: every node of a run gets the same one, in any process."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath
from typing import Any

from kedro.framework import project
from kedro.io import AbstractVersionedDataset, DatasetError, Version

from kedro_hone.core.store.workplace import Workplace


class WorkplaceDataset(AbstractVersionedDataset[None, Workplace]):
    """Returns the folders of the run.

    The run's id is the version that Kedro gives to everything that one run saves, so that it is the same with every
    runner.

    Example:
        ```yaml
        workplace: {type: kedro_hone.datasets.WorkplaceDataset, filepath: data/hone, versioned: true}
        ```
    """

    def __init__(
        self, *, filepath: str, version: Version | None = None, metadata: dict[str, Any] | None = None
    ) -> None:
        super().__init__(filepath=PurePosixPath(filepath), version=version)
        self.metadata = metadata

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "package": project.PACKAGE_NAME}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle in another process, and tell Kedro there which settings are the project's.

        ParallelRunner is meant to do so, but a spawned process does not know the name of the project's package (Kedro
        1.7): the adaptors that the project's settings register, and its hooks, would be missing.
        """
        package = state.pop("package")
        self.__dict__.update(state)
        if package is not None and f"{package}.settings" not in sys.modules:
            project.settings.configure(f"{package}.settings")

    def load(self) -> Workplace:
        """Return the folders of this run."""
        version: Version | None = self._version
        if version is None or version.save is None:
            raise DatasetError(
                "the workplace needs `versioned: true`: the run's id is the version that Kedro saves under"
            )
        return Workplace(root=str(Path(str(self._filepath)).absolute()), run_id=str(version.save))

    def save(self, data: None) -> None:  # noqa: ARG002 - Kedro names it
        """Refuse: the folders are made by the code that writes into them."""
        raise DatasetError("the workplace is not saved")

    def _exists(self) -> bool:
        return True

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath)}
