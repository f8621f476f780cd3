"""Make a model's predictions on a split, and score them against the source's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kedro_hone.comparing.scoring import call_program, read_quality
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.errors import HoneError
from kedro_hone.core.measuring.launches import launch
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.measurement import Quality
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.values.samples import Split


class Predicted(Value):
    """What it took to make a model's predictions on a split; the fields are explained at ``Reference``."""

    cold_start_ms: float
    peak_memory_bytes: int


def predict(
    artifact: Artifact, *, name: str, split: Split, outputs: Mapping[Path, int], setting: Setting
) -> Predicted | Failed:
    """Run an artifact over all rows of a split, once for each of ``outputs``: a new ``.npz``, and its batch size.

    They are in one folder. Returned is what it took, or why it failed.
    """
    with launch(artifact, name=name, launching=setting.launching, output=next(iter(outputs)).parent) as session:
        if isinstance(session, Failed):
            return session
        loaded = session.load(feeds=setting.batches[setting.shapes[0]])
        if isinstance(loaded, Failed):
            return loaded
        for output, batch in outputs.items():
            if failed := session.run(setting.locate(split.feeds), output, batch=batch):
                return failed
        return Predicted(cold_start_ms=loaded, peak_memory_bytes=session.memory_bytes())


def score_predictions(
    outputs: dict[str, Path], *, reference: Path, split: Split, setting: Setting, confidence: float | None = None
) -> dict[str, Quality | str]:
    """Score predictions of candidates against the source's, with the recipe's program and metric.

    The confidence is that of the intervals; the recipe's when not given.

    Returns:
        A quality for each name, or what kept it from being scored.

    Raises:
        HoneError: ``program-failed``, ``labels-mismatch`` or ``metric-unknown``: the source itself cannot be scored.
    """
    recipe = setting.recipe
    with setting.store.workspace() as folder:
        notes = call_program(
            "evaluate",
            job={
                "program": str(setting.program),
                "program_options": dict(recipe.program.options),
                "source": str(reference),
                "candidates": {name: str(path) for name, path in outputs.items()},
                "targets": str(setting.locate(split.targets)),
                "metric": recipe.program.metric,
                "seed": recipe.seed,
            },
            source=setting.source,
            output=folder,
            store=setting.store,
            run=setting.run,
        )
        level = confidence or recipe.gates.confidence
        place = {"split": split.name, "limit": recipe.gates.drop}
        return {name: read_quality(name, row, level, **place) for name, row in notes["candidates"].items()}


def score_source(outputs: Path, split: Split, setting: Setting) -> Quality:
    """Score the source's predictions on a split.

    Raises:
        HoneError: ``program-failed``: the program cannot score them.
    """
    itself = score_predictions({"source": outputs}, reference=outputs, split=split, setting=setting)["source"]
    if isinstance(itself, Quality):
        return itself
    raise HoneError(
        "program-failed",
        f"The source model cannot be scored on the {split.name} split.",
        why=itself,
        hint="Mend the program or its metric; see Write a program in the documentation.",
    )
