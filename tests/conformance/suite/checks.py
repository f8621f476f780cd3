"""The checks of the conformance suite, one function each; it raises ``CheckFailed`` or ``NotApplicable``, or passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from pydantic import ValidationError

from hone_runtime.contract.adaptor import Capability, Support
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import FORMATS, Artifact, Shape, TensorSpec
from hone_runtime.values.digest import digest_tree
from hone_runtime.values.outcome import Failed, FailureClass, Refused, Trespass
from kedro_hone.recipe.capabilities import require_known_adaptors
from kedro_hone.recipe.prior import read_prior
from kedro_hone.testing.trial import CALLS, THREADS, Arrays, CheckFailed, NotApplicable, Trial

_LIBRARIES: Final = frozenset({"numpy", "scipy", "pandas", "matplotlib", "jax", "transformers", "diffusers"})


@cache
def list_heavy() -> frozenset[str]:
    """Return modules that an adaptor's description may not import: every host process imports all descriptions."""
    return _LIBRARIES.union(*(toolchain.modules for toolchain in read_catalogue().toolchains.values()))


def check_description(trial: Trial) -> None:
    """The adaptor's description is complete: a sentence, a version, a worker, requirements, a known format."""
    adaptor, toolchain = trial.adaptor, trial.adaptor.toolchain
    if not adaptor.summary.strip().endswith("."):
        raise CheckFailed(f"the summary is no sentence: {adaptor.summary!r}")
    if adaptor.version < 1:
        raise CheckFailed(f"the version is {adaptor.version}; the first is 1")
    for path in (toolchain.worker, toolchain.requirements, toolchain.lock):
        if not path.is_file():
            raise CheckFailed(f"there is no {path}")
    if adaptor.produces not in {*FORMATS, *toolchain.formats}:
        raise CheckFailed(f"the files of the format {adaptor.produces} are not declared: add it to Toolchain.formats")
    if "" in adaptor.accepts:
        raise CheckFailed("it accepts a format without a name")


def check_options(trial: Trial) -> None:
    """The defaults of the options are valid, survive JSON, cannot be changed, and unknown keys are errors."""
    model = trial.adaptor.options
    options = model()
    if model.model_validate_json(options.model_dump_json()) != options:
        raise CheckFailed("the default options change on their way through JSON")
    if not model.model_config.get("frozen"):
        raise CheckFailed("the options can be changed: derive them from hone_runtime.contract.adaptor.Options")
    try:
        model.model_validate({"surely_unknown": 1})
    except ValidationError:
        return
    raise CheckFailed("the options take unknown keys: derive them from hone_runtime.contract.adaptor.Options")


def check_schema(trial: Trial) -> None:
    """The options export a JSON Schema, which documentation and editors use."""
    schema = trial.adaptor.options.model_json_schema()
    json.dumps(schema)
    if schema.get("type") != "object":
        raise CheckFailed("the options' JSON Schema is not that of an object")


def check_imports(trial: Trial) -> None:
    """Importing the adaptor's module imports no toolchain."""
    adaptor = trial.adaptor
    names = [
        name
        for name, module in list(sys.modules.items())
        if isinstance(listed := getattr(module, "ADAPTORS", None), tuple | list)
        and any(one is adaptor for one in listed)
        # A module of tests, which may import the list, is not what describes the adaptor.
        and name != "__main__"
        and not hasattr(module, "AdaptorSuite")
    ]
    if not names:
        raise NotApplicable("no imported module lists the adaptor in ADAPTORS")
    name = min(names, key=len)
    done = _import_alone(name, os.pathsep.join(path for path in sys.path if path))
    if done.returncode:
        raise CheckFailed(f"the module {name} cannot be imported by itself: {done.stderr.strip()[-500:]}")
    if heavy := list_heavy().intersection(json.loads(done.stdout.splitlines()[-1])):
        raise CheckFailed(f"importing {name} imports {', '.join(sorted(heavy))}: that belongs into worker/")


@cache
def _import_alone(name: str, path: str) -> subprocess.CompletedProcess[str]:
    """Import a module, which may list many adaptors, in a process of its own, and print what was imported with it."""
    code = "import importlib, json, sys; importlib.import_module(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", code, name]
    variables = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def check_name(trial: Trial) -> None:
    """No other adaptor has this name; ``capabilities.yml`` names only adaptors of the toolchain, with usual figures."""
    adaptor, registered = trial.adaptor, read_catalogue().adaptors
    folder, known = adaptor.toolchain.folder.resolve(), registered.get(adaptor.name)
    if known is None:  # which others its toolchain has is not known before they are registered
        return
    if known.toolchain.folder.resolve() != folder:
        raise CheckFailed(f"the name {adaptor.name} is taken by an adaptor in {known.toolchain.folder}")
    names = [name for name, each in registered.items() if each.toolchain.folder.resolve() == folder]
    try:
        require_known_adaptors(adaptor.toolchain, names)
        read_prior(adaptor)
    except HoneError as error:
        raise CheckFailed(error.why) from error


def check_can_take(trial: Trial) -> None:
    """``can_take`` returns the same twice, and imports no toolchain."""
    modules = set(sys.modules)
    one, two = (trial.adaptor.can_take(trial.artifact, trial.options, trial.host) for _ in range(2))
    if one != two:
        raise CheckFailed(f"can_take says {one} and then {two} of the same artifact")
    if loaded := list_heavy().intersection(set(sys.modules) - modules):
        raise CheckFailed(f"can_take imported {', '.join(sorted(loaded))}")


def check_refusal(trial: Trial) -> None:
    """``can_take`` returns None or a refusal with a reason, whatever the artifact."""
    for artifact in _make_odd(trial.artifact):
        try:
            refusal = trial.adaptor.can_take(artifact, trial.options, trial.host)
        except Exception as error:
            raise CheckFailed(f"can_take raised {error!r} for {artifact.inputs} → {artifact.outputs}") from error
        if refusal is not None and not (isinstance(refusal, Refused) and refusal.reason.strip() and refusal.by):
            raise CheckFailed(f"can_take returned {refusal!r}: neither None nor a refusal with a reason")


def check_writes_inside(trial: Trial) -> None:
    """It writes only into its output and temporary directories."""
    outcome, strays = trial.first.outcome, trial.first.strays
    if isinstance(outcome, Failed) and outcome.trespass is Trespass.OUTSIDE:
        raise CheckFailed("it wrote outside its output and temporary directories", outcome)
    if strays:
        raise CheckFailed(f"it left {', '.join(strays)}")


def check_input_unchanged(trial: Trial) -> None:
    """Every byte of its input is as it was."""
    outcome = trial.first.outcome
    if isinstance(outcome, Failed) and outcome.trespass is Trespass.INPUT:
        raise CheckFailed("it wrote into its input", outcome)


def check_transforms(trial: Trial) -> None:
    """It transforms the artifact in its own environment within its limits; a refusal has a reason."""
    outcome = trial.first.outcome
    if isinstance(outcome, Refused):
        if not outcome.reason.strip():
            raise CheckFailed("it refused without a reason")
        raise NotApplicable(f"it refused: {outcome.reason}")
    if isinstance(outcome, Failed):
        if outcome.trespass is not None:
            raise NotApplicable("another check reports it")
        raise CheckFailed("the transformation failed", outcome)


def check_verifies(trial: Trial) -> None:
    """The output holds the format's files and the tensors that it declares."""
    trial.require_result()
    if isinstance(trial.verified, Failed):
        raise CheckFailed("the output does not verify", trial.verified)


def check_processes(trial: Trial) -> None:
    """It leaves no orphan process."""
    if left := trial.require_result().end.left_behind:
        raise CheckFailed(f"it left {left} process{'es' if left > 1 else ''} behind")


def check_log(trial: Trial) -> None:
    """It prints no more than its log keeps, so that no message is lost."""
    if left_out := trial.require_result().end.log_left_out:
        raise CheckFailed(f"it printed {left_out} bytes more than its log keeps")


def check_deterministic(trial: Trial) -> None:
    """The same job gives the same bytes, unless the adaptor says that it does not."""
    support = trial.adaptor.supports.get(Capability.DETERMINISTIC, Support.FULL)
    if support is not Support.FULL:
        raise NotApplicable(f"it says that determinism is {support}")
    trial.require_output()
    if isinstance(trial.second.outcome, Failed):
        raise CheckFailed("the second run of the same job failed", trial.second.outcome)
    digests = {digest_tree(Path(str(attempt.job.output))) for attempt in (trial.first, trial.second)}
    if len(digests) > 1:
        raise CheckFailed("the same job gave other bytes; if it must, say so: supports={Capability.DETERMINISTIC: …}")


def check_loads(trial: Trial) -> None:
    """Its toolchain loads the result in a new process."""
    if trial.outputs.load_failure is not None:
        raise CheckFailed("the result cannot be loaded", trial.outputs.load_failure)


def check_runs(trial: Trial) -> None:
    """The result runs at every batch size that it must serve."""
    outputs = trial.outputs
    if outputs.run_failure is not None:
        served = list(outputs.arrays) or "no shape"
        raise CheckFailed(f"the result runs at {served} and then fails", outputs.run_failure)


def check_shapes(trial: Trial) -> None:
    """Its outputs have the declared names, types and shapes."""
    promise, arrays = trial.require_output(), trial.outputs.arrays
    for shape in trial.served:
        if shape.name in arrays and (problem := _find_mismatch(promise.outputs, arrays[shape.name], shape)):
            failed = Failed(by=trial.adaptor.name, failure=FailureClass.BAD_OUTPUT, reason=problem)
            raise CheckFailed(f"wrong outputs at {shape.name}", failed)


def check_finite(trial: Trial) -> None:
    """Its outputs are finite numbers."""
    for shape, arrays in trial.outputs.arrays.items():
        for name, array in arrays.items():
            if np.issubdtype(array.dtype, np.inexact) and not np.isfinite(array).all():
                reason = f"{name} holds {np.sum(~np.isfinite(array))} values that are not finite"
                failed = Failed(by=trial.adaptor.name, failure=FailureClass.NUMERICS, reason=reason)
                raise CheckFailed(f"wrong outputs at {shape}", failed)


def check_threads(trial: Trial) -> None:
    """It may be called by several threads at once: each gets what it gets alone."""
    differing = trial.outputs.differing
    if isinstance(differing, Failed):
        raise CheckFailed(f"a call fails while {THREADS} threads call it", differing)
    if differing:
        reason = f"{differing} of {THREADS * CALLS} calls of {THREADS} threads gave something else than alone"
        raise CheckFailed(f"{reason}: let calls wait for one another where they share memory")


def _find_mismatch(promised: tuple[TensorSpec, ...], arrays: Arrays, shape: Shape) -> str | None:
    if {spec.name for spec in promised} != set(arrays):
        return f"promised the outputs {[spec.name for spec in promised]} and gave {list(arrays)}"
    for spec in promised:
        array = arrays[spec.name]
        sizes = [shape.sizes.get(dim) if isinstance(dim, str) else dim for dim in spec.shape]
        fits = len(sizes) == array.ndim and all(one in {None, had} for one, had in zip(sizes, array.shape, strict=True))
        if not fits or np.dtype(spec.dtype) != array.dtype:
            return f"promised {spec.name} as {spec.dtype} {spec.shape} and gave {array.dtype} {array.shape}"
    return None


def _make_odd(artifact: Artifact) -> tuple[Artifact, ...]:
    scalar = TensorSpec(name="scalar", dtype="float32", shape=())
    text = TensorSpec(name="text", dtype="str", shape=("batch", "length"))
    fixed = TensorSpec(name="fixed", dtype="float32", shape=(1, 3, 8, 8))
    changes = [(), (scalar,), (text,), (fixed,), (fixed, text, scalar)]
    return tuple(artifact.model_copy(update={"inputs": specs, "outputs": specs}) for specs in changes)


CHECKS: Final[Mapping[str, Callable[[Trial], None]]] = MappingProxyType(
    {
        name.removeprefix("check_").replace("_", "-"): function
        for name, function in list(globals().items())
        if name.startswith("check_")
    }
)
"""Every check by its name, in the order of the suite."""
