"""Sessions: a winner is opened in this process by its runtime's worker file, as installed with kedro-hone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from hone_runtime.contract.catalogue import find_installed, find_used, read_catalogue
from hone_runtime.contract.job import Job, JobInput
from hone_runtime.contract.toolchain import UNTRACKED, Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.learner.checks import check_artifact
from hone_runtime.learner.forks import ForkedSession
from hone_runtime.learner.notes import choose_notes
from hone_runtime.learner.strangers import refuse_strange_files
from hone_runtime.sessions.streams import find_streams, share_threads
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.base import Format, Json
from hone_runtime.values.composite import read_parts
from hone_runtime.worker.packages import import_worker

_RUNS: Final = "Opening such a file runs the code in it, with your rights."


def refuse_code(artifact: Artifact, files: Path) -> None:
    """Refuse an artifact that is neither signed nor trusted, if opening it here could run code of its author.

    This check imports no worker and opens no file except configurations, which are data.

    Raises:
        HoneError: ``native-not-trusted``; as in ``refuse_strange_files`` or ``check_artifact``; or as in
            ``open_session`` if its toolchain is not installed.
    """
    if artifact.runtime is None:
        return
    toolchain = _find_toolchain(artifact)
    check_artifact(artifact)
    if artifact.format in toolchain.code:
        why = f"{toolchain.name} writes code from it and runs that, with your rights."
        raise explain_native(
            artifact.format,
            why=why if artifact.format in toolchain.generated else _RUNS,
            hint='or trust whoever can write to the registry: load(…, trust=["native"])',
        )
    refuse_strange_files(artifact.format, files)


def is_code(artifact: Artifact) -> bool:
    """Return whether opening an artifact may run code of its author."""
    return artifact.runtime is not None and artifact.format in _find_toolchain(artifact).code


def explain_native(form: Format, *, hint: str, why: str = _RUNS) -> HoneError:
    """Return the error for a model that is code, and neither signed nor trusted; ``hint`` is a clause."""
    return HoneError(
        "native-not-trusted",
        f"The model is code ({form}), and it is not trusted.",
        why=why,
        hint=f"Check its signature: load(…, verify=kedro_hone.Policy(keys=[…])); {hint}.",
    )


def choose_threads(artifact: Artifact, threads: int | None) -> int:
    """Return a runtime's number of threads: as requested, else as measured, else one per core.

    A manifest may be untrusted: its value is limited to 64 or four per core, whichever is more.
    """
    cores = len(os.sched_getaffinity(0))
    measured: int = artifact.metadata.get("threads") or cores
    return threads or min(measured, max(64, 4 * cores))


def count_calls(artifact: Artifact, threads: int) -> int:
    """Return how many calls of an artifact to make at once, if its runtime has this number of threads.

    With streams these are the threads of all of them, and each stream computes a call. If the runtime chooses the
    number of streams, it is at most one for each thread, and further calls wait for a stream. Without streams each call
    has all of these threads, and there are as many calls as the cores allow. A composite has the calls of the part with
    the most.
    """
    options = [part.run_options for part in read_parts(artifact)] or [artifact.run_options]
    return max(_count_calls(one, threads) for one in options)


def _count_calls(options: Mapping[str, Json], threads: int) -> int:
    streams = find_streams(options)
    if streams is None:
        return max(1, len(os.sched_getaffinity(0)) // threads)
    return threads if streams == "auto" else share_threads(threads, streams)[0]


def open_session(artifact: Artifact, files: Path, *, threads: int | None) -> Any:
    """Open an artifact by its runtime's ``load``; the ``run`` of the session takes and returns arrays by name.

    Only files of installed packages are executed. If ``threads`` is None: as many as measured, else all cores.

    Raises:
        ImportError: The runtime is not installed; the message explains how to install it.
        HoneError: ``model-unsupported``: it has no runtime, or its toolchain is not installed; or as in
            ``check_artifact``.
    """
    if artifact.runtime is None:
        raise HoneError(
            "model-unsupported",
            f"A model of the format {artifact.format} cannot run by itself.",
            why="It is a step on the way to a winner; no runtime is recorded for it.",
            hint="Load what was published, or the end of a route.",
        )
    toolchain = _find_toolchain(artifact)
    check_artifact(artifact)
    for name, value in {**UNTRACKED, **toolchain.environment}.items():
        # As in the measuring worker; the user's own settings are unchanged. They stay set, since runtimes read some of
        # them later: AOTInductor the one that lets it check inputs, at the first call.
        os.environ.setdefault(name, value)
    job = Job(
        function="load",
        worker=str(toolchain.worker),
        adaptor=toolchain.name,
        input=JobInput.of(artifact, files).model_copy(update={"metadata": choose_notes(artifact, toolchain)}),
        shapes=artifact.static_shapes,
        threads=choose_threads(artifact, threads),
        produces=artifact.format,
    )
    try:
        load = partial(_import_worker(toolchain).load, job.model_dump(mode="json"))
        return ForkedSession(load, runtime=toolchain.name, survives=toolchain.survives_fork, threads=job.threads)
    except ImportError as error:
        raise ImportError(
            f"This model runs in {toolchain.name}, which cannot be imported ({error}). {_advise(toolchain)}",
            name=error.name,
        ) from error


def _advise(toolchain: Toolchain) -> str:
    """Return how to install a toolchain's runtime; a name that is on no index could be registered by an attacker."""
    if not toolchain.lockable:
        return "Package indexes lack it: install what its author offers, and no package of a similar name."
    needs = (f"kedro-hone[{toolchain.extra}]",) if toolchain.extra else toolchain.runtime_requirements
    packages = " ".join(f"'{need}'" for need in needs)
    return f"Install it: pip install {packages or toolchain.name}"


def _find_toolchain(artifact: Artifact) -> Toolchain:
    """Return the runtime's toolchain, which must run the format.

    Otherwise a native file could pass as another format.
    """
    name = str(artifact.runtime)
    toolchain = find_installed(name)
    if toolchain is None:
        known = ", ".join(sorted(read_catalogue().toolchains))
        raise HoneError(
            "model-unsupported",
            f"The model's runtime {name!r} is not known here.",
            why=f"It was made with a toolchain that is not installed; there are: {known}.",
            hint="Install the package that brings the toolchain; `requirements.txt` next to the model names it.",
        )
    if artifact.format not in toolchain.runs:
        raise HoneError(
            "model-unsupported",
            f"{name} runs no models of the format {artifact.format}.",
            why=f"It runs: {', '.join(sorted(toolchain.runs)) or 'none'}.",
            hint="Publish the model again, or install the version of the toolchain that it was made with.",
        )
    return toolchain


def _import_worker(toolchain: Toolchain) -> Any:
    """Import a toolchain's worker: the package ``hone_<toolchain>``, or the file of a third party's."""
    if not toolchain.worker.is_file():
        raise HoneError(
            "model-unsupported",
            f"The toolchain {toolchain.name} has no worker.",
            why=f"{toolchain.worker} is not there.",
            hint="Install kedro-hone, or the toolchain's package, again.",
        )
    uses = [str(worker.parent) for worker in find_used(toolchain)]
    return import_worker(str(toolchain.worker), uses=uses, name=f"hone_worker_{toolchain.name}")
