"""The folder of a run: its steps, their logs, its reports, and the log of what it did."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from contextlib import suppress
from pathlib import Path

from pydantic import Field

from kedro_hone.core.store.clock import Clock
from kedro_hone.core.store.disk import append_line
from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.outcome import Failed


class RunFolder(Value):
    """The folder of one run, and the project that it is a run of: absolute paths of this machine, never kept."""

    root: Path = Field(description="The folder of all runs, `data/hone/runs` of the project.")
    run_id: str = Field(description="The run's name, the same in every process of the run.")
    project: Path = Field(description="The project's root, from which the recipe's paths count.")

    @property
    def folder(self) -> Path:
        """The run's own folder, ``runs/<id>``."""
        return self.root / self.run_id

    @property
    def clock(self) -> Clock:
        """What counts the seconds of its search."""
        return Clock(self.folder / "search")

    def is_stopped(self) -> bool:
        """Return whether somebody asked for the end of its search."""
        return self.clock.stopped

    def relate(self, path: Path | str) -> str:
        """Return a path in the project as it counts from there; another path, or a URI, as it is."""
        inside = Path(path).is_relative_to(self.project)
        return Path(path).relative_to(self.project).as_posix() if inside else str(path)

    def name_log(self, failed: Failed) -> Failed:
        """Return a failure whose log is named from the folder of all runs; a log of elsewhere is copied to this run."""
        log = Path(failed.log or "")
        if not log.is_file() or log.is_symlink():
            return failed.model_copy(update={"log": None})
        if not log.is_relative_to(self.root):
            log = Path(shutil.copyfile(log, self.claim_step(failed.by, kind="environments") / "log"))
        return failed.model_copy(update={"log": log.relative_to(self.root).as_posix()})

    def claim_step(self, name: str, kind: str = "steps") -> Path:
        """Make the folder of the next step, ``steps/<n>-<name>``: the caller's alone, whatever other processes claim.

        The kind is ``steps``, ``launches`` for workers in which something is measured, or ``environments``.
        """
        steps = self.folder / kind
        claims = steps / ".claims"
        claims.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(sum(1 for _ in claims.iterdir()) + 1):
            with suppress(FileExistsError):
                (claims / str(number)).touch(exist_ok=False)
                break
        folder = steps / f"{number:03d}-{name}"
        folder.mkdir()
        return folder

    def read_notes(self, event: str) -> list[dict[str, Json]]:
        """Return the details of what was noted of an event so far, in order; what is no whole line is left out."""
        try:
            lines = (self.folder / "events.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        except FileNotFoundError:
            return []
        likely = (line for line in lines if f'"{event}"' in line)  # a search asks at each of its turns
        return [details for details in map(_parse, likely) if details.get("event") == event]

    def note(self, event: str, **details: Json) -> None:
        """Append a line to the run's log of events (``build``, ``launch`` …) in one write: processes do not mix."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"at": time.time(), "event": event, **details}, default=str)
        append_line(self.folder / "events.jsonl", line)


def _parse(line: str) -> dict[str, Json]:
    """Return what a line holds; nothing where a kill or a full disk cut it short."""
    try:
        details = json.loads(line)
    except ValueError:
        return {}
    return details if isinstance(details, dict) else {}
