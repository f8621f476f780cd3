"""Train a changed network until it returns what the source returned: knowledge distillation.

The loss is the squared error of the outputs, which needs no labels and is the same for every task. For the logits of
classes it is at least as good as the divergence of the softened probabilities (T. Kim et al., "Comparing
Kullback-Leibler Divergence and Mean Squared Error Loss in Knowledge Distillation", IJCAI 2021). The source's outputs
on the training rows are computed once, and read from a file.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hone_runtime.worker.refusal import UnsuitedError

from . import rows
from .layers import call_module
from .memory import check_memory, is_shortage
from .progress import print_line

Json = dict[str, Any]

_SHARE = 0.6
"""The share of a step's time limit for training; the rest is for reading, exporting and saving."""
_WARM_UP = 0.1
_LARGEST_GRADIENT = 1.0
SETTLED = 0.6
"""The share of a training after which masks no longer change."""


@dataclass(frozen=True)
class Schedule:
    """The options of a training.

    Attributes:
        epochs: The most epochs.
        seconds: The time limit; the number of epochs is reduced to those that fit.
        patience: The number of epochs without a smaller error after which training ends.
        learning_rate: The largest learning rate of AdamW; it rises, and falls along half a wave of the cosine.
        batch: The number of rows in a step.
        seed: Of the order of the rows.
        checkpoint: The file that a later training of the same step goes on from; None if there is none.
    """

    epochs: int
    seconds: float
    patience: int
    learning_rate: float
    batch: int
    seed: int
    checkpoint: Path | None


def read_schedule(job: Json, *, attends: bool) -> Schedule:
    """Return the schedule of a job; the default learning rate is smaller for networks with attention."""
    options = job["options"]
    return Schedule(
        epochs=options["epochs"],
        seconds=min(options["seconds"], _SHARE * (job.get("seconds") or math.inf)),
        patience=options["patience"],
        learning_rate=options["learning_rate"] or (8e-4 if attends else 3e-3),
        batch=options["batch"],
        seed=job["seed"],
        checkpoint=Path(job["checkpoint"]) if job.get("checkpoint") else None,
    )


def distil(
    student: nn.Module,
    data: rows.Data,
    schedule: Schedule,
    *,
    after_step: Callable[[float], None] | None = None,
    counts_start: bool = False,
) -> Json:
    """Train a student in place, and restore the weights of its best epoch; return notes for the metadata.

    Args:
        student: The network, with the inputs and outputs of the source.
        data: The training and search rows, with the source's outputs.
        schedule: The options of the training.
        after_step: Called after each step of the optimizer with the share of the training that is done, such as for
            masks. Then only the last 40 % of the epochs count, in which the masks stay.
        counts_start: Whether the network is a result also as it was before the training, as epoch 0.

    Returns:
        ``epochs``, ``best_epoch``, ``error`` and ``first_error`` on the search split, ``log`` (one entry
        for each epoch), and ``unfinished`` if the time limit ended it.

    Raises:
        UnsuitedError: The training diverged, no epoch made the error smaller, or a step needs too much memory.
    """
    try:
        return _Training(student, data, schedule, after_step).run(counts_start=counts_start)
    except (MemoryError, RuntimeError) as error:
        if not is_shortage(error):
            raise
        what = f"it ran out of memory with batches of {schedule.batch} rows"
        raise UnsuitedError(f"{what}: lower the option batch ({_shorten(error)})") from error


@dataclass
class _Progress:
    """What a training has done, in epochs; the errors are those on the search split."""

    count: int
    first_error: float
    error: float
    epochs: int = 0
    best_epoch: int = 0
    seconds: float = 0.0
    log: list[Json] = field(default_factory=list)


class _Training:
    """The state of one training, which is saved after each epoch."""

    def __init__(
        self, student: nn.Module, data: rows.Data, schedule: Schedule, after_step: Callable[[float], None] | None
    ) -> None:
        self._student, self._data, self._schedule, self._after_step = student, data, schedule, after_step
        # Masks follow the share of a training that is done, which changes if it goes on.
        self._checkpoint = schedule.checkpoint if after_step is None else None
        self._parameters = [one for one in student.parameters() if one.dtype.is_floating_point]
        for one in self._parameters:
            one.requires_grad = True
        self._optimizer = self._make_optimizer()
        self._generator = torch.Generator().manual_seed(schedule.seed)
        first = data.measure_error(student)
        self._done = _Progress(count=schedule.epochs, first_error=first, error=first)
        self._best = _copy(student)

    def run(self, *, counts_start: bool) -> Json:
        """Train, and return the notes."""
        check_memory(self._student, self._data, self._schedule.batch)
        self._restore()
        done, limit, before = self._done, self._schedule, self._done.seconds
        print_line(f"before training: error {done.first_error:.6f} on the search split")
        while done.epochs < done.count and not self._is_stuck():
            began = time.monotonic()
            self._train_epoch()
            error = self._measure()
            if not math.isfinite(error):
                rate = f"learning_rate, now {limit.learning_rate:g}"
                raise UnsuitedError(f"the training diverged in epoch {done.epochs}: lower {rate}")
            done.seconds += time.monotonic() - began
            fitting = int((before + limit.seconds) * done.epochs / done.seconds)
            done.count = min(limit.epochs, max(done.epochs, fitting))
            self._save()
        if done.best_epoch == 0 and not counts_start:
            rate = f"learning_rate, now {limit.learning_rate:g}"
            raise UnsuitedError(f"none of {done.epochs} epochs made the error smaller: lower {rate}")
        self._student.load_state_dict(self._best)
        unfinished = done.count < limit.epochs and not self._is_stuck()
        notes = asdict(done)
        del notes["count"], notes["seconds"]  # the seconds differ in each run, and the notes are part of the result
        return {**notes, **({"unfinished": True} if unfinished else {})}

    def _train_epoch(self) -> None:
        data, done, size = self._data, self._done, self._schedule.batch
        self._student.train()
        if data.choose_size(size) == 1:  # the statistics of one row are none
            for one in self._student.modules():
                if isinstance(one, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the class of all kinds
                    one.eval()
        steps = data.count_steps(size)
        for step, numbers in enumerate(data.shuffle(size, self._generator)):
            share = (done.epochs + step / steps) / done.count
            for group in self._optimizer.param_groups:
                group["lr"] = self._schedule.learning_rate * _scale(share)
            self._optimizer.zero_grad()
            outputs = call_module(self._student, data.take_inputs(numbers))
            data.compare(outputs, data.take_outputs(numbers)).backward()
            nn.utils.clip_grad_norm_(self._parameters, _LARGEST_GRADIENT)
            self._optimizer.step()
            if self._after_step is not None:
                self._after_step(share)
        self._student.eval()
        done.epochs += 1

    def _measure(self) -> float:
        """Measure the student, record the epoch, and copy its weights if it is the best so far."""
        data, done = self._data, self._done
        error, score = data.measure(self._student)
        scored = "" if score is None else f", {data.judge.metric} {score:.4f}"
        print_line(f"epoch {done.epochs} of {done.count}: error {error:.6f}{scored} on the search split")
        done.log.append({"epoch": done.epochs, "error": error, **({} if score is None else {"score": score})})
        masked = self._after_step is not None
        if self._counts() and (error < done.error or (masked and done.best_epoch == 0)):
            done.error, done.best_epoch, self._best = error, done.epochs, _copy(self._student)
        return error

    def _counts(self) -> bool:
        return self._after_step is None or self._done.epochs > SETTLED * self._done.count

    def _is_stuck(self) -> bool:
        return self._counts() and self._done.epochs - self._done.best_epoch >= self._schedule.patience

    def _save(self) -> None:
        """Write all that the next epoch depends on; another file takes the old one's place at once."""
        if (path := self._checkpoint) is None:
            return
        state = {
            "progress": asdict(self._done),
            "student": self._student.state_dict(),
            "best": self._best,
            "optimizer": self._optimizer.state_dict(),
            "order": self._generator.get_state(),
            "random": torch.get_rng_state(),
        }
        part = path.with_name(f"{path.name}.part")
        torch.save(state, part)
        part.replace(path)

    def _restore(self) -> None:
        """Go on from the checkpoint, if there is one that fits."""
        path = self._checkpoint
        if path is None or not path.exists():
            return
        drawn = torch.get_rng_state()
        try:
            self._load(torch.load(path, weights_only=True))
        except Exception as error:  # noqa: BLE001 - a file that was cut, or of another version of torch
            print_line(f"training starts anew, since its checkpoint cannot be read: {error}")
            self._student.load_state_dict(self._best)
            self._optimizer = self._make_optimizer()
            self._generator.manual_seed(self._schedule.seed)
            torch.set_rng_state(drawn)
            return
        print_line(f"training goes on after epoch {self._done.epochs}")

    def _load(self, state: Json) -> None:
        done = _Progress(**{**state["progress"], "count": self._schedule.epochs})
        numbers = (done.first_error, done.error, done.seconds, done.epochs, done.best_epoch)
        self._student.load_state_dict(state["best"])
        best = _copy(self._student)
        if not all(map(math.isfinite, numbers)) or not all(bool(one.isfinite().all()) for one in best.values()):
            raise ValueError("it has numbers that are not finite")
        self._student.load_state_dict(state["student"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._generator.set_state(state["order"])
        torch.set_rng_state(state["random"])
        self._done, self._best = done, best

    def _make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self._parameters, lr=self._schedule.learning_rate)


def _scale(share: float) -> float:
    """Return the factor of the learning rate: a linear rise, then half a wave of the cosine."""
    if share < _WARM_UP:
        return 0.1 + 0.9 * share / _WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - _WARM_UP) / (1 - _WARM_UP)))


def _copy(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _shorten(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
