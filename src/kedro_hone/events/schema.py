"""The tables of the queue, the conditions under which a known job is queued again, and how a row is read.

``changed`` is the time of a job's last change of state. It differs for each claim of a job, so the outcome of one claim
is never written for the next.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from hone_runtime.errors import ExitCode
from kedro_hone.events.job import Job
from kedro_hone.events.log import log

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
"""
COLUMNS: Final = ", ".join(Job.model_fields)

_UNDECIDED: Final = (
    f"state = 'done' AND (verdict = 'INCONCLUSIVE' OR (verdict = '' AND exit_code = {ExitCode.INCONCLUSIVE:d}))"
)
"""A run that was undecided, as on a busy machine; if its result is lost, its exit code states it."""
NEVER: Final = "FALSE"
"""A known job is not changed."""
AFTER_EVENT: Final = f"state IN ('failed', 'skipped') OR ({_UNDECIDED} AND NOT changed BETWEEN :now - 3600 AND :now)"
"""A job that failed; one that was skipped, since its version may no longer be a winner; and one that was undecided over
an hour ago. A change in the future was written by a wrong clock, and need not wait."""
AFTER_DAY: Final = f"(state = 'failed' OR ({_UNDECIDED})) AND NOT created BETWEEN :now - 86400 AND :now"
"""A job that failed or was undecided, and was requested over a day ago."""
OTHER_CONTENT: Final = "state NOT IN ('queued', 'running') AND created < :after"
"""A job that was requested when its URI had another content."""
OF_MODEL: Final = "(? = '' OR uri = ? OR substr(uri, 1, length(?) + 1) IN (? || '/', ? || '@'))"
"""A job of a version of a model, by the model's URI without a version; of any model if that is empty."""
ENDED: Final = "state NOT IN ('queued', 'running')"

QUEUE_AGAIN: Final = (
    "state = 'queued', created = :now, changed = :now, attempts = 0, not_before = 0, exit_code = NULL, verdict = '', "
    "published = '', reason = '', process = ''"
)
INSERT: Final = (
    "INSERT INTO jobs (key, uri, rule, task, device, state, created, changed) "  # noqa: S608 - constants
    "VALUES (:key, :uri, :rule, :task, :device, 'queued', :now, :now) "
    f"ON CONFLICT (key) DO UPDATE SET {QUEUE_AGAIN} WHERE {{condition}} RETURNING id"
)
CLAIM: Final = f"""
UPDATE jobs SET state = 'running', attempts = attempts + 1, changed = ?, process = '' WHERE id = (
    SELECT id FROM jobs WHERE state = 'queued' AND device = ? AND rule = COALESCE(?, rule)
    AND (not_before <= ? OR not_before > ?) ORDER BY id LIMIT 1
) RETURNING {COLUMNS}
"""  # noqa: S608 - the names of columns
"""Start the oldest job of a device, and of a rule if one is given, that may start now."""
FAIL_UNREADABLE: Final = (
    "UPDATE jobs SET state = 'failed', reason = 'Its row in the queue could not be read: perhaps a newer version wrote "
    "it.', changed = ? WHERE id = ? AND state IN ('queued', 'running')"
)


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection to the queue's file, with its tables; threads may share it one after the other.

    Raises:
        sqlite3.Error: The file cannot be opened or made, or has different tables of these names, such as those of
            another version.
    """
    connection = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        with suppress(sqlite3.OperationalError):  # another process changes it now; each kind of journal is durable
            connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}COMMIT;")
        connection.execute(f"SELECT {COLUMNS} FROM jobs LIMIT 0")  # noqa: S608 - the names of columns
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def identify(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def read_job(row: tuple[object, ...]) -> Job | None:
    """Return the job of a row; log and return None if this version does not write such a row."""
    named = dict(zip(Job.model_fields, row, strict=True))
    try:
        return Job.model_validate({**named, "task": json.loads(str(named["task"]))})
    except ValueError as error:  # of pydantic, too
        log("job-unreadable", level=logging.ERROR, job=named["id"], reason=str(error))
        return None
