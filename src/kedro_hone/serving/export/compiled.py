"""Export of models with a file for each compiled shape: programs of ExecuTorch, and files of LiteRT."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from hone_runtime.values.base import Format
from kedro_hone.serving.export.markdown import format_text
from kedro_hone.serving.export.models import find_misfit, list_files, list_models
from kedro_hone.serving.export.target import Export, Request
from kedro_hone.serving.winner import ServedWinner

_FOLDER: Final = PurePosixPath("model")


def find_compiled_misfit(winner: ServedWinner, request: Request, form: Format) -> str:
    """Return why a winner cannot be exported as files of a format, as a clause; empty if it can."""
    return find_misfit(winner, {form}) or ("it is no server, which --max-batch needs" if request.max_batch else "")


def write_compiled(winner: ServedWinner, start: str) -> Export:
    """Return the export of all files with the index, and ``start`` with a table of the files in its end."""
    models = list_models(winner)
    rows = [f"| `model/{next(iter(model.files))}` | {format_text(model.serves)} |" for model in models]
    table = "\n".join(["| file | sizes |", "| --- | --- |", *rows])
    return Export(
        files={_FOLDER / name: path for name, path in list_files(winner.files).items()},
        models=models,
        start=f"{start}\n\n{table}\n\n`model/index.json` has the names, the types and the order of the tensors.",
        places=(_FOLDER,),
    )
