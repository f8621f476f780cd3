"""The folder of a run: its steps, their logs, its reports, its search time, and the log of its events."""

from __future__ import annotations

import itertools
import json
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pydantic import Field

from hone_runtime.values.base import Json, Value
from hone_runtime.values.outcome import Failed
from kedro_hone.core.store.disk import append_line, write_file

_MOMENTS: Final = "moments"
"""The file of a search's timestamps, in seconds since 1970: one line each, with a name."""
_BEGAN: Final = "began"
_LONGEST_PAUSE: Final = 3600.0
"""In seconds: a pause without an end may be that of a process that was killed on another machine."""


class RunFolder(Value):
    """The folder of one run, and its project: absolute paths on this machine, never stored."""

    root: Path = Field(description="The folder of all runs, `data/hone/runs` of the project.")
    run_id: str = Field(description="The run's name, the same in every process of the run.")
    project: Path = Field(description="The project's root, from which the recipe's paths count.")

    @property
    def folder(self) -> Path:
        """The run's own folder, ``runs/<id>``."""
        return self.root / self.run_id

    @property
    def search(self) -> Path:
        """The folder of the search's state, shared by all processes of the run."""
        return self.folder / "search"

    @property
    def search_began(self) -> bool:
        """Whether its search began."""
        return _BEGAN in self._read_moments()

    def begin_search(self) -> None:
        """Count the seconds of the search from now on, unless it began already."""
        if not self.search_began:
            self._note_moment(_BEGAN)

    @contextmanager
    def pause_search(self) -> Iterator[None]:
        """Exclude the time of a block from the search's seconds, such as the installation of an environment.

        Overlapping pauses count once, and an ongoing pause also counts in other threads, processes and machines.
        """
        if not self.search_began:
            yield
            return
        name = uuid.uuid4().hex
        self._note_moment(name)
        try:
            yield
        finally:
            self._note_moment(name)

    def read_seconds(self) -> float:
        """Return for how many seconds it searches, without the pauses; 0 before the search begins."""
        moments, now = self._read_moments(), time.time()
        if _BEGAN not in moments:
            return 0.0
        end, seconds = moments.pop(_BEGAN)[0], 0.0
        for first, *last in sorted(moments.values()):
            seconds += max(0.0, first - end)
            end = max(end, *last, 0.0 if last else min(now, first + _LONGEST_PAUSE))
        return seconds + max(0.0, now - end)

    def end_search(self, reason: str) -> None:
        """Start nothing new in the search, for a reason; builds and validations in progress continue."""
        self.search.mkdir(parents=True, exist_ok=True)
        write_file(self.search / "ended", reason.encode())

    def read_end(self) -> str:
        """Return why nothing new in the search is started, or an empty string."""
        with suppress(FileNotFoundError):
            return (self.search / "ended").read_text(encoding="utf-8")
        return ""

    def stop(self) -> None:
        """End the search in every process, including builds and validations in progress."""
        self.search.mkdir(parents=True, exist_ok=True)
        (self.search / "stopped").touch()

    def is_stopped(self) -> bool:
        """Return whether a person requested the end of its search."""
        return (self.search / "stopped").exists()

    def _note_moment(self, name: str) -> None:
        self.search.mkdir(parents=True, exist_ok=True)
        append_line(self.search / _MOMENTS, f"{name} {time.time()!r}")

    def _read_moments(self) -> dict[str, list[float]]:
        """Return the timestamps by their names; lines that a full disk truncated are left out."""
        moments: dict[str, list[float]] = {}
        with suppress(FileNotFoundError):
            for line in (self.search / _MOMENTS).read_text(encoding="utf-8").split("\n")[:-1]:
                name, _, moment = line.partition(" ")
                with suppress(ValueError):
                    moments.setdefault(name, []).append(float(moment))
        return {name: found for name, found in moments.items() if found}

    def relate(self, path: Path | str) -> str:
        """Return a path in the project relative to it; any other path, or a URI, unchanged."""
        inside = Path(path).is_relative_to(self.project)
        return Path(path).relative_to(self.project).as_posix() if inside else str(path)

    def relocate_log(self, failed: Failed) -> Failed:
        """Return a failure, its log's path relative to the folder of all runs; other logs are copied to this run."""
        log = Path(failed.log or "")
        if not log.is_file() or log.is_symlink():
            return failed.model_copy(update={"log": None})
        if not log.is_relative_to(self.root):
            log = Path(shutil.copyfile(log, self.claim_step(failed.by, kind="environments") / "log"))
        return failed.model_copy(update={"log": log.relative_to(self.root).as_posix()})

    def claim_step(self, name: str, kind: str = "steps") -> Path:
        """Make the folder of the next step, ``steps/<n>-<name>``: unique, also if other processes make theirs.

        The kind is ``steps``, ``launches`` for workers that are measured, or ``environments``.
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

    def note(self, event: str, **details: Json) -> None:
        """Append a line to the run's log of events (``build``, ``launch`` …) in one write: processes do not mix."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"at": time.time(), "event": event, **details}, default=str)
        append_line(self.folder / "events.jsonl", line)
