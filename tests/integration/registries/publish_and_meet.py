"""Publish, and wait in the middle for others that publish the same; run by ``test_two_at_once.py``."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from proof import TAGS, prove

from hone_runtime.values.artifact import Artifact

PROCESSES = 2


def wait_for_all(folder: Path, seconds: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(os.getpid())).touch()
    limit = time.monotonic() + seconds
    while len([*folder.iterdir()]) < PROCESSES and time.monotonic() < limit:
        time.sleep(0.02)


def main(module: str, registry: str, folder: str) -> None:
    home = importlib.import_module(module)
    publication = importlib.import_module(f"{home.__package__}.publication")
    write: Callable[..., object] = publication.write_winner  # type: ignore[attr-defined]

    def write_together(*args: object, **named: object) -> object:
        # Where nothing keeps the other out, it arrives here too: both have seen that there is no version yet.
        wait_for_all(Path(folder, "writing"), 3)
        return write(*args, **named)

    publication.write_winner = write_together  # type: ignore[attr-defined]
    winner = prove(Path(folder), Artifact.model_validate(json.load(sys.stdin)))
    wait_for_all(Path(folder, "started"), 600)
    done = getattr(home, registry)(project=Path(folder)).publish(winner, name="digits", tags=TAGS, alias="honed")
    sys.stdout.write(done.model_dump_json())


main(*sys.argv[1:])
