"""Publish in processes that are killed at one moment; run by ``test_killed.py``.

Reads a line of JSON for each from its standard input, and prints how the process ended: a fork, since MLflow takes
seconds to import.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import mlflow
from proof import prove

from hone_runtime.values.artifact import Artifact
from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry


def publish(job: dict[str, Any]) -> NoReturn:
    try:
        os.chdir(job["folder"])
        os.environ["MLFLOW_TRACKING_URI"] = job["tracking_uri"]
        original = getattr(mlflow.MlflowClient, job["method"])

        def die(*args: object, **kwargs: object) -> None:
            if job["moment"] == "after":
                original(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(mlflow.MlflowClient, job["method"], die)
        artifact = Artifact.model_validate(job["artifact"])
        MlflowRegistry().publish(prove(Path(job["folder"]), artifact), **job["arguments"])
    except BaseException:  # noqa: BLE001 - a fork must not go on with its parent's work
        traceback.print_exc()
    finally:
        os._exit(1)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            publish(json.loads(line))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


main()
