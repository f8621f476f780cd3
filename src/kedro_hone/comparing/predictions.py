"""Make a model's predictions on a split, and score them against the source's."""

from __future__ import annotations

from pathlib import Path

from kedro_hone.comparing.scoring import Score, score
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


def predict(artifact: Artifact, *, name: str, feeds: Path, output: Path, setting: Setting) -> Predicted | Failed:
    """Run an artifact once over all rows of a split, in batches of the recipe's largest shape.

    Args:
        artifact: What to run.
        name: The candidate's id.
        feeds: The split's inputs.
        output: Where the outputs go, as ``.npz``.
        setting: The run.

    Returns:
        What it took, or why it failed.
    """
    with launch(
        artifact, name=name, workplace=setting.workplace, launching=setting.launching, output=output.parent
    ) as session:
        if isinstance(session, Failed):
            return session
        loaded = session.load(feeds=Path(setting.samples.shapes[setting.shapes[0]]))
        if isinstance(loaded, Failed):
            return loaded
        failed = session.run(feeds, output, batch=max(shape.batch for shape in setting.recipe.all_shapes))
        return failed or Predicted(cold_start_ms=loaded.cold_start_ms, peak_memory_bytes=session.memory_bytes())


def score_predictions(
    outputs: dict[str, Path], *, reference: Path, split: Split, setting: Setting, confidence: float | None = None
) -> dict[str, Score | str]:
    """Score predictions of candidates against the source's, with the recipe's program and metric.

    Args:
        outputs: The predictions by name.
        reference: The source's predictions.
        split: The split of the predictions.
        setting: The run.
        confidence: Of the intervals; the recipe's when not given.

    Returns:
        A score for each name, or what kept it from being scored.
    """
    return score(
        outputs,
        reference=reference,
        split=split,
        program=setting.samples.program,
        source=setting.source,
        metric=setting.metric,
        confidence=confidence or setting.recipe.gates.confidence,
        workplace=setting.workplace,
    )


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
