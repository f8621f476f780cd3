"""Where a run works: its own folder, the artifact store, and the log of what it did."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.values.base import Json, Value


class Workplace(Value):
    """The folders of one run.

    Attributes:
        root: ``data/hone`` of the project.
        run_id: The run's name, the same in every process of the run.
    """

    root: str
    run_id: str

    @property
    def folder(self) -> Path:
        """The run's own folder, ``runs/<id>``."""
        return Path(self.root) / "runs" / self.run_id

    @property
    def store(self) -> Store:
        """The artifact store, shared by all runs of the project."""
        return Store(Path(self.root) / "store")

    def claim_step(self, name: str, kind: str = "steps") -> Path:
        """Make and return the folder of the next step, ``steps/<n>-<name>``.

        Args:
            name: The adaptor's name, or what is done.
            kind: ``steps``, or ``launches`` for workers in which something is measured.

        Returns:
            An empty directory that belongs to the caller, also when other processes claim theirs.
        """
        steps = self.folder / kind
        claims = steps / ".claims"
        claims.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in claims.iterdir()) + 1
        while not _create_exclusively(claims / str(number)):
            number += 1
        folder = steps / f"{number:03d}-{name}"
        folder.mkdir()
        return folder

    def note(self, event: str, **details: Json) -> None:
        """Append one line to the run's log of events; one line is one write, so that processes do not mix.

        Args:
            event: What happened: ``build``, ``validation``, ``launch``, ``round`` …
            **details: JSON values.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"at": time.time(), "event": event, **details}, default=str) + "\n"
        handle = os.open(self.folder / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def _create_exclusively(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
