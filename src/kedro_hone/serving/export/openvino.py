"""Export of an OpenVINO IR as files, with the properties by which it was measured."""

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
pip install 'openvino>=2026.4,<2027' numpy
```

```python
import json

import numpy as np
import openvino as ov

properties = {properties!r}
compiled = ov.Core().compile_model("model/model.xml", "CPU", properties)
{golden}```"""

_GOLDEN: Final = """
TYPES = {{"FP16": "float16", "FP32": "float32", "FP64": "float64"}}
rows = {{
    tensor["name"]: np.array(tensor["data"], TYPES.get(tensor["datatype"], tensor["datatype"].lower())).reshape(
        tensor["shape"]
    )
    for tensor in json.load(open("golden/request.json"))["inputs"]
}}
results = compiled(rows)
outputs = {{name: results[name] for name in {names!r}}}  # those in golden/response.json, within its tolerance
"""


def _find_misfit(winner: ServedWinner, request: Request) -> str:
    if winner.artifact.format == "composite":
        return "a composite is several models, and this is a single one"
    return find_misfit(winner, {"openvino-ir"}) or (
        "it is no server, which --max-batch needs" if request.max_batch else ""
    )


def _write(winner: ServedWinner, _request: Request) -> Export:
    (model,) = list_models(winner)
    properties = dict(winner.artifact.run_options)
    if (threads := find_threads(winner.artifact)) is not None:
        properties["INFERENCE_NUM_THREADS"] = threads
    streams = find_model_streams(winner.artifact)
    if streams and not streams.auto:
        properties["NUM_STREAMS"] = streams.calls  # at most one for each thread
    names = [tensor.name for tensor in model.outputs]
    return Export(
        files={_FOLDER / name: path for name, path in model.files.items()},
        models=(model,),
        start=_START.format(
            properties=properties, golden=_GOLDEN.format(names=names) if model.golden is not None else ""
        ),
        notes=list_stream_notes(streams, "request"),
        places=(_FOLDER,),
    )


TARGET: Final = Target(name="openvino", title="an OpenVINO IR", find_misfit=_find_misfit, write=_write)
