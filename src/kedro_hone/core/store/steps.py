"""Steps: the key under which the outcome of an adaptor is stored, and the record under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Options
from hone_runtime.contract.host import Host
from hone_runtime.values.artifact import Artifact, Shape, StepFacts
from hone_runtime.values.base import Json, Value
from hone_runtime.values.digest import digest_json
from hone_runtime.values.outcome import Failed, FailureClass, Outcome

STORE_VERSION: Final = 2
"""Part of every step's key: raised when old results must no longer be found."""

CRASHES: Final = 2
"""The number of runs in which a step must crash before the crash is stored permanently."""


class StepRecord(Value):
    """The result of a step."""

    facts: StepFacts = Field(description="What is handed on of it with the outcomes of its route.")
    outcome: Outcome
    created: str = Field(description="In ISO 8601.")
    inputs: dict[str, Json] = Field(description="What went into the key, to explain a miss.")
    tries: int = Field(1, ge=1, description="In how many runs it was tried; the outcome is the last one's.")

    def is_tried_again(self, run: str) -> bool:
        """Return whether a run tries it once more: a single crash may be an accident of its machine."""
        crashed = isinstance(self.outcome, Failed) and self.outcome.failure is FailureClass.CRASH
        return crashed and self.tries < CRASHES and self.facts.run != run


def step_key(
    adaptor: Adaptor,
    artifact: Artifact,
    options: Options,
    *,
    worker: str,
    environment: str,
    host: Host,
    seed: int,
    shapes: Sequence[Shape] = (),
    calibration: str | None = None,
    program: str | None = None,
    training: str | None = None,
    takes: dict[str, Json] | None = None,
    conversion: float | None = None,
    drop: float | None = None,
) -> tuple[str, dict[str, Json]]:
    """Return the key of a step's outcome, a hexadecimal number, and the values that it was computed from. Pure.

    The key contains the digests of the worker, and of the calibration data, training data and program if the adaptor
    gets them, and the key of the environment. From ``takes`` it contains the versions of ONNX in which the model is
    written first, and from the host the fingerprint if the adaptor's result depends on the machine. ``conversion`` is
    the share of rows in which a converted model may differ, and ``drop`` the allowed drop of the recipe's metric.
    """
    inputs: dict[str, Json] = {
        "store": STORE_VERSION,
        "input": artifact.digest,
        "adaptor": adaptor.name,
        "version": adaptor.version,
        "worker": worker,
        "options": options.model_dump(mode="json"),
        "environment": environment,
        "variables": dict(adaptor.toolchain.environment),
        "calibration": calibration,
        "program": program,
        "seed": seed,
        "shapes": [shape.model_dump(mode="json") for shape in shapes],
        "machine": host.fingerprint if adaptor.machine_specific else None,
    }
    if training is not None:  # keys of steps without it stay as they were
        inputs["training"] = training
    if takes is not None:
        inputs["takes"] = takes
    if conversion is not None:
        inputs["conversion"] = conversion
    if drop is not None:
        inputs["drop"] = drop
    return digest_json(inputs).removeprefix("sha256:"), inputs


def list_machine_options(adaptor: Adaptor, options: Options, host: Host) -> dict[str, Json]:
    """Return the options with a default that depends on the machine, also if the recipe sets them.

    They are found by the adaptor's defaults, so that equal (resolved) options give the same result, whatever their
    origin. Pure; works for any machine.
    """
    defaults = adaptor.options()
    before, after = defaults.model_dump(mode="json"), defaults.resolve(host).model_dump(mode="json")
    values = options.model_dump(mode="json")
    return {name: values[name] for name in values if before.get(name) != after.get(name)}
