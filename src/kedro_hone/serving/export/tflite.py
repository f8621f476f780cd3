"""Export of the files of a LiteRT winner."""

from __future__ import annotations

from typing import Final

from kedro_hone.serving.export.compiled import find_compiled_misfit, write_compiled
from kedro_hone.serving.export.models import find_threads
from kedro_hone.serving.export.target import Export, Request, Target
from kedro_hone.serving.winner import ServedWinner

_START: Final = """```python
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter("model/{file}", num_threads={threads})
interpreter.allocate_tensors()
run = interpreter.get_signature_runner("serving_default")
outputs = run(**arrays)  # by the `key` of each tensor in model/index.json
```

There is a file for each of the recipe's shapes; a call must have exactly its sizes. Integers of 64 bits are stored
as 32 bits."""


def _write(winner: ServedWinner, _request: Request) -> Export:
    file = f"model-{winner.artifact.static_shapes[0].name}.tflite"
    return write_compiled(winner, _START.format(file=file, threads=find_threads(winner.artifact)))


TARGET: Final = Target(
    name="tflite",
    title="LiteRT files",
    find_misfit=lambda winner, request: find_compiled_misfit(winner, request, "tflite"),
    write=_write,
)
