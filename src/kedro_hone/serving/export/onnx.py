"""Export of an ONNX model as a file, with the settings of ONNX Runtime by which it was measured."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from kedro_hone.serving.export.models import (
    find_misfit,
    find_model_streams,
    find_threads,
    list_models,
    list_stream_notes,
)
from kedro_hone.serving.export.target import Export, Request, Target
from kedro_hone.serving.winner import ServedWinner

_FOLDER: Final = PurePosixPath("model")

_START: Final = """```console
pip install 'onnxruntime>=1.31,<2' numpy
```

```python
import json
import os

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # ONNX Runtime reads it when it is imported
import onnxruntime as ort

options = ort.SessionOptions()
{settings}session = ort.InferenceSession("model/model.onnx", options, providers=["CPUExecutionProvider"])
{golden}```"""

_GOLDEN: Final = """
TYPES = {"FP16": "float16", "FP32": "float32", "FP64": "float64", "BYTES": "str"}
rows = {
    tensor["name"]: np.array(tensor["data"], TYPES.get(tensor["datatype"], tensor["datatype"].lower())).reshape(
        tensor["shape"]
    )
    for tensor in json.load(open("golden/request.json"))["inputs"]
}
names = [output.name for output in session.get_outputs()]
outputs = dict(zip(names, session.run(names, rows)))  # those in golden/response.json, within its tolerance
"""


def _find_misfit(winner: ServedWinner, request: Request) -> str:
    if winner.artifact.format == "composite":
        return "a composite is several models, and this is a single file"
    return find_misfit(winner, {"onnx"}) or ("it is no server, which --max-batch needs" if request.max_batch else "")


def _write(winner: ServedWinner, _request: Request) -> Export:
    (model,) = list_models(winner)
    metadata, lines = winner.artifact.metadata, []
    if winner.artifact.run_options.get("graph_optimization") == "disabled":
        level = "ORT_DISABLE_ALL"  # it was optimized when it was saved
        lines.append(f"options.graph_optimization_level = ort.GraphOptimizationLevel.{level}")
    streams = find_model_streams(winner.artifact)
    threads = streams.threads if streams else find_threads(winner.artifact)
    if threads is not None:
        lines.append(f"options.intra_op_num_threads = {threads}")
    if crashes := metadata.get("crashes"):
        lines.append(f'options.add_session_config_entry("optimization.disable_specified_optimizers", {str(crashes)!r})')
    return Export(
        files={_FOLDER / name: path for name, path in model.files.items()},
        models=(model,),
        start=_START.format(
            settings="".join(f"{line}\n" for line in lines), golden=_GOLDEN if model.golden is not None else ""
        ),
        notes=list_stream_notes(streams, "session"),
        places=(_FOLDER,),
    )


TARGET: Final = Target(name="onnx", title="an ONNX file", find_misfit=_find_misfit, write=_write)
