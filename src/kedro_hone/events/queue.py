"""A durable queue of runs in a SQLite file: what was accepted once is started once, whatever is killed in between.

The journal is a write-ahead log that is synced at each commit (https://sqlite.org/wal.html): when a call returns, what
it wrote outlives the process and the machine's power.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kedro_hone.core.errors import HoneError
from kedro_hone.events import statements
from kedro_hone.events.job import Job, Left, Request, State
from kedro_hone.events.statements import COLUMNS, read_job

_KEPT_SECONDS: Final = 30 * 86400.0
"""How long deliveries are remembered: no sender retries for so long."""
_KEPT_REQUESTS: Final = 90 * 86400.0
"""How long requests are: the pause of a renewal follows from five of them, sixteen days apart."""

_LONGEST: Final = 7200.0
"""Seconds: no pause is as long, so that a job which waits for longer was put back by a clock that was wrong."""


class Queue:
    """The queue in one file; each call opens it, so that threads and processes may share it.

    Args:
        path: The file, an attribute too; its folder is made.
        now: The clock, in seconds since 1970.

    Raises:
        HoneError: ``queue-broken``: the file cannot be opened, or is none of ours.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self.path, self._now = path, now
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection:
            statements.prepare(connection)

    def accept(self, requests: Iterable[Request], *, delivery: str = "") -> int:
        """Put requests into the queue in one transaction, and return how many are new.

        A delivery that was accepted before adds nothing; nor does a request whose key is known, unless its job failed,
        was skipped or could not be decided: then a later delivery queues it again.
        """
        return self.accept_all([(delivery, tuple(requests))])[0]

    def accept_all(self, deliveries: Iterable[tuple[str, tuple[Request, ...]]]) -> list[int]:
        """Put the requests of several deliveries into the queue in one transaction; return how many of each are new."""
        with self._write() as connection:
            return [self._accept(connection, delivery, requests) for delivery, requests in deliveries]

    def _accept(self, connection: sqlite3.Connection, delivery: str, requests: Iterable[Request]) -> int:
        sql = "INSERT OR IGNORE INTO deliveries VALUES (?, ?)"
        if delivery and not connection.execute(sql, (delivery, self._now())).rowcount:
            return 0
        return sum(self._insert(connection, one, again=bool(delivery)) for one in requests)

    def claim(self, device: str, *, at_most: int = 1, rule: str | None = None) -> Job | None:
        """Return the oldest job of a device that may start, which is running from now on; None where there is none.

        While ``at_most`` of a device are running there is none; with a ``rule``, only its jobs count.
        """
        with self._write() as connection:
            now, running = self._now(), "SELECT COUNT(*) FROM jobs WHERE state = 'running' AND device = ?"
            if connection.execute(running, (device,)).fetchone()[0] >= at_most:
                return None
            while row := connection.execute(statements.CLAIM, (now, device, rule, now, now + _LONGEST)).fetchone():
                if job := read_job(row):
                    return job
                # It would come first again each time, and nothing behind it would ever be started.
                connection.execute(statements.FAIL_UNREADABLE, (now, row[0]))
            return None

    def note_process(self, number: int, process: str) -> None:
        """Remember which process runs a job, for who has to end it when the service died."""
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
        """Say what became of a job as it was claimed; return whether it runs still, by that claim.

        One that was cancelled meanwhile stays so, and one that was started again is another claim.
        """
        with self._write() as connection:
            said = (state, exit_code, verdict, published, reason, self._now(), job.id, job.changed)
            if connection.execute(statements.FINISH, said).rowcount:
                return True
            if published:  # it was cancelled too late
                sql = "UPDATE jobs SET published = ?, verdict = ? WHERE id = ? AND state = 'cancelled'"
                connection.execute(sql, (published, verdict, job.id))
            return False

    def put_back(self, job: Job, *, seconds: float, reason: str, spent: bool = True) -> bool:
        """Queue a job again as it was claimed, to be started after some seconds; return whether it runs by that claim.

        Args:
            job: The job.
            seconds: Those to wait.
            reason: Why it waits.
            spent: Whether the attempt counts.
        """
        now = self._now()
        with self._write() as connection:
            said = (now + seconds, reason, now, int(not spent), job.id, job.changed)
            return bool(connection.execute(statements.PUT_BACK, said).rowcount)

    def start_again(self, number: int) -> bool:
        """Queue a job that ended once more, with all its attempts; return whether it had ended."""
        with self._write() as connection:
            ended = bool(connection.execute(statements.REPEAT, (self._now(), number)).rowcount)
            if ended:
                self._note_request(connection, number)
            return ended

    def list_requests(self, number: int) -> tuple[float, ...]:
        """Return when a job was asked for, in seconds since 1970, the last time last; of 90 days."""
        with self._open() as connection:
            return tuple(at for (at,) in connection.execute(statements.REQUESTS, (number,)))

    def count_requests(self, rule: str, since: float) -> int:
        """Return how often jobs of a rule were asked for since some second since 1970, and not in the future.

        A clock that was wrong once must not count for ever.
        """
        with self._open() as connection:
            sql = "SELECT COUNT(*) FROM requests WHERE rule = ? AND at BETWEEN ? AND ?"
            return int(connection.execute(sql, (rule, since, self._now())).fetchone()[0])

    def _note_request(self, connection: sqlite3.Connection, number: int) -> None:
        sql = "INSERT INTO requests SELECT id, rule, ? FROM jobs WHERE id = ?"
        connection.execute(sql, (self._now(), number))

    def forget_old(self) -> int:
        """Forget deliveries that nobody sends again and requests that no pause follows from; return how many."""
        with self._write() as connection:
            requests = connection.execute("DELETE FROM requests WHERE at < ?", (self._now() - _KEPT_REQUESTS,))
            deliveries = connection.execute("DELETE FROM deliveries WHERE at < ?", (self._now() - _KEPT_SECONDS,))
            return requests.rowcount + deliveries.rowcount

    def list_ended(self, before: float) -> tuple[int, ...]:
        """Return the numbers of the jobs that ended before some second since 1970."""
        with self._open() as connection:
            sql = "SELECT id FROM jobs WHERE changed < ? AND state NOT IN ('queued', 'running') ORDER BY id"
            return tuple(number for (number,) in connection.execute(sql, (before,)))

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
        return self._find("id", number)

    def find_key(self, key: str) -> Job | None:
        """Return the job of a request; None where it was not accepted, or its row cannot be read."""
        return self._find("key", key)

    def has_key(self, key: str) -> bool:
        """Return whether a request was accepted, also where its row cannot be read, as one of a newer version."""
        with self._open() as connection:
            return connection.execute("SELECT 1 FROM jobs WHERE key = ?", (key,)).fetchone() is not None

    def list_jobs(self, *, limit: int = 100, state: State | None = None, judged: bool = False) -> tuple[Job, ...]:
        """Return the running jobs and the newest others, newest first; or those of one state, or with a verdict."""
        wanted = "verdict != ''" if judged else "state = COALESCE(?, state)"
        given = () if judged else (state,)
        with self._open() as connection:
            sql = f"SELECT {COLUMNS} FROM jobs WHERE {wanted} ORDER BY state = 'running' DESC, id DESC LIMIT ?"  # noqa: S608
            return tuple(filter(None, map(read_job, connection.execute(sql, (*given, limit)))))

    def list_waiting(self) -> frozenset[str]:
        """Return the devices that queued jobs are for."""
        with self._open() as connection:
            return frozenset(one for (one,) in connection.execute(statements.WAITING))

    def list_left(self) -> tuple[Left, ...]:
        """Return the jobs that are running, or were cancelled after they had started."""
        with self._open() as connection:
            where = "state = 'running' OR (state = 'cancelled' AND process != '')"
            rows = connection.execute(f"SELECT {COLUMNS} FROM jobs WHERE {where}").fetchall()  # noqa: S608 - constants
            return tuple(Left(row[0], row[-1], read_job(row)) for row in rows)

    def fail_unreadable(self, number: int) -> None:
        """Let a job fail whose row cannot be read: nothing could be said of it later."""
        with self._write() as connection:
            connection.execute(statements.FAIL_UNREADABLE, (self._now(), number))

    def count_states(self) -> dict[State, int]:
        """Return how many jobs there are in each state."""
        with self._open() as connection:
            found = dict(connection.execute("SELECT state, COUNT(*) FROM jobs GROUP BY state"))
            return {state: found.get(state, 0) for state in State}

    def count_verdicts(self) -> dict[str, int]:
        """Return how many jobs there are with each verdict."""
        with self._open() as connection:
            return dict(connection.execute(statements.VERDICTS).fetchall())

    def find_longest_wait(self) -> float:
        """Return the seconds since the oldest job came that is queued; 0 where none is."""
        with self._open() as connection:
            oldest = connection.execute("SELECT MIN(created) FROM jobs WHERE state = 'queued'").fetchone()[0]
            return 0.0 if oldest is None else max(0.0, self._now() - oldest)

    def read_cursor(self, registry: str) -> str | None:
        """Return how far a registry was swept; None before the first time."""
        with self._open() as connection:
            row = connection.execute("SELECT cursor FROM cursors WHERE registry = ?", (registry,)).fetchone()
            return row[0] if row else None

    def note_start(self, registry: str) -> float:
        """Return when a service began that sweeps a registry, the first time, in seconds since 1970; now if never."""
        with self._write() as connection:
            connection.execute("INSERT OR IGNORE INTO starts VALUES (?, ?)", (registry, self._now()))
            found = connection.execute("SELECT at FROM starts WHERE registry = ?", (registry,)).fetchone()
            return float(found[0])

    def accept_swept(self, registry: str, cursor: str, requests: Iterable[Request]) -> int:
        """Put what a sweep found into the queue, and move its cursor, in one transaction; return how many are new."""
        with self._write() as connection:
            new = sum(self._insert(connection, one) for one in requests)
            connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (registry, cursor))
            return new

    def _find(self, column: str, value: int | str) -> Job | None:
        with self._open() as connection:
            sql = f"SELECT {COLUMNS} FROM jobs WHERE {column} = ?"  # noqa: S608 - names of columns
            row = connection.execute(sql, (value,)).fetchone()
            return read_job(row) if row else None

    def _insert(self, connection: sqlite3.Connection, one: Request, *, again: bool = False) -> int:
        values = (one.key, one.uri, one.rule, one.task.model_dump_json(), one.device, self._now(), self._now())
        known = statements.INSERT_OR_REPEAT if again else statements.INSERT
        sql, more = (statements.INSERT_OR_RENEW, (one.after,)) if one.after else (known, ())
        row = connection.execute(sql, (*values, *more)).fetchone()
        if row is None:
            return 0
        self._note_request(connection, row[0])
        return 1

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                # Somebody may have removed it, and what waited in it; what comes from now on must not be lost.
                if not statements.are_made(connection):
                    statements.prepare(connection)
                yield connection
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise HoneError(
                "queue-broken",
                "The queue of runs cannot be read or written.",
                why=f"{self.path.name}: {error}.",
                hint="Make space on its disk, or let its user write there. Where it is corrupt, read the page: what "
                "waits in it can be listed by sqlite3's .recover.",
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
