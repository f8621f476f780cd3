"""The tables of the queue, the statements that are longer than a line, and what a row says.

``changed`` is when a job's state changed last. No two claims of a job have the same, so that what became of one is
never written of the next.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from typing import Final

from kedro_hone.core.errors import ExitCode
from kedro_hone.events.job import Job
from kedro_hone.events.journal import log

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS deliveries (id TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursors (registry TEXT PRIMARY KEY, cursor TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS starts (registry TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    uri TEXT NOT NULL,
    rule TEXT NOT NULL,
    task TEXT NOT NULL,
    device TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL DEFAULT 0,
    created REAL NOT NULL,
    changed REAL NOT NULL,
    exit_code INTEGER,
    verdict TEXT NOT NULL DEFAULT '',
    published TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    process TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS waiting ON jobs (state, device, not_before);
CREATE TABLE IF NOT EXISTS requests (job INTEGER NOT NULL, rule TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS requests_of ON requests (job);
"""
COLUMNS: Final = (
    "id, uri, rule, task, device, state, attempts, not_before, created, changed, exit_code, verdict, published, "
    "reason, process"
)


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables where there are none.

    Raises:
        sqlite3.Error: They cannot be made, or there are others of these names, as of another version.
    """
    _log_ahead(connection)
    connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}COMMIT;")
    connection.execute(f"SELECT {COLUMNS} FROM jobs LIMIT 0")  # noqa: S608 - the names of columns


def _log_ahead(connection: sqlite3.Connection, *, seconds: float = 30.0) -> None:
    """Switch to a write-ahead log, also while others do.

    SQLite does not wait for its lock there, whatever the connection's timeout: one of several that open a new file at
    the same time would fail.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def are_made(connection: sqlite3.Connection) -> bool:
    """Return whether there are all tables, which are made together; raises as ``prepare``."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'requests_of'").fetchone() is not None


CLAIM: Final = f"""
UPDATE jobs SET state = 'running', attempts = attempts + 1, changed = ?, process = '' WHERE id = (
    SELECT id FROM jobs WHERE state = 'queued' AND device = ? AND rule = COALESCE(?, rule)
    AND (not_before <= ? OR not_before > ?) ORDER BY id LIMIT 1
) RETURNING {COLUMNS}
"""  # noqa: S608 - the names of columns
"""Start the oldest job of a device, and of a rule where one is given, that may start now."""

_FRESH = "attempts = 0, not_before = 0, exit_code = NULL, verdict = '', published = '', reason = '', process = ''"
INSERT: Final = (
    "INSERT INTO jobs (key, uri, rule, task, device, state, created, changed) VALUES (?, ?, ?, ?, ?, 'queued', ?, ?) "
    "ON CONFLICT (key) DO NOTHING RETURNING id"
)
INSERT_OR_REPEAT: Final = INSERT.replace(
    "NOTHING",
    f"UPDATE SET state = 'queued', changed = excluded.changed, {_FRESH} "  # noqa: S608 - constants
    "WHERE state IN ('failed', 'skipped') OR (state = 'done' AND (verdict = 'INCONCLUSIVE' OR (verdict = '' "
    f"AND exit_code = {ExitCode.INCONCLUSIVE:d})) AND (changed > excluded.changed OR excluded.changed > "
    "changed + 3600 * (SELECT COUNT(*) FROM requests WHERE job = jobs.id)))",
)
"""As ``INSERT``; a job that failed is queued again, one that was skipped, since it may be no winner by now, and one
that could not decide, as on a machine that was busy: an hour after it ended, two after the second time, and so on. Its
exit code says so where its result is lost; one that ended in the future, by a clock that was wrong, need not wait."""
REQUESTS: Final = "SELECT at FROM requests WHERE job = ? AND typeof(at) IN ('integer', 'real') ORDER BY at"
"""When a job was asked for; SQLite keeps what is no number as it is, also in a column of numbers."""
VERDICTS: Final = "SELECT verdict, COUNT(*) FROM jobs WHERE verdict != '' GROUP BY verdict"
INSERT_OR_RENEW: Final = INSERT.replace(
    "NOTHING",
    f"UPDATE SET state = 'queued', created = excluded.created, changed = excluded.changed, {_FRESH} "
    "WHERE state NOT IN ('queued', 'running') AND created < ?",
)
"""As ``INSERT``; a job that came before some second since 1970 is of another content, and queued again."""

WAITING: Final = "SELECT DISTINCT device FROM jobs WHERE state = 'queued'"
REPEAT: Final = (
    f"UPDATE jobs SET state = 'queued', changed = ?, {_FRESH} "  # noqa: S608 - constants
    "WHERE id = ? AND state NOT IN ('queued', 'running')"
)

FINISH: Final = (
    "UPDATE jobs SET state = ?, exit_code = ?, verdict = ?, published = ?, reason = ?, changed = ? "
    "WHERE id = ? AND state = 'running' AND changed = ?"
)

PUT_BACK: Final = (
    "UPDATE jobs SET state = 'queued', not_before = ?, reason = ?, changed = ?, attempts = attempts - ? "
    "WHERE id = ? AND state = 'running' AND changed = ?"
)

FAIL_UNREADABLE: Final = (
    "UPDATE jobs SET state = 'failed', reason = 'Its row in the queue could not be read: perhaps a newer version wrote "
    "it.', changed = ? WHERE id = ? AND state IN ('queued', 'running')"
)


def read_job(row: tuple[object, ...]) -> Job | None:
    """Return the job of a row; None, which is logged, where it is not as this version writes it."""
    named = dict(zip(COLUMNS.split(", "), row, strict=True))
    try:
        return Job.model_validate({**named, "task": json.loads(str(named["task"]))})
    except ValueError as error:  # of pydantic, too
        log("job-unreadable", level=logging.ERROR, job=named["id"], reason=str(error))
        return None
