"""The README of an export: what it contains, how to start it, and how to compare it with the golden rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Final

import kedro_hone
from hone_runtime.text import clean_line
from kedro_hone.serving.export.markdown import format_code, format_text
from kedro_hone.serving.export.models import Model
from kedro_hone.serving.export.target import Export, Target
from kedro_hone.serving.tensors import DYNAMIC, Tensor
from kedro_hone.serving.winner import ServedWinner

_CURL: Final = """```console
curl --fail --silent --header 'Content-Type: application/json' --data-binary @{golden}/request.json \\
  http://localhost:{port}/v2/models/{name}/infer
```"""

_TOLERANCE: Final = (
    "Each number may differ from that in `response.json` by its `parameters.tolerance`, times the largest absolute "
    "value of that output. Integers of 32 and 64 bits, and texts, must be equal."
)


def write_readme(winner: ServedWinner, target: Target, export: Export) -> str:
    """Return the README in Markdown."""
    return "\n\n".join(_list_paragraphs(winner, target, export)) + "\n"


def name_golden_folder(export: Export, model: Model) -> str:
    """Return the folder with a model's golden rows: ``golden``, with a folder for each if there are several models."""
    return "golden" if len(export.models) == 1 else f"golden/{model.name}"


def _list_paragraphs(winner: ServedWinner, target: Target, export: Export) -> Iterator[str]:
    artifact = winner.artifact
    here = winner.download.name or PurePath(winner.uri).name  # no path of this machine
    origin = winner.uri if winner.download.version else here
    yield f"# {winner.name} for {target.title}"
    yield (
        f"Written by kedro-hone {kedro_hone.__version__} from {format_code(origin)} (`{artifact.digest}`): "
        f"a model in {format_text(artifact.format)}, measured in {format_text(artifact.runtime)}."
    )
    if len(export.models) > 1 and export.port is not None:
        yield _describe_models(export.models)
    yield "## Start" if export.port is not None else "## Open"
    yield export.start
    yield "## Check"
    yield from _describe_check(export)
    yield "## Inputs and outputs"
    yield _describe_tensors(export.models[0])
    notes = [*export.notes, *_list_general_notes(export)]
    if target.unverified:
        notes.append(f"**Unverified:** {target.unverified}")
    if notes:
        yield "## Notes"
        yield "\n".join(f"- {clean_line(note)}" for note in notes)


def _describe_models(models: Iterable[Model]) -> str:
    rows = [
        f"| `{model.name}` | {format_text(model.serves)} | {format_text(model.artifact.format)} |" for model in models
    ]
    lines = ["| model | calls that it is for | format |", "| --- | --- | --- |", *rows]
    table = "\n".join(lines)
    return f"The winner is several models. No server chooses among them: call the one for your sizes.\n\n{table}"


def _describe_check(export: Export) -> Iterator[str]:
    compared = [model for model in export.models if model.golden is not None]
    if not compared:
        yield "There are no golden rows that can be sent: compare the outputs with `kedro_hone.load` yourself."
        return
    for model in compared:
        folder = name_golden_folder(export, model)
        if export.port is None:
            yield f"`{folder}/request.json` has the inputs, and `{folder}/response.json` the outputs."
        else:
            yield _CURL.format(golden=folder, port=export.port, name=model.name)
            yield f"The answer must be that in `{folder}/response.json`."
    yield _TOLERANCE


def _describe_tensors(model: Model) -> str:
    rows = [
        f"| {side} | {format_code(tensor.name)} | {tensor.datatype} | {_format_shape(tensor)} |"
        for side, tensors in (("input", model.inputs), ("output", model.outputs))
        for tensor in tensors
    ]
    return "\n".join(["| | name | type | shape |", "| --- | --- | --- | --- |", *rows])


def _format_shape(tensor: Tensor) -> str:
    return f"({', '.join('any' if size == DYNAMIC else str(size) for size in tensor.shape)})"


def _list_general_notes(export: Export) -> Iterator[str]:
    if any(model.artifact.metadata.get("compiled_shapes") for model in export.models):
        yield (
            "kedro-hone opens this model once more for each of the recipe's shapes, which is faster for small ones. "
            "Other servers open it once for any size, so calls of these shapes may be slower than in the report."
        )
    tensors = [tensor for model in export.models for tensor in (*model.inputs, *model.outputs)]
    if export.port is not None and any(tensor.datatype in {"FP16", "BF16"} for tensor in tensors):
        yield "Most servers accept numbers of 16 bits only in the binary form of the protocol, and not in JSON."
