"""One adaptor under test: its inputs, its runs and their results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hone_runtime.contract.adaptor import Adaptor, Options
from hone_runtime.contract.host import Host
from hone_runtime.contract.job import Job, JobInput, StepResult
from hone_runtime.contract.toolchain import Limits
from hone_runtime.values.artifact import Artifact, Shape, Stage, TensorSpec
from hone_runtime.values.base import Json
from hone_runtime.values.outcome import Failed, Refused
from kedro_hone.core.workers.host.run import call_worker, open_session
from kedro_hone.core.workers.host.verification import verify_output
from kedro_hone.recipe.capabilities import find_versions_to_write

Arrays = dict[str, NDArray[np.generic]]

BATCHES = (1, 2, 5)
THREADS, CALLS = 4, 16
"""How many threads call the result at once, and how often each does."""
CALIBRATION_ROWS = 32


class CheckFailed(AssertionError):  # noqa: N818 - it reads as what it says
    """An adaptor does not keep the contract; ``failure`` is what the runner or the verification found, if they did."""

    def __init__(self, reason: str, failed: Failed | None = None) -> None:
        self.failure = failed.failure if failed else None
        log = f"\n  log: {failed.log}" if failed and failed.log else ""
        super().__init__(f"{reason}: {failed.failure}: {failed.reason}{log}" if failed else reason)


class NotApplicable(Exception):  # noqa: N818 - not an error: a check that does not apply
    """A check that does not apply to this adaptor, with the reason."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of the adaptor: its job, how it ended, and what appeared next to the input or the output."""

    job: Job
    outcome: StepResult | Refused | Failed
    strays: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What the result returned by the name of the shape, up to the one that failed, or why it could not be loaded.

    ``differing`` says how many calls gave something else while several threads called it at the first shape.
    """

    arrays: dict[str, Arrays]
    differing: int | Failed = 0
    load_failure: Failed | None = None
    run_failure: Failed | None = None


@dataclass(kw_only=True)
class Trial:
    """One adaptor under test. Every step is done once, when the first check asks for it.

    Attributes:
        artifact: A small model that it takes, whose files are in ``files``.
        options: Its options, with everything decided that is left to the machine.
        folder: An empty directory for everything that is written.
        shapes: The shapes that the result must serve; ``make_feeds`` makes their inputs.
        calibration: An npz file, rows first; None to have one made by ``make_feeds``.
        training: Another one, for adaptors that are trained with it.
        program: As in ``Job``, like ``trust``.
    """

    adaptor: Adaptor
    artifact: Artifact
    files: Path
    options: Options
    python: Path
    host: Host
    folder: Path
    shapes: tuple[Shape, ...]
    make_feeds: Callable[[Shape], Arrays]
    limits: Limits
    calibration: Path | None = None
    training: Path | None = None
    program: dict[str, Json] | None = None
    trust: tuple[str, ...] = ()

    @cached_property
    def first(self) -> Attempt:
        """The first run."""
        return self._attempt("first")

    @cached_property
    def second(self) -> Attempt:
        """A second run of the same job, in another folder."""
        return self._attempt("second")

    @cached_property
    def verified(self) -> JobInput | Failed:
        """The first output, or what is wrong with it."""
        return verify_output(self.first.job, self.require_result(), toolchain=self.adaptor.toolchain)

    @cached_property
    def outputs(self) -> Outputs:
        """The outputs of the first result at every shape that it must serve."""
        output, toolchain, folder = self.require_output(), self.adaptor.toolchain, self.folder / "run"
        if self.adaptor.produces not in toolchain.runs:
            raise NotApplicable(f"{toolchain.name} does not run {self.adaptor.produces}")
        device = self.adaptor.device if self.adaptor.stage is Stage.COMPILE else self.artifact.device
        model = output.model_copy(update={"run_options": self.adaptor.run_options(self.options), "device": device})
        job = self.first.job.model_copy(update={"function": "load", "stage": "load", "input": model, "output": None})
        arrays: dict[str, Arrays] = {}
        session = open_session(job, python=self.python, folder=folder, limits=self.limits, toolchain=toolchain)
        if isinstance(session, Failed):
            return Outputs(arrays=arrays, load_failure=session)
        with closing(session):
            loaded = session.load()
            if isinstance(loaded, Failed):
                return Outputs(arrays=arrays, load_failure=loaded)
            for shape in self.served:
                feeds, outputs = folder / f"{shape.name}.npz", folder / f"{shape.name}-outputs.npz"
                np.savez(feeds, allow_pickle=False, **self.make_feeds(shape))
                failed = session.run(feeds, outputs)
                if failed is not None:
                    return Outputs(arrays=arrays, run_failure=failed)
                with np.load(outputs) as archive:
                    arrays[shape.name] = dict(archive)
            first = folder / f"{self.served[0].name}.npz"
            return Outputs(arrays=arrays, differing=session.run_together(first, threads=THREADS, calls=CALLS))

    @property
    def served(self) -> tuple[Shape, ...]:
        """The shapes that the first output must serve."""
        return self.require_output().static_shapes or self.shapes

    def require_result(self) -> StepResult:
        """Return the first run's result, or raise ``NotApplicable``."""
        outcome = self.first.outcome
        if isinstance(outcome, StepResult):
            return outcome
        raise NotApplicable(f"the transformation gave no result: {outcome.reason}")

    def require_output(self) -> JobInput:
        """Return the first output as what the next job may work on, or raise ``NotApplicable``: it does not verify."""
        if isinstance(self.verified, Failed):
            raise NotApplicable(f"the output does not verify: {self.verified.reason}")
        return self.verified

    def _attempt(self, name: str) -> Attempt:
        folder, toolchain = self.folder / name, self.adaptor.toolchain
        folder.mkdir(parents=True)
        job = Job(
            function="transform",
            worker=str(toolchain.worker),
            adaptor=self.adaptor.name,
            stage=self.adaptor.stage,
            input=JobInput.of(self.artifact, self.files),
            output=str(folder / "output"),
            options=self.options.model_dump(mode="json"),
            calibration=str(self._find_calibration()),
            training=str(self.training) if self.training else None,
            program=self.program,
            shapes=self.shapes,
            produces=self.adaptor.produces,
            takes=find_versions_to_write(self.adaptor, find_versions=dict),
            trust=self.trust,
        )
        before = self._list_surroundings(folder)
        outcome = call_worker(job, python=self.python, toolchain=toolchain, folder=folder / "step", limits=self.limits)
        expected = {str(folder / "output"), str(folder / "step")}
        strays = self._list_surroundings(folder) - before - expected
        return Attempt(job=job, outcome=outcome, strays=tuple(sorted(strays)))

    def _list_surroundings(self, folder: Path) -> set[str]:
        return {str(path) for place in (folder, self.files.parent) for path in place.iterdir()}

    def _find_calibration(self) -> Path:
        if self.calibration is not None:
            return self.calibration
        path = self.folder / "calibration.npz"
        if not path.exists():
            sizes = {**self.shapes[0].sizes, **_make_sizes(self.artifact.inputs, CALIBRATION_ROWS)}
            np.savez(path, allow_pickle=False, **self.make_feeds(Shape(name="calibration", sizes=sizes)))
        return path


def _make_sizes(inputs: tuple[TensorSpec, ...], batch: int) -> dict[str, int]:
    """Return a size for every dynamic dimension: the batch for the first of each input, eight for the others."""
    sizes = {"batch": batch}
    for spec in inputs:
        for position, dim in enumerate(spec.shape):
            if isinstance(dim, str):
                sizes[dim] = batch if position == 0 or dim == "batch" else 8
    return sizes


def make_shapes(inputs: tuple[TensorSpec, ...]) -> tuple[Shape, ...]:
    """Return shapes of several batch sizes; only the model's own where its batch is fixed."""
    fixed = {spec.shape[0] for spec in inputs if spec.shape and isinstance(spec.shape[0], int)}
    batches = [size for size in fixed if isinstance(size, int)][:1] or BATCHES
    return tuple(Shape(name=f"batch{batch}", sizes=_make_sizes(inputs, batch)) for batch in batches)


def make_arrays(inputs: tuple[TensorSpec, ...], shape: Shape) -> Arrays:
    """Return random inputs: standard normal floats, and zeros and ones for everything else."""
    draw = np.random.default_rng(0)
    arrays: Arrays = {}
    for spec in inputs:
        size, dtype = spec.resolve(shape.sizes), np.dtype(spec.dtype)
        floating = np.issubdtype(dtype, np.floating)
        arrays[spec.name] = (draw.normal(size=size) if floating else draw.integers(0, 2, size=size)).astype(dtype)
    return arrays
