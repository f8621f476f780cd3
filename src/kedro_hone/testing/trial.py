"""One adaptor under test: its inputs, its runs and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kedro_hone.core.contract.adaptor import Adaptor, Options
from kedro_hone.core.contract.host import Host
from kedro_hone.core.contract.toolchain import Limits
from kedro_hone.core.values.artifact import Artifact, Shape, TensorSpec
from kedro_hone.core.values.base import Json
from kedro_hone.core.values.digest import digest_tree
from kedro_hone.core.values.outcome import Failed, Refused
from kedro_hone.core.workers.host.job import Job, JobInput, Loaded, StepResult
from kedro_hone.core.workers.host.run import call_worker, open_session
from kedro_hone.core.workers.host.verification import Promise, read_promise, verify_output

Arrays = dict[str, npt.NDArray[np.generic]]

BATCHES = (1, 2, 5)
CALIBRATION_ROWS = 32
OTHER_SIZE = 8
"""The size of every dynamic dimension but the first, unless another is given."""


class CheckFailed(AssertionError):  # noqa: N818 - it reads as what it says
    """An adaptor does not keep the contract.

    Attributes:
        failure: What the runner or the verification found, where it was one of them.
    """

    def __init__(self, reason: str, failed: Failed | None = None) -> None:
        self.failure = failed.failure if failed else None
        log = f"\n  log: {failed.log}" if failed and failed.log else ""
        super().__init__(f"{reason}: {failed.failure}: {failed.reason}{log}" if failed else reason)


class NotApplicable(Exception):  # noqa: N818 - not an error: a check that does not apply
    """A check that does not apply to this adaptor, with the reason."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The inputs of one adaptor's test.

    Attributes:
        adaptor: The adaptor.
        artifact: A small model that it takes.
        files: The folder of its files.
        options: Its options, with everything decided that is left to the machine.
        python: The interpreter of its environment.
        host: The machine.
        folder: An empty directory for everything that is written.
        shapes: The shapes that the result must serve.
        make_feeds: Makes the inputs of a shape.
        calibration: An npz file, rows first; None to have one made by ``make_feeds``.
        program: As in ``Job``.
        limits: The bounds of each worker.
        trust: As in ``Job``.
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
    program: dict[str, Json] | None = None
    trust: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of the adaptor.

    Attributes:
        job: The job.
        outcome: The outcome.
        strays: Files and folders that appeared next to the input or the output.
    """

    job: Job
    outcome: StepResult | Refused | Failed
    strays: tuple[str, ...]

    @property
    def output(self) -> Path:
        """The output directory."""
        return Path(str(self.job.output))


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The outputs of the result, by the name of the shape; the last is missing when it failed.

    Attributes:
        failed: Why it could not be loaded or run.
        arrays: Outputs by shape.
        loaded: Whether it was loaded.
    """

    failed: Failed | None
    arrays: dict[str, Arrays]
    loaded: bool


class Trial:
    """One adaptor under test. Every step is done once, when the first check asks for it.

    Args:
        case: The inputs of the test.
    """

    def __init__(self, case: Case) -> None:
        self.case = case

    @cached_property
    def first(self) -> Attempt:
        """The first run."""
        return self._attempt("first")

    @cached_property
    def second(self) -> Attempt:
        """A second run of the same job, in another folder."""
        return self._attempt("second")

    @cached_property
    def fault(self) -> Failed | None:
        """The verification of the first output."""
        return verify_output(self.first.job, self.require_result(), toolchain=self.case.adaptor.toolchain)

    @cached_property
    def answers(self) -> Answers:
        """The outputs of the first result at every shape that it must serve."""
        promise = self.require_output()
        adaptor = self.case.adaptor
        if adaptor.produces not in adaptor.toolchain.runs:
            raise NotApplicable(f"{adaptor.toolchain.name} does not run {adaptor.produces}")
        return self._ask(promise)

    @property
    def served(self) -> tuple[Shape, ...]:
        """The shapes that the first output must serve."""
        return self.require_output().static_shapes or self.case.shapes

    def require_result(self) -> StepResult:
        """Return the first run's result, or raise when there is none."""
        outcome = self.first.outcome
        if isinstance(outcome, StepResult):
            return outcome
        raise NotApplicable(f"the transformation gave no result: {outcome.reason}")

    def require_output(self) -> Promise:
        """Return what the first output promises, or raise when it does not verify."""
        result = self.require_result()
        if self.fault is not None:
            raise NotApplicable(f"the output does not verify: {self.fault.reason}")
        return read_promise(self.first.job, result.notes)

    def digest(self, attempt: Attempt) -> str:
        """Return the digest of an attempt's output."""
        return digest_tree(attempt.output)

    def _attempt(self, name: str) -> Attempt:
        case, folder = self.case, self.case.folder / name
        folder.mkdir(parents=True)
        job = Job(
            function="transform",
            worker=str(case.adaptor.toolchain.worker),
            adaptor=case.adaptor.name,
            stage=case.adaptor.stage,
            input=JobInput.of(case.artifact, case.files),
            output=str(folder / "output"),
            options=case.options.model_dump(mode="json"),
            calibration=str(self._find_calibration()),
            program=case.program,
            shapes=case.shapes,
            produces=case.adaptor.produces,
            trust=case.trust,
        )
        before = self._list_surroundings(folder)
        outcome = call_worker(
            job, python=case.python, toolchain=case.adaptor.toolchain, folder=folder / "step", limits=case.limits
        )
        expected = {str(folder / "output"), str(folder / "step")}
        strays = self._list_surroundings(folder) - before - expected
        return Attempt(job=job, outcome=outcome, strays=tuple(sorted(strays)))

    def _list_surroundings(self, folder: Path) -> set[str]:
        return {str(path) for place in (folder, self.case.files.parent) for path in place.iterdir()}

    def _find_calibration(self) -> Path:
        if self.case.calibration is not None:
            return self.case.calibration
        path = self.case.folder / "calibration.npz"
        if not path.exists():
            sizes = {**self.case.shapes[0].sizes, **make_sizes(self.case.artifact.inputs, CALIBRATION_ROWS)}
            save_arrays(path, self.case.make_feeds(Shape(name="calibration", sizes=sizes)))
        return path

    def _ask(self, promise: Promise) -> Answers:
        case, folder = self.case, self.case.folder / "run"
        model = JobInput(
            path=str(self.first.output),
            format=case.adaptor.produces,
            run_options=case.adaptor.run_options(case.options),
            **{name: getattr(promise, name) for name in ("inputs", "outputs", "static_shapes", "metadata")},
        )
        job = self.first.job.model_copy(
            update={"function": "load", "stage": "load", "input": model, "output": None, "temporary": None}
        )
        arrays: dict[str, Arrays] = {}
        with open_session(
            job, python=case.python, folder=folder, limits=case.limits, toolchain=case.adaptor.toolchain
        ) as session:
            loaded = session.load()
            if not isinstance(loaded, Loaded):
                return Answers(failed=loaded, arrays=arrays, loaded=False)
            for shape in self.served:
                save_arrays(folder / f"{shape.name}.npz", case.make_feeds(shape))
                failed = session.run(folder / f"{shape.name}.npz", folder / f"{shape.name}-answer.npz")
                if failed is not None:
                    return Answers(failed=failed, arrays=arrays, loaded=True)
                with np.load(folder / f"{shape.name}-answer.npz") as answer:
                    arrays[shape.name] = {name: answer[name] for name in answer.files}
        return Answers(failed=None, arrays=arrays, loaded=True)


def make_sizes(inputs: tuple[TensorSpec, ...], batch: int) -> dict[str, int]:
    """Return a size for every dynamic dimension: the batch for the first of each input, eight for the others."""
    sizes = {"batch": batch}
    for spec in inputs:
        for position, dim in enumerate(spec.shape):
            if isinstance(dim, str):
                sizes[dim] = batch if position == 0 or dim == "batch" else OTHER_SIZE
    return sizes


def make_shapes(inputs: tuple[TensorSpec, ...]) -> tuple[Shape, ...]:
    """Return shapes of several batch sizes; only the model's own where its batch is fixed."""
    fixed = {spec.shape[0] for spec in inputs if spec.shape and isinstance(spec.shape[0], int)}
    batches = [size for size in fixed if isinstance(size, int)][:1] or BATCHES
    return tuple(Shape(name=f"batch{batch}", sizes=make_sizes(inputs, batch)) for batch in batches)


def make_arrays(inputs: tuple[TensorSpec, ...], shape: Shape, *, seed: int = 0) -> Arrays:
    """Return random inputs: standard normal floats, and zeros and ones for everything else."""
    draw = np.random.default_rng(seed)
    arrays: Arrays = {}
    for spec in inputs:
        size, dtype = spec.resolve(shape.sizes), np.dtype(spec.dtype)
        floating = np.issubdtype(dtype, np.floating)
        arrays[spec.name] = (draw.normal(size=size) if floating else draw.integers(0, 2, size=size)).astype(dtype)
    return arrays


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write an npz file."""
    with path.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
