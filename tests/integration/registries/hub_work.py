"""Pull from a Hub, or publish to it, in a process of its own; run by ``test_hub_killed.py``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from huggingface_hub import constants

from hone_runtime.contract.registries import find_registry


def main(text: str) -> None:
    job: dict[str, Any] = json.loads(text)
    constants.DOWNLOAD_CHUNK_SIZE = 1000  # what was received is in the file, and not in this process
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    registry = find_registry("hf://org/model")
    if "folder" in job:
        info = registry.pull("hf://org/model", Path(job["folder"]))
        sys.stdout.write(info.uri)
        return
    from proof import TAGS, prove

    from hone_runtime.values.artifact import Artifact

    winner = prove(Path(job["home"]), Artifact.model_validate(job["artifact"]))
    done = registry.publish(winner, name="org/model", tags=TAGS, alias="honed")
    sys.stdout.write(done.uri)


main(sys.argv[1])
