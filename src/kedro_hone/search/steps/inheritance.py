"""The metadata of an artifact: what it inherits from its parent, and what its adaptor's worker notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.values.artifact import TRAINED, Artifact
from hone_runtime.values.base import Json

TRAINING: Final = "training"
"""What the worker of such an adaptor notes of its training."""
INHERITED: Final = (
    *("interface", "structure", "transformers", "sklearn", "keras", "threads", "machine_options", "cache"),
    *(TRAINED, "tuned"),
)
"""Metadata that an artifact inherits from its parent: the calling interface, the structure of its result, the notes on
a model of Transformers, on an estimator or on a Keras model, the number of threads, and the notes on a cache. Also
earlier adaptors' options that depend on the machine unless the recipe sets them, and the notes of trainings and of
a tuning."""


def inherit_metadata(
    adaptor: Adaptor, parent: Artifact, noted: Mapping[str, Json], *, machine: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the metadata of an adaptor's result.

    Args:
        adaptor: The adaptor.
        parent: Its input.
        noted: The notes of its worker. It cannot undo that the network was trained.
        machine: Its options that depend on the machine.
    """
    inherited = {name: value for name, value in parent.metadata.items() if name in INHERITED}
    own = {name: value for name, value in noted.items() if name not in (TRAINED, TRAINING)}
    if machine:
        own["machine_options"] = {**inherited.get("machine_options", {}), adaptor.name: dict(machine)}
    if adaptor.trains:
        own[TRAINED] = {**inherited.get(TRAINED, {}), adaptor.name: noted.get(TRAINING) or {}}
    return {**inherited, **own}
