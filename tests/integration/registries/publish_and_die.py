"""Publish in a process that is killed at one moment: ``<arguments> <method> before|after``."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import mlflow
from proof import prove

from kedro_hone.adaptors.registries.mlflow.registry import MlflowRegistry
from kedro_hone.core.values.artifact import Artifact


def main() -> None:
    arguments, method, moment = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
    original = getattr(mlflow.MlflowClient, method)

    def die(*args: object, **kwargs: object) -> None:
        if moment == "after":
            original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(mlflow.MlflowClient, method, die)
    artifact = Artifact.model_validate(arguments.pop("artifact"))
    MlflowRegistry().publish(prove(Path(arguments.pop("folder")), artifact), **arguments)


main()
