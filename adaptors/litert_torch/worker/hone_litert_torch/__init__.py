"""LiteRT Torch's own code: open an exported program, and convert it for each shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hone_litert as litert
import hone_pytorch as pytorch
import torch

from hone_runtime.sessions import compiled

Json = dict[str, Any]

_LARGEST = 2_000_000_000  # in bytes: the offsets in a file have 32 bits


def transform(job: Json) -> Json:
    """Write ``index.json`` and a file for each of the recipe's shapes."""
    program, described = pytorch.jobs.read_program(job)
    inputs, outputs = described["inputs"], described["outputs"]
    if sum(value.numel() * value.element_size() for value in program.state_dict.values()) > _LARGEST:
        return {"refused": f"its weights have more than {_LARGEST} bytes, which no file of LiteRT holds"}
    shapes = [shape for shape in job["shapes"] if compiled.fits(inputs, shape["sizes"])]
    if not shapes:
        return {"refused": f"the model is fixed to {inputs[0]['shape']}, which is none of the recipe's shapes"}
    flat, output = pytorch.models.flatten_program(program), Path(job["output"])
    for shape in shapes:
        examples = pytorch.jobs.make_examples(inputs, shape["sizes"])
        try:
            _convert(flat, examples, compiled.find_file(output, shape, litert.session.ENDING))
        except Exception as error:  # noqa: BLE001 - torch, JAX and MLIR raise dozens of classes
            failed: Json = pytorch.jobs.fail("convert", f"litert-torch cannot convert it for {shape['name']}", error)
            return failed
    index = {
        "inputs": [{**spec, "key": f"args_{number}"} for number, spec in enumerate(inputs)],
        "outputs": [{**spec, "key": f"output_{number}"} for number, spec in enumerate(outputs)],
    }
    compiled.write_index(output, index)
    return {"outputs": outputs, "static_shapes": [shape["name"] for shape in shapes]}


def _convert(flat: Any, examples: tuple[Any, ...], path: Path) -> None:
    import litert_torch

    with torch.no_grad():
        litert_torch.convert(flat, examples).export(str(path))


def describe(job: Json) -> Json:
    """Return the specs of the written files, as LiteRT reads them."""
    described: Json = litert.describe(job)
    return described
