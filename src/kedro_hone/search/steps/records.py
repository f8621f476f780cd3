"""Tuning records of toolchains: stored next to the store, and used again by later runs and other models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.digest import digest_json
from hone_runtime.values.regular import read_regular
from kedro_hone.core.locks import hold_lock
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.disk import write_file

FOLDER: Final = "tuning"
MOST_BYTES: Final = 64 << 20
"""The most bytes of the records of one toolchain on one kind of machine; the newest are retained."""


@contextmanager
def checkout_records(
    store: Store, toolchain: Toolchain, place: tuple[str, str], scratch: Path
) -> Iterator[Path | None]:
    """Yield the copy of a toolchain's records that a worker may extend; None if the toolchain has none.

    Each line is a complete record. Lines that the worker added are stored, whatever the outcome of the worker: runs
    that tune at the same time share their records.

    Args:
        store: The store next to the records.
        toolchain: The worker's toolchain.
        place: The key of its environment, since another version schedules otherwise, and the machine's fingerprint:
            records are not valid for another machine.
        scratch: A folder that the worker can write to.
    """
    if not toolchain.remembers:
        yield None
        return
    name = digest_json([*place]).removeprefix("sha256:")[:16]
    stored, copy = store.notes / FOLDER / f"{toolchain.name}-{name}.jsonl", scratch / "records.jsonl"
    scratch.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(_read(stored))
    try:
        yield copy
    finally:
        merge_records(stored, copy)


def merge_records(stored: Path, copy: Path) -> None:
    """Add the new lines of one file (``copy``) to another (``stored``), atomically."""
    stored.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(stored.with_suffix(".lock"), purpose="keeping tuning records"):
        known = dict.fromkeys(_read(stored).splitlines())
        added = [line for line in _read(copy).splitlines() if line.strip() and line not in known]
        if not added:
            return
        lines, left = [*known, *added], MOST_BYTES
        newest = []
        for line in reversed(lines):
            left -= len(line) + 1
            if left < 0:
                break
            newest.append(line)
        write_file(stored, b"\n".join([*reversed(newest), b""]))


def _read(path: Path) -> bytes:
    """Return a file's bytes; empty if absent, or if a worker left something else in its place."""
    try:
        return read_regular(path, limit=2 * MOST_BYTES)
    except (OSError, ValueError):
        return b""
