"""Export of the programs of an ExecuTorch winner."""

from __future__ import annotations

from typing import Final

from kedro_hone.serving.export.compiled import find_compiled_misfit, write_compiled
from kedro_hone.serving.export.target import Target

_START: Final = """```python
import torch
from executorch.runtime import Runtime

method = Runtime.get().load_program("model/{file}").load_method("forward")
outputs = method.execute([torch.from_numpy(array) for array in arrays])  # in the order of the inputs
```

There is a file for each of the recipe's shapes; a call must have exactly its sizes."""

TARGET: Final = Target(
    name="executorch",
    title="ExecuTorch programs",
    find_misfit=lambda winner, request: find_compiled_misfit(winner, request, "executorch"),
    write=lambda winner, _: write_compiled(
        winner, _START.format(file=f"model-{winner.artifact.static_shapes[0].name}.pte")
    ),
)
