"""Exports of winners: which targets fit one, and the folder of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.learner import Learner
from hone_runtime.learner.checks import check_artifact
from hone_runtime.text import begin_sentence
from hone_runtime.values.composite import read_parts
from kedro_hone.serving.export import executorch, kserve, mlserver, onnx, openvino, ovms, tflite, triton
from kedro_hone.serving.export.check import find_check_gap
from kedro_hone.serving.export.folder import write_folder
from kedro_hone.serving.export.golden_rows import list_golden_files
from kedro_hone.serving.export.readme import name_golden_folder, write_readme
from kedro_hone.serving.export.target import Export, Files, Request, Target
from kedro_hone.serving.server.independence import check_batching
from kedro_hone.serving.winner import ServedWinner

_MODULES: Final = (triton, ovms, kserve, mlserver, onnx, openvino, executorch, tflite)
TARGETS: Final[Mapping[str, Target]] = MappingProxyType({module.TARGET.name: module.TARGET for module in _MODULES})
"""The targets by the values of ``--to``."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A folder that was written.

    Attributes:
        folder: The folder.
        target: Its target.
        export: What was written.
        gap: Why the golden rows were not run in the written files, as a clause; empty if they were, and agreed.
    """

    folder: Path
    target: Target
    export: Export
    gap: str


def list_misfits(winner: ServedWinner, request: Request) -> dict[str, str]:
    """Return for each target why it does not fit a winner, as a clause; empty if it fits.

    Raises:
        HoneError: ``model-corrupt`` or ``model-unsupported``: the winner's manifest is not valid.
    """
    check_artifact(winner.artifact)
    return {name: target.find_misfit(winner, request) for name, target in TARGETS.items()}


def export_winner(winner: ServedWinner, name: str, request: Request, folder: Path) -> Exported:
    """Write a winner for a target into a folder, after its golden rows agreed in the written files.

    Args:
        winner: The winner.
        name: The target, a key of ``TARGETS``.
        request: What was requested.
        folder: The folder, which must not exist or be empty.

    Raises:
        HoneError: ``serving-unsupported``: the target cannot run the winner; ``option-invalid``: the folder has files,
            or the target needs an option; ``winner-differs``; ``batching-unfit``: calls may not be merged.
    """
    target, misfits = TARGETS[name], list_misfits(winner, request)
    if misfits[name]:
        raise _explain_misfit(winner, target, misfits)
    if target is kserve.TARGET and not request.storage_uri:
        raise HoneError(
            "option-invalid",
            "An export to KServe needs --storage-uri.",
            why="The InferenceService names the place from which KServe loads the models.",
            hint="Name it, such as --storage-uri s3://models/digits, and copy the exported models there.",
        )
    unchecked = _check_merging(winner, request.max_batch) if request.max_batch else ""
    export = target.write(winner, request)
    if unchecked:
        export = replace(export, notes=(*export.notes, unchecked))
    files = _complete(winner, target, export)
    gap = write_folder(files, folder, lambda written: find_check_gap(export, written, winner.golden))
    return Exported(folder=folder, target=target, export=export, gap=gap)


def _check_merging(winner: ServedWinner, rows: int) -> str:
    """Check that a server may merge calls, and return why that was not possible here, as a sentence; else empty.

    Raises:
        HoneError: ``batching-unfit``.
    """
    try:
        run = Learner(winner.artifact, winner.files, interface="onnx").run
    except ImportError as error:
        return f"Whether rows of merged calls are independent was not checked: the runtime is not installed ({error})."
    check_batching(winner.name, winner.artifact, run, golden=winner.golden, rows=rows)
    return ""


def _complete(winner: ServedWinner, target: Target, export: Export) -> Files:
    """Return the files of an export with its README and the golden rows."""
    files = {**export.files, PurePosixPath("README.md"): write_readme(winner, target, export).encode()}
    for model in export.models:
        if model.golden is not None:
            place = name_golden_folder(export, model)
            golden = list_golden_files(model.golden, model.inputs, model.outputs, name=model.name)
            files |= {PurePosixPath(place) / name: content for name, content in golden.items()}
    return dict(sorted(files.items()))


def _explain_misfit(winner: ServedWinner, target: Target, misfits: Mapping[str, str]) -> HoneError:
    fitting = [name for name, misfit in misfits.items() if not misfit]
    candidates = [part.candidate for part in read_parts(winner.artifact)]
    advice = f"These targets fit it: {', '.join(fitting)}."
    if candidates:
        advice += f" Or publish one of its models alone: kedro-hone choose {' or '.join(candidates)}."
    return HoneError(
        "serving-unsupported",
        f"{winner.name} cannot be exported to {target.title}.",
        why=f"{begin_sentence(misfits[target.name])}.",
        hint=advice,
    )
