"""The rows of a training: inputs of the training and search splits, and the source's outputs for both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from hone_runtime.sessions import shapes
from hone_runtime.tuning.judge import Judge
from hone_runtime.worker.refusal import UnsuitedError

from .layers import call_module
from .progress import print_line
from .stored import Stored, measure_variance, split_pieces

Json = dict[str, Any]
Tensors = tuple[torch.Tensor, ...]
Rows = tuple[torch.Tensor | Stored, ...]
"""The rows of each input or output, in memory or in a file."""
_ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Data:
    """What a training reads.

    Attributes:
        training_inputs: The rows of the training split, by input.
        training_outputs: The source's outputs for them, those with floating-point numbers.
        search_inputs: The rows of the search split, by input.
        search_outputs: The source's outputs for them.
        learned: The positions of the outputs with floating-point numbers.
        fixed: The fixed batch size of the model; None if it is free.
        judge: The recipe's metric on the search split.
        outputs: The names of all outputs.
    """

    training_inputs: Rows
    training_outputs: Rows
    search_inputs: Tensors
    search_outputs: Tensors
    learned: tuple[int, ...]
    fixed: int | None
    judge: Judge
    outputs: tuple[str, ...]

    @cached_property
    def scale(self) -> tuple[float, ...]:
        """The variance of each learned output over the training split."""
        return tuple(measure_variance(one) + 1e-6 for one in self.training_outputs)

    def check(self) -> None:
        """Raise an ``UnsuitedError`` if nothing can be trained on these rows."""
        count, size = len(self.training_inputs[0]), self.fixed or 1
        if not self.learned:
            raise UnsuitedError("no output has floating-point numbers, and there is nothing to learn from")
        if count < size:
            raise UnsuitedError(f"the training split has {count} rows, and the model takes {size} at once")
        splits = {
            "training": (self.training_inputs, self.training_outputs),
            "search": (self.search_inputs, self.search_outputs),
        }
        for split, (inputs, outputs) in splits.items():
            if any(one.dim() == 0 or len(one) != len(inputs[0]) for one in outputs):
                raise UnsuitedError("it has an output without one row for each row of the inputs")
            if not all(_is_finite(one) for one in (*inputs, *outputs)):
                raise UnsuitedError(f"the {split} split, or an output of the source for it, has NaN or infinity")
        if count > 1 and all(_is_constant(one) for one in self.training_outputs):
            raise UnsuitedError(
                f"the source returns the same for all {count} rows of the training split: nothing can be learned"
            )

    def count_steps(self, batch: int) -> int:
        """Return the number of steps in an epoch."""
        return max(1, len(self.training_inputs[0]) // self.choose_size(batch))

    def shuffle(self, batch: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
        """Yield the numbers of the rows of each step, in a random order; the incomplete last step is left out."""
        size, count = self.choose_size(batch), len(self.training_inputs[0])
        order = torch.randperm(count, generator=generator)
        yield from order[: self.count_steps(batch) * size].split(size)

    def take_inputs(self, numbers: torch.Tensor) -> Tensors:
        """Return these rows of the training split."""
        return tuple(one[numbers] for one in self.training_inputs)

    def take_outputs(self, numbers: torch.Tensor) -> Tensors:
        """Return the source's outputs for these rows."""
        return tuple(one[numbers] for one in self.training_outputs)

    def compare(self, outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the mean squared error of all learned outputs, each in units of its variance over the split.

        Args:
            outputs: All outputs of a network.
            expected: The learned outputs of the source.
        """
        chosen = [outputs[index] for index in self.learned]
        if any(a.shape != b.shape for a, b in zip(chosen, expected, strict=True)):
            raise UnsuitedError("it returns other shapes than the source")
        parts = zip(chosen, expected, self.scale, strict=True)
        return torch.stack([((a.float() - b.float()) ** 2).mean() / scale for a, b, scale in parts]).mean()

    def measure_error(self, module: nn.Module) -> float:
        """Return the error of a module on the search split, as ``compare``."""
        return self._find_error(self.run(module))

    def measure(self, module: nn.Module) -> tuple[float, float | None]:
        """Return the error of a module on the search split, and the recipe's metric; None if that has no value."""
        found = self.run(module)
        outputs = dict(zip(self.outputs, (one.numpy() for one in found), strict=True))
        try:
            score: float | None = self.judge.sign * self.judge.measure(outputs)
        except Exception as error:  # noqa: BLE001 - a program's metric may raise anything; the gates judge it later
            print_line(f"{self.judge.metric} has no value: {error}")
            score = None
        return self._find_error(found), score

    def _find_error(self, outputs: Tensors) -> float:
        return float(self.compare(outputs, [self.search_outputs[index] for index in self.learned]))

    def measure_training_error(self, module: nn.Module, count: int) -> float:
        """Return the error of a module on the first rows of the training split, as ``compare``."""
        rows, total = min(count, len(self.training_inputs[0])), 0.0
        for numbers, outputs in self._run_parts(module, self.training_inputs, rows):
            some = len(numbers)
            total += some * float(self.compare([one[:some] for one in outputs], self.take_outputs(numbers)))
        return total / rows

    def observe(self, module: nn.Module) -> None:
        """Call a module with all rows of the training split, such as to observe the ranges of its activations."""
        for _ in self._run_parts(module, self.training_inputs, len(self.training_inputs[0])):
            pass

    def run(self, module: nn.Module) -> Tensors:
        """Return a module's outputs for all rows of the search split."""
        count = len(self.search_inputs[0])
        parts = [outputs for _, outputs in self._run_parts(module, self.search_inputs, count)]
        return tuple(torch.cat(each)[:count] for each in zip(*parts, strict=True))

    def _run_parts(self, module: nn.Module, rows: Rows, count: int) -> Iterator[tuple[torch.Tensor, Tensors]]:
        """Yield row numbers and outputs of calls of one size; the last call is filled up with first rows."""
        size = self.choose_size(_ROWS_AT_ONCE)
        for start in range(0, count, size):
            numbers = torch.arange(start, start + size)
            with torch.no_grad():
                outputs = call_module(module, [one[numbers % count] for one in rows])
            yield numbers[numbers < count], outputs

    def choose_size(self, batch: int) -> int:
        """Return the number of rows in a call, for a batch size of the options."""
        return self.fixed or min(batch, len(self.training_inputs[0]))


def read_data(job: Json, inputs: Sequence[Json], outputs: Sequence[Json]) -> Data:
    """Return the rows of a job, for these inputs and outputs of its model.

    Raises:
        UnsuitedError: Nothing can be trained on them.
    """
    program = job["program"]
    expected = _read(program["source"], outputs)
    learned = tuple(index for index, one in enumerate(expected) if one.dtype.is_floating_point)
    data = Data(
        training_inputs=_open(job["training"], inputs),
        training_outputs=_open(program["teacher"], [outputs[index] for index in learned]),
        search_inputs=_read(program["feeds"], inputs),
        search_outputs=expected,
        learned=learned,
        fixed=shapes.find_fixed_batch(spec["shape"] for spec in inputs),
        judge=Judge(program),
        outputs=tuple(spec["name"] for spec in outputs),
    )
    data.check()
    return data


def _read(path: str, specs: Sequence[Json]) -> Tensors:
    with np.load(path, allow_pickle=False) as arrays:
        return tuple(torch.from_numpy(arrays[spec["name"]].astype(spec["dtype"])) for spec in specs)


def _open(path: str, specs: Sequence[Json]) -> tuple[Stored, ...]:
    return tuple(Stored(Path(path), spec["name"], getattr(torch, spec["dtype"])) for spec in specs)


def _is_finite(rows: torch.Tensor | Stored) -> bool:
    return not rows.dtype.is_floating_point or all(bool(torch.isfinite(one).all()) for one in split_pieces(rows))


def _is_constant(rows: torch.Tensor | Stored) -> bool:
    first = rows[:1]
    return all(torch.allclose(one, first, rtol=1e-4, atol=1e-5) for one in split_pieces(rows))
