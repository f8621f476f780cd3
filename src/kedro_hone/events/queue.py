"""A durable queue of runs in a SQLite file: what was accepted once is started once, whatever is killed in between.

The journal is a write-ahead log that is synced at each commit (https://sqlite.org/wal.html): when a call returns, what
it wrote outlives the process and the machine's power.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.base import Json, Value
from kedro_hone.core.values.digest import digest_json

_SCHEMA = """
CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (registry TEXT PRIMARY KEY, cursor TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    uri TEXT NOT NULL,
    rule TEXT NOT NULL,
    told TEXT NOT NULL,
    device TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL DEFAULT 0,
    created REAL NOT NULL,
    changed REAL NOT NULL,
    exit_code INTEGER,
    verdict TEXT NOT NULL DEFAULT '',
    published TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS waiting ON jobs (state, device, not_before);
"""
_COLUMNS = (
    "id, uri, rule, told, device, state, attempts, not_before, created, changed, exit_code, verdict, published, reason"
)

_CLAIM = f"""
UPDATE jobs SET state = 'running', attempts = attempts + 1, changed = ? WHERE id = (
    SELECT id FROM jobs WHERE state = 'queued' AND device = ? AND not_before <= ? ORDER BY id LIMIT 1
) RETURNING {_COLUMNS}
"""  # noqa: S608 - the names of columns


class State(StrEnum):
    """How far a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Request(Value):
    """A run that is wanted.

    Attributes:
        uri: The version, pinned.
        rule: The rule's name, or who asked.
        told: What the run is told: ``recipe``, ``env``.
        device: What it measures on.
        key: The same for requests of which one run is enough.
    """

    uri: str
    rule: str
    told: dict[str, Json]
    device: str = "cpu"
    key: str

    @classmethod
    def make(cls, *, uri: str, rule: str, told: dict[str, Json], device: str, hardware: str) -> Request:
        """Return a request; one run is enough for a version, what the run is told, and the hardware."""
        return cls(uri=uri, rule=rule, told=told, device=device, key=digest_json([uri, told, device, hardware]))


class Job(Value):
    """A request in the queue, and what became of it.

    Attributes:
        not_before: Seconds since 1970 before which it is not started; 0 for at once.
        created: Seconds since 1970; ``changed`` is when the state changed last.
        exit_code: That of ``kedro run``; None until it ended.
        published: The URI of the new version; empty where there is none.
        reason: Why it failed, or was cancelled.
    """

    id: int
    uri: str
    rule: str
    told: dict[str, Json]
    device: str
    state: State
    attempts: int
    not_before: float
    created: float
    changed: float
    exit_code: int | None = None
    verdict: str = ""
    published: str = ""
    reason: str = ""


class Queue:
    """The queue in one file; each call opens it, so that threads and processes may share it.

    Args:
        path: The file; its folder is made.
        now: The clock, in seconds since 1970.

    Raises:
        HoneError: ``queue-broken``: the file cannot be opened, or is none of ours.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = path, now
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)

    def accept(self, requests: Iterable[Request], *, delivery: str = "") -> int:
        """Put requests into the queue in one transaction, and return how many are new.

        A delivery that was accepted before adds nothing; nor does a request whose key is known.
        """
        with self._write() as connection:
            if (
                delivery
                and not connection.execute(
                    "INSERT OR IGNORE INTO deliveries VALUES (?, ?)", (delivery, self._now())
                ).rowcount
            ):
                return 0
            return sum(self._insert(connection, one) for one in requests)

    def claim(self, device: str) -> Job | None:
        """Return the oldest job of a device that may start, which is running from now on; None where there is none.

        While one of a device is running there is none.
        """
        with self._write() as connection:
            busy = connection.execute("SELECT 1 FROM jobs WHERE state = 'running' AND device = ?", (device,)).fetchone()
            if busy:
                return None
            row = connection.execute(_CLAIM, (self._now(), device, self._now())).fetchone()
            return _read_job(row) if row else None

    def finish(
        self,
        number: int,
        state: State,
        *,
        exit_code: int | None = None,
        verdict: str = "",
        published: str = "",
        reason: str = "",
    ) -> None:
        """Say what became of a running job; one that was cancelled meanwhile stays so."""
        with self._write() as connection:
            connection.execute(
                "UPDATE jobs SET state = ?, exit_code = ?, verdict = ?, published = ?, reason = ?, changed = ? "
                "WHERE id = ? AND state = 'running'",
                (state, exit_code, verdict, published, reason, self._now(), number),
            )

    def put_back(self, number: int, *, seconds: float, reason: str) -> None:
        """Queue a running job again, to be started after some seconds."""
        with self._write() as connection:
            connection.execute(
                "UPDATE jobs SET state = 'queued', not_before = ?, reason = ?, changed = ? "
                "WHERE id = ? AND state = 'running'",
                (self._now() + seconds, reason, self._now(), number),
            )

    def recover(self) -> int:
        """Queue again what was running when the service ended, and return how many there were."""
        with self._write() as connection:
            return connection.execute(
                "UPDATE jobs SET state = 'queued', not_before = 0, changed = ?, reason = 'the service ended' "
                "WHERE state = 'running'",
                (self._now(),),
            ).rowcount

    def cancel(self, number: int, *, reason: str) -> bool:
        """Cancel a job that is queued or running; return whether it was."""
        with self._write() as connection:
            return bool(
                connection.execute(
                    "UPDATE jobs SET state = 'cancelled', reason = ?, changed = ? "
                    "WHERE id = ? AND state IN ('queued', 'running')",
                    (reason, self._now(), number),
                ).rowcount
            )

    def find(self, number: int) -> Job | None:
        """Return a job; None where there is none of that number."""
        with self._open() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (number,)).fetchone()  # noqa: S608
            return _read_job(row) if row else None

    def list_jobs(self, *, limit: int = 100) -> tuple[Job, ...]:
        """Return the newest jobs, newest first."""
        with self._open() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM jobs ORDER BY id DESC LIMIT ?", (limit,))  # noqa: S608
            return tuple(map(_read_job, rows))

    def count_states(self) -> dict[State, int]:
        """Return how many jobs there are in each state."""
        with self._open() as connection:
            found = dict(connection.execute("SELECT state, COUNT(*) FROM jobs GROUP BY state"))
            return {state: found.get(state, 0) for state in State}

    def read_cursor(self, registry: str) -> str | None:
        """Return how far a registry was swept; None before the first time."""
        with self._open() as connection:
            row = connection.execute("SELECT cursor FROM cursors WHERE registry = ?", (registry,)).fetchone()
            return row[0] if row else None

    def accept_swept(self, registry: str, cursor: str, requests: Iterable[Request]) -> int:
        """Put what a sweep found into the queue, and move its cursor, in one transaction; return how many are new."""
        with self._write() as connection:
            new = sum(self._insert(connection, one) for one in requests)
            connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (registry, cursor))
            return new

    def _insert(self, connection: sqlite3.Connection, one: Request) -> int:
        return connection.execute(
            "INSERT OR IGNORE INTO jobs (key, uri, rule, told, device, state, created, changed) "
            "VALUES (?, ?, ?, ?, ?, 'queued', ?, ?)",
            (one.key, one.uri, one.rule, json.dumps(one.told), one.device, self._now(), self._now()),
        ).rowcount

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self._path, timeout=30.0, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise HoneError(
                "queue-broken",
                "The queue of runs cannot be read or written.",
                why=f"{self._path.name}: {error}.",
                hint="Make space on its disk, or let its user write there. Where it is corrupt, move it away: the "
                "sweep finds again what it held.",
            ) from error

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite ends one by itself where the disk is full
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def _read_job(row: tuple[object, ...]) -> Job:
    named = dict(zip(_COLUMNS.split(", "), row, strict=True))
    return Job.model_validate({**named, "told": json.loads(str(named["told"]))})
