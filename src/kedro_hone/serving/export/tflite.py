"""Export of the files of a LiteRT winner."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kedro_hone.serving.export.compiled import find_compiled_misfit, write_compiled
from kedro_hone.serving.export.models import find_model_streams, find_threads, list_stream_notes
from kedro_hone.serving.export.target import Export, Request, Target
from kedro_hone.serving.winner import ServedWinner

_START: Final = """```console
pip install 'ai-edge-litert>=2.3,<2.4' numpy
```

```python
import json

from ai_edge_litert.interpreter import Interpreter

index = json.load(open("model/index.json"))
interpreter = Interpreter("model/{file}", num_threads={threads})
interpreter.allocate_tensors()
runner = interpreter.get_signature_runner("serving_default")


def run(arrays):
    outputs = runner(**{{spec["key"]: arrays[spec["name"]] for spec in index["inputs"]}})
    return {{spec["name"]: outputs[spec["key"]] for spec in index["outputs"]}}
```

There is a file for each of the recipe's shapes; a call must have exactly its sizes. The files store integers of 64 bits
as 32 bits: convert them."""


def _write(winner: ServedWinner, _request: Request) -> Export:
    file = f"model-{winner.artifact.static_shapes[0].name}.tflite"
    streams = find_model_streams(winner.artifact)
    threads = streams.threads if streams else find_threads(winner.artifact)
    notes = list_stream_notes(streams, "interpreter")
    return replace(write_compiled(winner, _START.format(file=file, threads=threads)), notes=notes)


TARGET: Final = Target(
    name="tflite",
    title="LiteRT files",
    find_misfit=lambda winner, request: find_compiled_misfit(winner, request, "tflite"),
    write=_write,
)
