"""The split that trains: whether a recipe needs it, and what data for it lack."""

from __future__ import annotations

from hone_runtime.errors import HoneError
from hone_runtime.values.samples import TRAINING
from kedro_hone.derivation.program import FIDELITY, ChosenProgram
from kedro_hone.derivation.request import WHOLE, Request
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import Recipe


def check_training(request: Request, chosen: ChosenProgram, recipe: Recipe) -> bool:
    """Return whether the recipe trains.

    Args:
        request: What the user named, with data.
        chosen: The program.
        recipe: The settings that the user named.

    Raises:
        HoneError: ``option-invalid``: it trains, and there are no labels, or no split for it among named ones.
    """
    if not make_plan(recipe).trains:
        return False
    if chosen.name == FIDELITY:
        why = "A network that was trained is not judged by its similarity with the source alone."
        hint = "Name the labels by --target, or leave out the toolchain or adaptor that trains."
        raise HoneError("option-invalid", "The data have no labels, and the recipe trains.", why=why, hint=hint)
    if WHOLE not in request.data and TRAINING not in request.data:
        why = "A compressor that the recipe selects trains what it makes smaller. The rows need no labels."
        hint = f"Add --data {TRAINING}=FILE, or leave the toolchain out."
        raise HoneError("option-invalid", f"--data lacks the split {TRAINING}.", why=why, hint=hint)
    return True
