"""Run a source to find shapes that its graph declares wrongly, and names that stand for two sizes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

Json = dict[str, Any]
Key = tuple[str, int]  # an axis of an input: the tensor's name, and the axis

BATCH = "batch"
_ROWS = 3
_TRIED = (8, 16, 32, 64, 224)
"""Sizes to try for a graph, and multiples of them for further names: some graphs reject small or odd sizes."""
_LONGEST = 5.0  # time limit of one run in seconds; after a run that reaches it, no further run is started


def correct(folder: Path, described: Json, requested: Mapping[str, int]) -> Json:
    """Return a description with measured shapes, and ``warnings`` about shapes that are declared wrongly.

    ``requested`` are the sizes of the recipe's first shape, by name. Equal names mean equal sizes. If the graph runs
    with two sizes for a name, and the recipe does not set it, each axis gets its own name. If the graph does not run
    with random numbers, the description is unchanged.
    """
    try:
        trial = _Trial(folder, described)
        base = trial.find_sizes(requested)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime raises classes of its own
        print(f"the declared shapes are not compared with a run: {error}")  # noqa: T201 - the step's log
        return described
    if base is None:
        return described
    inputs = trial.split_names(base, requested)
    outputs, warnings = trial.measure(base, inputs)
    return {**described, "inputs": inputs, "outputs": outputs, **({"warnings": warnings} if warnings else {})}


class _Trial:
    """A source's graph, run with random inputs of some shapes; sizes are those of each dynamic axis of the inputs."""

    def __init__(self, folder: Path, described: Json) -> None:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4  # no warnings about wrongly declared shapes, for which this class searches
        options.enable_mem_pattern, options.enable_mem_reuse = False, False  # they rely on the names of dimensions
        self._session = ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
        self._described, self._slow = described, False
        self._draw = np.random.default_rng(0)

    def find_sizes(self, requested: Mapping[str, int]) -> dict[Key, int] | None:
        """Return sizes at which the graph runs; None if it does not."""
        axes = _list_axes(self._described["inputs"])
        names = dict.fromkeys(axes.values())
        tried = [{name: size * (place + 1) for place, name in enumerate(names)} for size in _TRIED]
        for others in (*tried, {**tried[0], **requested}):
            sizes = {key: _ROWS if name == BATCH else others[name] for key, name in axes.items()}
            if self._run(sizes) is not None:
                return sizes
        return None

    def split_names(self, base: Mapping[Key, int], requested: Mapping[str, int]) -> list[Json]:
        """Return the inputs; each axis of a name gets its own name if the graph runs with another size at each."""
        axes = _list_axes(self._described["inputs"])
        split: dict[Key, str] = {}
        for name in dict.fromkeys(axes.values()):
            places = [key for key, other in axes.items() if other == name]
            if name == BATCH or name in requested or len(places) == 1:
                continue
            if self._run({**base, **{key: base[key] * (place + 1) for place, key in enumerate(places)}}) is not None:
                split |= {(tensor, axis): f"{tensor}_{axis}" for tensor, axis in places[1:]}
        return [
            {**spec, "shape": [split.get((spec["name"], axis), dim) for axis, dim in enumerate(spec["shape"])]}
            for spec in self._described["inputs"]
        ]

    def measure(self, base: Mapping[Key, int], inputs: list[Json]) -> tuple[list[Json], list[str]]:
        """Return the outputs with measured shapes, and the differences from the declared rank or size."""
        axes = _list_axes(inputs)
        first = self._run(base)
        changed = {}
        for name in dict.fromkeys(axes.values()):
            result = self._run({key: size * (2 if axes[key] == name else 1) for key, size in base.items()})
            if result is not None:
                changed[name] = result
        sizes = {name: base[key] for key, name in axes.items()}
        outputs, warnings = [], []
        for spec in self._described["outputs"]:
            if first is None or spec["name"] not in first:
                outputs.append(spec)
                continue
            others = {name: result[spec["name"]] for name, result in changed.items()}
            shape = _find_shape(spec, first[spec["name"]], sizes, others)
            outputs.append({**spec, "shape": shape})
            declared, found = spec["shape"], first[spec["name"]]
            fits = len(declared) == len(found) and all(
                isinstance(dim, str) or dim == size for dim, size in zip(declared, found, strict=True)
            )
            if declared and not fits:  # without a declared shape, nothing is wrong
                shapes = f"declared as {_format_shape(declared)}, and a run returned {_format_shape(found)}"
                warnings.append(f"its output {spec['name']!r} is {shapes}: the run's result is used")
        return outputs, warnings

    def _run(self, sizes: Mapping[Key, int]) -> dict[str, tuple[int, ...]] | None:
        """Return the shapes of the outputs; None if the graph does not run with inputs of these sizes."""
        if self._slow:
            return None
        feeds = {}
        for spec in self._described["inputs"]:
            shape = [sizes.get((spec["name"], axis), dim) for axis, dim in enumerate(spec["shape"])]
            dtype = np.dtype(spec["dtype"])
            drawn = self._draw.random(shape) if dtype.kind == "f" else self._draw.integers(0, 2, shape)
            feeds[spec["name"]] = drawn.astype(dtype)
        names, options = [value.name for value in self._session.get_outputs()], ort.RunOptions()
        timer = threading.Timer(_LONGEST, self._end, (options,))
        timer.start()
        try:
            found = self._session.run(names, feeds, options)
        except Exception as error:  # noqa: BLE001 - as above
            print(f"it does not run with {sizes}: {str(error)[:300]}")  # noqa: T201 - the step's log
            return None
        finally:
            timer.cancel()
        return {name: np.shape(value) for name, value in zip(names, found, strict=True)}

    def _end(self, options: Any) -> None:
        """Stop a run, which may be a loop that never ends with random numbers, and start no further one."""
        self._slow = options.terminate = True


def _list_axes(inputs: list[Json]) -> dict[Key, str]:
    return {
        (spec["name"], axis): dim for spec in inputs for axis, dim in enumerate(spec["shape"]) if isinstance(dim, str)
    }


def _find_shape(
    spec: Json, found: tuple[int, ...], sizes: Mapping[str, int], others: Mapping[str, tuple[int, ...]]
) -> list[int | str]:
    """Return an output's shape: correct declared names, else the name of the input size on which an axis depends.

    ``others`` are the shapes with each of the inputs' sizes doubled, by name, if the graph runs with it.
    """
    declared = spec["shape"] if len(spec["shape"]) == len(found) else [None] * len(found)
    shape: list[int | str] = []
    for axis, (dim, size) in enumerate(zip(declared, found, strict=True)):
        follows = [name for name, other in others.items() if len(other) == len(found) and other[axis] != size]
        equal = [name for name in follows if size == sizes[name] and others[name][axis] == 2 * size]
        own = f"{spec['name']}_{axis}"
        if dim in equal:
            shape.append(str(dim))
        elif equal and len(follows) == 1:
            shape.append(equal[0])
        elif isinstance(dim, str) and (dim not in sizes or dim not in others):
            shape.append(dim)
        elif follows or (dim is None and others.keys() != sizes.keys()):
            shape.append(own)
        else:
            shape.append(int(size))
    return shape


def _format_shape(shape: Any) -> str:
    return f"({', '.join(map(str, shape))})"
