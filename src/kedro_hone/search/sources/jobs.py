"""Jobs on a source before it is sealed: a toolchain reads its specifications, or merges an adapter into it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from hone_runtime.contract.job import Job, JobInput, StepResult
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.outcome import Failed, FailureClass, Refused
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.workers.host.run import call_worker
from kedro_hone.recipe.environments import find_environment
from kedro_hone.recipe.schema import Recipe

_ENDED: Final = frozenset(
    {FailureClass.TIME_OUT, FailureClass.OUT_OF_MEMORY, FailureClass.DISK_FULL, FailureClass.KILLED}
)
"""Failures that are not caused by the model."""


def call_toolchain(
    function: Literal["describe", "merge"],
    given: JobInput,
    toolchain: Toolchain,
    *,
    recipe: Recipe,
    run: RunFolder,
    output: Path | None = None,
) -> StepResult | Refused | Failed:
    """Call a function of a toolchain's worker on the files of a source; ``output`` is the folder that it fills.

    Raises:
        HoneError: ``toolchain-unbuildable``.
    """
    environment = find_environment(recipe, toolchain)
    if isinstance(environment, Failed):
        raise HoneError(
            "toolchain-unbuildable",
            f"The environment of {toolchain.name} cannot be built.",
            why=environment.reason,
            hint=f"{f'Read {environment.log}; or' if environment.log else 'Correct its interpreter, or'} run `python "
            "-m kedro_hone hone "
            f"toolchains build {toolchain.name}`.",
        )
    job = Job(
        function=function,
        worker=str(toolchain.worker),
        adaptor="source",
        input=given,
        output=None if output is None else str(output),
        threads=recipe.thread_count,
        seed=recipe.seed,
        shapes=recipe.all_shapes,
        trust=tuple(sorted(recipe.trust)),
    )
    python, folder = Path(environment.python), run.claim_step(f"{function}-source")
    return call_worker(job, python=python, toolchain=toolchain, folder=folder, limits=toolchain.limits)


def explain_failure(failed: Failed, what: str, *, check: str, more: str = "") -> HoneError:
    """Return the error for a failed job: ``source-failed`` if it was ended, otherwise ``model-corrupt``.

    Args:
        failed: How it failed.
        what: A sentence on the failure, such as ``models:/digits/1 cannot be read.``
        check: A clause on the thing to check if the worker failed by itself.
        more: A sentence after that, with a space before it.
    """
    if failed.failure in _ENDED:
        hint = f"It was ended before it was done. Read {failed.log or 'the log of its step'}, and run again."
        return HoneError("source-failed", what, why=f"{failed.failure}: {failed.reason}", hint=hint)
    log = f"; the log is {failed.log}" if failed.log else ""
    return HoneError("model-corrupt", what, why=failed.reason, hint=f"Check {check}{log}.{more}")
