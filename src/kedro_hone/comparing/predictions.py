"""Make a model's predictions on a split, and score them against the source's."""

from __future__ import annotations

from pathlib import Path

from kedro_hone.comparing.scoring import Score, call_program, read_row
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.errors import HoneError
from kedro_hone.core.measuring.launches import launch
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.outcome import Failed
from kedro_hone.core.values.samples import Split


class Predicted(Value):
    """What it took to make a model's predictions on a split.

    Attributes:
        cold_start_ms: From the start of loading to the first prediction, without the interpreter's start.
        peak_memory_bytes: Resident memory of its worker after the last prediction.
    """

    cold_start_ms: float
    peak_memory_bytes: int


def predict(artifact: Artifact, *, name: str, split: Split, output: Path, setting: Setting) -> Predicted | Failed:
    """Run an artifact once over all rows of a split, in batches of the recipe's largest shape.

    The outputs go to ``output``, an ``.npz`` file; returned is what it took, or why it failed.
    """
    with launch(artifact, name=name, launching=setting.launching, output=output.parent) as session:
        if isinstance(session, Failed):
            return session
        loaded = session.load(feeds=setting.batches[setting.shapes[0]])
        if isinstance(loaded, Failed):
            return loaded
        batch = max(shape.batch for shape in setting.recipe.all_shapes)
        failed = session.run(setting.locate(split.feeds), output, batch=batch)
        return failed or Predicted(cold_start_ms=loaded.cold_start_ms, peak_memory_bytes=session.memory_bytes())


def score_predictions(
    outputs: dict[str, Path], *, reference: Path, split: Split, setting: Setting, confidence: float | None = None
) -> dict[str, Score | str]:
    """Score predictions of candidates against the source's, with the recipe's program and metric.

    The confidence is that of the intervals; the recipe's when not given.

    Returns:
        A score for each name, or what kept it from being scored.

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
        return {name: read_row(row, level) for name, row in notes["candidates"].items()}


def score_source(outputs: Path, split: Split, setting: Setting) -> Score:
    """Score the source's predictions on a split.

    Raises:
        HoneError: ``program-failed``: the program cannot score them.
    """
    itself = score_predictions({"source": outputs}, reference=outputs, split=split, setting=setting)["source"]
    if isinstance(itself, Score):
        return itself
    raise HoneError(
        "program-failed",
        f"The source model cannot be scored on the {split.name} split.",
        why=itself,
        hint="Mend the program or its metric; see Write a program in the documentation.",
    )
