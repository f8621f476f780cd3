"""A durable queue of runs in a SQLite file: an accepted request is run, whatever process is killed in between.

The journal is a write-ahead log that is synced at each commit (https://sqlite.org/wal.html): when a call returns, its
changes survive the end of the process and a loss of power.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hone_runtime.errors import HoneError
from kedro_hone.events import schema
from kedro_hone.events.job import Job, JobRequest, State
from kedro_hone.events.schema import COLUMNS, ENDED, read_job

_KEPT_SECONDS: Final = 30 * 86400.0
"""How long deliveries are stored: no sender retries for so long."""
_DAY: Final = 86400.0
_LONGEST: Final = 7200.0
"""In seconds: every pause is shorter, so if a job waits longer, a wrong clock put it back."""


class Queue:
    """The queue in one file, on one connection that threads use in turn; processes may share the file.

    Args:
        path: The file, also an attribute; its folder is made.
        now: The clock, in seconds since 1970.

    Raises:
        HoneError: ``queue-broken``: the file cannot be opened, or is not a queue.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self.path, self._now = path, now
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # the device and the inode of the connection's file
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._open():
            pass

    def accept(self, requests: Iterable[JobRequest], *, delivery: str = "") -> int:
        """Put requests into the queue in one transaction, and return how many are new.

        A delivery that was accepted before adds nothing. Nor does a request with a known key, unless its job failed,
        was skipped or was undecided: then a later delivery queues it again.
        """
        sql = "INSERT OR IGNORE INTO deliveries VALUES (?, ?)"
        with self._write() as connection:
            if delivery and not connection.execute(sql, (delivery, self._now())).rowcount:
                return 0
            condition = schema.AFTER_EVENT if delivery else schema.NEVER
            return sum(self._insert(connection, one, condition) for one in requests)

    def accept_swept(self, registry: str, cursor: str, requests: Iterable[JobRequest]) -> int:
        """Put a sweep's requests into the queue, and move its cursor, in one transaction; return how many are new."""
        with self._write() as connection:
            new = sum(
                self._insert(connection, one, schema.OTHER_CONTENT if one.after else schema.NEVER) for one in requests
            )
            connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (registry, cursor))
            return new

    def accept_daily(self, requests: Sequence[JobRequest], *, rule: str, limit: int, dry_run: bool) -> list[JobRequest]:
        """Queue requests of a rule up to its limit per day, and return them: new ones, then those requested long ago.

        A request with a known key is queued again if its job failed or was undecided, a day after it was requested.

        Args:
            requests: The requests in order.
            rule: The rule; its jobs of the last 24 hours count.
            limit: The largest number of jobs in 24 hours.
            dry_run: Only return them, and queue nothing.
        """
        count = "SELECT COUNT(*) FROM jobs WHERE rule = ? AND created BETWEEN ? AND ?"
        with self._write() as connection:
            connection.execute("SAVEPOINT trial")
            now = self._now()
            chosen: list[JobRequest] = []
            left = limit - int(connection.execute(count, (rule, now - _DAY, now)).fetchone()[0])
            asked = dict(connection.execute("SELECT key, created FROM jobs WHERE rule = ?", (rule,)))
            for one in sorted(requests, key=lambda one: asked.get(one.key, 0.0)):
                if len(chosen) < left and self._insert(connection, one, schema.AFTER_DAY):
                    chosen.append(one)
            if dry_run:
                connection.execute("ROLLBACK TO trial")
            return chosen

    def claim(self, device: str, *, at_most: int = 1, rule: str | None = None) -> Job | None:
        """Return the oldest job of a device that may start, and set it to running; None if there is none.

        While ``at_most`` of a device are running there is none; with a ``rule``, only its jobs count.
        """
        with self._write() as connection:
            now, running = self._now(), "SELECT COUNT(*) FROM jobs WHERE state = 'running' AND device = ?"
            if connection.execute(running, (device,)).fetchone()[0] >= at_most:
                return None
            while row := connection.execute(schema.CLAIM, (now, device, rule, now, now + _LONGEST)).fetchone():
                if job := read_job(row):
                    return job
                # It would be first again each time, and no job after it would ever start.
                connection.execute(schema.FAIL_UNREADABLE, (now, row[0]))
            return None

    def note_process(self, number: int, process: str) -> None:
        """Store the process of a job: the next service ends it if this one dies."""
        with self._write() as connection:
            connection.execute("UPDATE jobs SET process = ? WHERE id = ?", (process, number))

    def finish(
        self,
        job: Job,
        state: State,
        *,
        exit_code: int | None = None,
        verdict: str = "",
        published: str = "",
        reason: str = "",
    ) -> bool:
        """Store the outcome of a job as it was claimed; return whether that claim still runs.

        A job cancelled meanwhile stays cancelled, and a restarted job is another claim.
        """
        values = {"state": state, "exit_code": exit_code, "verdict": verdict, "published": published, "reason": reason}
        with self._write() as connection:
            if _update(connection, job, values | {"changed": self._now()}):
                return True
            if published:  # it was cancelled too late
                sql = "UPDATE jobs SET published = ?, verdict = ? WHERE id = ? AND state = 'cancelled'"
                connection.execute(sql, (published, verdict, job.id))
            return False

    def put_back(self, job: Job, *, seconds: float, reason: str, spent: bool = True) -> bool:
        """Queue a job again as it was claimed, to be started after some seconds; return whether that claim still runs.

        Args:
            job: The job.
            seconds: The pause.
            reason: Why it waits.
            spent: Whether the attempt counts.
        """
        now, attempts = self._now(), job.attempts - (not spent)
        values = {"state": State.QUEUED, "not_before": now + seconds, "attempts": attempts, "reason": reason}
        with self._write() as connection:
            return _update(connection, job, values | {"changed": now})

    def start_again(self, number: int) -> bool:
        """Queue an ended job once more, with all its attempts; return whether it had ended."""
        sql = f"UPDATE jobs SET {schema.QUEUE_AGAIN} WHERE id = :id AND {ENDED}"  # noqa: S608 - constants
        with self._write() as connection:
            return bool(connection.execute(sql, {"id": number, "now": self._now()}).rowcount)

    def cancel(self, number: int, *, reason: str) -> bool:
        """Cancel a job that is queued or running; return whether it was."""
        sql = f"UPDATE jobs SET state = 'cancelled', reason = ?, changed = ? WHERE id = ? AND NOT {ENDED}"  # noqa: S608
        with self._write() as connection:
            return bool(connection.execute(sql, (reason, self._now(), number)).rowcount)

    def fail_unreadable(self, number: int) -> None:
        """Mark a job as failed if its row cannot be read: its outcome could never be written."""
        with self._write() as connection:
            connection.execute(schema.FAIL_UNREADABLE, (self._now(), number))

    def forget_old(self) -> None:
        """Remove deliveries that are so old that no sender sends them again."""
        with self._write() as connection:
            connection.execute("DELETE FROM deliveries WHERE at < ?", (self._now() - _KEPT_SECONDS,))

    def find(self, number: int) -> Job | None:
        """Return the job of a number; None if there is none."""
        return next(iter(self._list_jobs("WHERE id = ?", number)), None)

    def find_key(self, key: str) -> Job | None:
        """Return the job of a request; None if it was not accepted, or its row cannot be read."""
        return next(iter(self._list_jobs("WHERE key = ?", key)), None)

    def list_jobs(self, *, limit: int = 100, judged: bool = False, model: str = "") -> tuple[Job, ...]:
        """Return the running jobs and the newest others, newest first; or only those with a verdict, or of a model."""
        where = f"WHERE {schema.OF_MODEL} AND (verdict != '' OR NOT ?)"
        values = (*(model,) * schema.OF_MODEL.count("?"), judged, limit)
        return self._list_jobs(f"{where} ORDER BY state = 'running' DESC, id DESC LIMIT ?", *values)

    def list_left(self) -> list[tuple[int, str, Job | None]]:
        """Return jobs with processes that may run: number, process, and the job itself, or None if it cannot be read.

        They are running, or were cancelled after they had started.
        """
        where = "state = 'running' OR (state = 'cancelled' AND process != '')"
        rows = self._read(f"SELECT {COLUMNS} FROM jobs WHERE {where}")  # noqa: S608 - constants
        return [(row[0], row[-1], read_job(row)) for row in rows]

    def list_waiting(self) -> frozenset[str]:
        """Return the devices of queued jobs."""
        return frozenset(one for (one,) in self._read("SELECT DISTINCT device FROM jobs WHERE state = 'queued'"))

    def list_ended(self, before: float) -> tuple[int, ...]:
        """Return the numbers of the jobs that ended before some second since 1970."""
        sql = f"SELECT id FROM jobs WHERE changed < ? AND {ENDED} ORDER BY id"  # noqa: S608 - constants
        return tuple(number for (number,) in self._read(sql, before))

    def count_states(self) -> dict[State, int]:
        """Return how many jobs there are in each state."""
        found = dict(self._read("SELECT state, COUNT(*) FROM jobs GROUP BY state"))
        return {state: found.get(state, 0) for state in State}

    def count_verdicts(self) -> dict[str, int]:
        """Return how many jobs there are with each verdict."""
        return dict(self._read("SELECT verdict, COUNT(*) FROM jobs WHERE verdict != '' GROUP BY verdict"))

    def find_longest_wait(self) -> float:
        """Return the seconds since the oldest queued job was requested; 0 if none is queued."""
        oldest = self._read("SELECT MIN(created) FROM jobs WHERE state = 'queued'")[0][0]
        return 0.0 if oldest is None else max(0.0, self._now() - oldest)

    def read_cursor(self, registry: str) -> str | None:
        """Return how far a registry was swept; None before the first time."""
        return next(
            (cursor for (cursor,) in self._read("SELECT cursor FROM cursors WHERE registry = ?", registry)), None
        )

    def note_start(self, registry: str) -> float:
        """Return when the first service that sweeps a registry started, in seconds since 1970; by default now."""
        with self._write() as connection:
            connection.execute("INSERT OR IGNORE INTO starts VALUES (?, ?)", (registry, self._now()))
            return float(connection.execute("SELECT at FROM starts WHERE registry = ?", (registry,)).fetchone()[0])

    def check(self) -> None:
        """Write a test row in the same way as a delivery."""
        with self._write() as connection:
            connection.execute("INSERT OR REPLACE INTO starts VALUES ('', ?)", (self._now(),))

    def close(self) -> None:
        """Close the file, into which SQLite then writes its whole log; the next call opens it again."""
        with self._lock:
            self._close()

    def _list_jobs(self, where: str, *values: object) -> tuple[Job, ...]:
        sql = f"SELECT {COLUMNS} FROM jobs {where}"  # noqa: S608 - constants
        return tuple(filter(None, map(read_job, self._read(sql, *values))))

    def _insert(self, connection: sqlite3.Connection, one: JobRequest, condition: str) -> int:
        values = one.model_dump(include={"key", "uri", "rule", "device", "after"})
        values |= {"task": one.task.model_dump_json(), "now": self._now()}
        return int(connection.execute(schema.INSERT.format(condition=condition), values).fetchone() is not None)

    def _read(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._open() as connection:
            return connection.execute(sql, values).fetchall()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite itself ends one when the disk is full
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection; if the file was removed or replaced, one to the file that is at its path now."""
        with self._lock:
            try:
                if self._connection is None or self._file != schema.identify(self.path):
                    self._close()
                    self._connection = schema.connect(self.path)
                    self._file = schema.identify(self.path)
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                self._close()
                raise HoneError(
                    "queue-broken",
                    "The queue of runs cannot be read or written.",
                    why=f"{self.path.name}: {error}.",
                    hint="Make space on its disk, or let its user write there. If it is corrupt, read the page: "
                    "sqlite3's .recover lists what waits in it.",
                ) from error

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _update(connection: sqlite3.Connection, job: Job, values: dict[str, object]) -> bool:
    """Change a job while its claim is running; return whether it is."""
    columns = ", ".join(f"{name} = ?" for name in values)
    sql = f"UPDATE jobs SET {columns} WHERE id = ? AND state = 'running' AND changed = ?"  # noqa: S608 - names
    return bool(connection.execute(sql, (*values.values(), job.id, job.changed)).rowcount)
