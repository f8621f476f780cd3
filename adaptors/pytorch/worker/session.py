"""Run models of PyTorch's formats on numpy arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import jobs, models, structure
from .program import PlainProgram

Array = np.ndarray[Any, Any]


class Session:
    """A loaded model.

    Attributes:
        inputs: The inputs' names in the order of the model's arguments.
        outputs: The names given to its results, in order.
    """

    def __init__(
        self, call: Callable[..., Any], *, inputs: Sequence[str], outputs: Sequence[str], keywords: Sequence[str] = ()
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._call, self._keywords = call, tuple(keywords)

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Run the model as its author would: arrays to tensors, one call, tensors to arrays."""
        tensors = [torch.from_numpy(feeds[name]) for name in self.inputs]
        with torch.inference_mode():
            value = models.call(self._call, tensors, self._keywords) if self._keywords else self._call(*tensors)
        if isinstance(value, torch.Tensor):
            return {self.outputs[0]: value.numpy()}
        named = structure.name_outputs(value)
        return {name: tensor.numpy() for name, tensor in zip(self.outputs, named.values(), strict=True)}


class AuthorsSession(Session):
    """A source model, which is timed as its author calls it: with tensors, and in inference mode."""

    def prepare(self, feeds: dict[str, Array]) -> Callable[[], Any]:
        """Return one call of the model on these arrays, without the conversion of arrays."""
        tensors = [torch.from_numpy(feeds[name]) for name in self.inputs]
        args, kwargs = () if self._keywords else tensors, dict(zip(self._keywords, tensors, strict=False))
        call = self._call.prepare(tensors) if isinstance(self._call, PlainProgram) else self._call

        def run() -> Any:
            with torch.inference_mode():
                return call(*args, **kwargs)

        return run


class StaticPackages:
    """AOTInductor packages, one for each shape that the recipe asks for.

    They are opened by the C++ loader itself: ``aoti_load_package`` imports all of Inductor and has a C++ compiler try
    three programs, which made the first start take 14 seconds instead of two. What it checks with them,
    the kind of CPU, is checked here.

    Raises:
        RuntimeError: The packages were compiled for another kind of CPU.
    """

    def __init__(self, folder: Path) -> None:
        index = json.loads((folder / "index.json").read_text())
        here = torch.backends.cpu.get_cpu_capability()
        if index["cpu"] != here:
            raise RuntimeError(f"compiled for a CPU with {index['cpu']}; this one has {here}")
        self.inputs = tuple(spec["name"] for spec in index["inputs"])
        self.outputs = tuple(spec["name"] for spec in index["outputs"])
        self._loaders = {
            tuple(map(tuple, each["shapes"])): _open_package(folder / each["file"]) for each in index["packages"]
        }

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Run the package of exactly these shapes.

        Raises:
            ValueError: No package was compiled for them. A package itself would return the wrong number of rows.
        """
        shapes = tuple(feeds[name].shape for name in self.inputs)
        loader = self._loaders.get(shapes)
        if loader is None:
            raise ValueError(f"compiled for the shapes {sorted(self._loaders)} and fed {shapes}")
        values = loader.boxed_run([torch.from_numpy(feeds[name]) for name in self.inputs])
        return {name: value.numpy() for name, value in zip(self.outputs, values, strict=True)}


def _open_package(path: Path) -> Any:
    """Open one package of AOTInductor with its one model and one runner."""
    return torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, -1)  # noqa: FBT003, SLF001


def open_session(job: models.Job) -> Session | StaticPackages:
    """Return a session on ``job["input"]``; what is compiled at each start is warmed up at every known shape."""
    artifact, trust = job["input"], job["trust"]
    folder, form, options = Path(artifact["path"]), artifact["format"], artifact.get("run_options") or {}
    torch.set_num_threads(job["threads"])
    os.environ.setdefault("AOTI_RUNTIME_CHECK_INPUTS", "1")  # read when a package is loaded; without it nothing checks
    if form == "aot-inductor":
        return StaticPackages(folder)
    names = {side: [spec["name"] for spec in artifact[side]] for side in ("inputs", "outputs")}
    compiled = options.get("compile")
    call: Callable[..., Any]
    keywords: tuple[str, ...] = ()
    if form == "pytorch-module":
        call = models.read_module(folder, trust)
        keywords = models.find_keywords(call, names["inputs"])
    elif form == "pytorch":
        program = models.read_program(folder / "model.pt2", trust)
        if compiled:
            flat = models.flatten_program(program)
            call, keywords = flat.model, flat.keywords
        else:
            call = PlainProgram(program)
    elif form == "torchscript":
        call = torch.jit.load(folder / "model.ts", map_location="cpu")
    else:
        raise KeyError(form)
    if not compiled:
        kind = Session if form == "torchscript" else AuthorsSession
        return kind(call, keywords=keywords, **names)
    call = torch.compile(call, mode=options.get("mode", "default"), dynamic=options.get("dynamic"))
    session = Session(call, keywords=keywords, **names)
    for shape in job["shapes"]:
        tensors = jobs.make_examples(artifact["inputs"], shape["sizes"], None)
        session.run({name: tensor.numpy() for name, tensor in zip(session.inputs, tensors, strict=True)})
    return session
