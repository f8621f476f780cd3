"""The inputs of every measuring node besides the candidates: the recipe, the source model, the data, store and run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.outcome import Failed
from hone_runtime.values.samples import Reference, Samples
from kedro_hone.core.environments.store import find_home
from kedro_hone.core.locks import hold_devices
from kedro_hone.core.machine.processes import read_load, share_of_others
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.programs import locate_program
from kedro_hone.recipe.schema import Recipe


def explain_source_failure(failed: Failed, when: str) -> HoneError:
    """Return the error for a source model that fails, such as ``in the race``: nothing is left to compare with."""
    return HoneError(
        "source-failed",
        f"The source model failed {when}.",
        why=f"{failed.failure}: {failed.reason}",
        hint=f"Every comparison needs it. Read {failed.log or 'the log of its launch'}, and run again.",
    )


def explain_outdated(name: str, origin: str) -> HoneError:
    """Return the error for a value of the catalog that was made from another value, or recipe, than the current one."""
    return HoneError(
        "value-outdated",
        f"The value {name!r} in the catalog is of another model, other data or another recipe.",
        why=f"It was made from another {origin!r} than the current one, which was changed or made again since.",
        hint="Run all pipelines again. What is still valid comes from the store.",
    )


@contextmanager
def measure_alone(run: RunFolder, node: str, *, artifacts: Iterable[Artifact]) -> Iterator[dict[str, Any]]:
    """Lock the devices of all artifacts that a node measures, and of the source; yield a dict, filled at the end.

    It contains ``seconds``, and ``other_load``, the share of the cores' time that other processes used, if known.
    Waiting for another run's measurements does not count, neither here nor for the search's budget; the run's events
    contain its seconds as ``waited``. Ctrl-C ends the run while it waits: there are no measurements to judge then.

    Raises:
        KeyboardInterrupt: The user ended the wait.
    """
    with ExitStack() as stack:
        with run.pause_search():
            devices = {artifact.device for artifact in artifacts}
            locks = hold_devices(
                find_home() / "locks", devices, purpose=f"measuring for {run.project}", stopped=run.is_stopped
            )
            waited = stack.enter_context(locks)
        run.note("waited", node=node, seconds=waited)
        took: dict[str, Any] = {}
        started, load = time.monotonic(), read_load()
        yield took
        took |= {"seconds": time.monotonic() - started, "other_load": share_of_others(load)}


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The inputs that are the same for all candidates of a run."""

    source: Artifact
    samples: Samples
    recipe: Recipe
    store: Store
    run: RunFolder

    @property
    def largest_batch(self) -> int:
        """The most rows of one call."""
        return max(shape.batch for shape in self.recipe.all_shapes)

    @property
    def batches(self) -> dict[str, Path]:
        """The file of the timed batch, by the shape's name."""
        return {shape: self.locate(name) for shape, name in self.samples.shapes.items()}

    @property
    def program(self) -> Path:
        """The program's file, with the same code as when the samples were prepared."""
        samples = self.samples
        return locate_program(samples.program, self.locate(""), digest=samples.program_digest)

    def locate_noise(self, reference: Reference) -> Path | None:
        """Return the file (npz) that marks numbers of a row with the rounding error of larger ones, or None."""
        return self.store.locate_tree(reference.digest) / reference.noise if reference.noise else None

    def locate(self, name: str) -> Path:
        """Return the path of a file of the samples.

        Raises:
            HoneError: ``store-missing``.
        """
        return self.store.locate_tree(self.samples.digest) / name
