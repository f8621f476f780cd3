"""The rows of a training: inputs of the training and search splits, and the source's outputs for both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from hone_runtime.sessions import shapes
from hone_runtime.tuning.judge import Judge
from hone_runtime.worker.refusal import UnsuitedError

from .layers import call_module
from .progress import print_line

Json = dict[str, Any]
Tensors = tuple[torch.Tensor, ...]
_ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Data:
    """What a training reads.

    Attributes:
        training: The tensors of the training split, rows first.
        training_outputs: The source's outputs for them, those with floating-point numbers.
        search: The tensors of the search split.
        search_outputs: The source's outputs for them.
        learned: The positions of the outputs with floating-point numbers.
        fixed: The fixed batch size of the model; None if it is free.
        judge: The program's metric on the search split.
        outputs: The names of all outputs.
    """

    training: Tensors
    training_outputs: Tensors
    search: Tensors
    search_outputs: Tensors
    learned: tuple[int, ...]
    fixed: int | None
    judge: Judge
    outputs: tuple[str, ...]

    @cached_property
    def scale(self) -> Tensors:
        """The variance of each learned output over the training split."""
        return tuple(one.float().var(unbiased=False) + 1e-6 for one in self.training_outputs)

    def check(self) -> None:
        """Raise an ``UnsuitedError`` if nothing can be trained on these rows."""
        count, size = len(self.training[0]), self.fixed or 1
        if not self.learned:
            raise UnsuitedError("no output has floating-point numbers, and there is nothing to learn from")
        if count < size:
            raise UnsuitedError(f"the training split has {count} rows, and the model takes {size} at once")
        sides = {"training": (self.training, self.training_outputs), "search": (self.search, self.search_outputs)}
        for split, (inputs, outputs) in sides.items():
            if any(one.dim() == 0 or len(one) != len(inputs[0]) for one in outputs):
                raise UnsuitedError("it has an output without one row for each row of the inputs")
            if any(one.dtype.is_floating_point and not torch.isfinite(one).all() for one in (*inputs, *outputs)):
                raise UnsuitedError(f"the {split} split, or an output of the source for it, has NaN or infinity")
        if all(torch.allclose(one, one[:1], rtol=1e-4, atol=1e-5) for one in self.training_outputs) and count > 1:
            raise UnsuitedError(
                f"the source returns the same for all {count} rows of the training split: nothing can be learned"
            )

    def count_steps(self, batch: int) -> int:
        """Return the number of steps in an epoch."""
        size = self._size(batch)
        return max(1, len(self.training[0]) // size)

    def shuffle(self, batch: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
        """Yield the numbers of the rows of each step, in a random order; the incomplete last step is left out."""
        size, count = self._size(batch), len(self.training[0])
        order = torch.randperm(count, generator=generator)
        yield from order[: self.count_steps(batch) * size].split(size)

    def take(self, numbers: torch.Tensor) -> Tensors:
        """Return these rows of the training split."""
        return tuple(one[numbers] for one in self.training)

    def take_wanted(self, numbers: torch.Tensor) -> Tensors:
        """Return the source's outputs for these rows."""
        return tuple(one[numbers] for one in self.training_outputs)

    def compare(self, found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the mean squared error of all learned outputs, each in units of its variance over the split."""
        chosen = [found[index] for index in self.learned]
        if any(a.shape != b.shape for a, b in zip(chosen, wanted, strict=True)):
            raise UnsuitedError("it returns other shapes than the source")
        parts = zip(chosen, wanted, self.scale, strict=True)
        return torch.stack([((a.float() - b.float()) ** 2).mean() / scale for a, b, scale in parts]).mean()

    def measure_error(self, module: nn.Module) -> float:
        """Return the error of a module on the search split, as ``compare``."""
        return self._find_error(self.run(module, self.search))

    def measure(self, module: nn.Module) -> tuple[float, float | None]:
        """Return the error of a module on the search split, and the program's metric; None if that has no value."""
        found = self.run(module, self.search)
        outputs = dict(zip(self.outputs, (one.numpy() for one in found), strict=True))
        try:
            score: float | None = self.judge.sign * self.judge.measure(outputs)
        except Exception as error:  # noqa: BLE001 - a program's metric may raise anything; the gates judge it later
            print_line(f"{self.judge.metric} has no value: {error}")
            score = None
        return self._find_error(found), score

    def _find_error(self, found: Tensors) -> float:
        return float(self.compare(found, [self.search_outputs[index] for index in self.learned]))

    def shorten(self, count: int) -> Data:
        """Return the data with the first rows of the training split only."""
        training, wanted = (tuple(one[:count] for one in side) for side in (self.training, self.training_outputs))
        return replace(self, training=training, training_outputs=wanted)

    def measure_training_error(self, module: nn.Module) -> float:
        """Return the error of a module on the training split, as ``compare``."""
        return float(self.compare(self.run(module, self.training), self.training_outputs))

    def run(self, module: nn.Module, tensors: Tensors) -> Tensors:
        """Return a module's outputs for all rows, in calls of one size; the last call is filled with first rows."""
        size, count, parts = self._size(_ROWS_AT_ONCE), len(tensors[0]), []
        with torch.no_grad():
            for start in range(0, count, size):
                numbers = torch.arange(start, start + size) % count
                parts.append(call_module(module, [one[numbers] for one in tensors]))
        return tuple(torch.cat(each)[:count] for each in zip(*parts, strict=True))

    def _size(self, batch: int) -> int:
        return self.fixed or min(batch, len(self.training[0]))


def read_data(job: Json, inputs: Sequence[Json], outputs: Sequence[Json]) -> Data:
    """Return the rows of a job, for these inputs and outputs of its model.

    Raises:
        UnsuitedError: Nothing can be trained on them.
    """
    program = job["program"]
    names = tuple(spec["name"] for spec in outputs)
    wanted, expected = (_read(program[key], outputs) for key in ("teacher", "source"))
    learned = tuple(index for index, one in enumerate(expected) if one.dtype.is_floating_point)
    data = Data(
        training=_read(job["training"], inputs),
        training_outputs=tuple(wanted[index] for index in learned),
        search=_read(program["feeds"], inputs),
        search_outputs=expected,
        learned=learned,
        fixed=shapes.find_fixed_batch(spec["shape"] for spec in inputs),
        judge=Judge(program),
        outputs=names,
    )
    data.check()
    return data


def _read(path: str, specs: Sequence[Json]) -> Tensors:
    with np.load(path, allow_pickle=False) as arrays:
        return tuple(torch.from_numpy(arrays[spec["name"]].astype(spec["dtype"])) for spec in specs)
