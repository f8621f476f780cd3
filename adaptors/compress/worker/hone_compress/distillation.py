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
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from . import rows
from .layers import call_module

Json = dict[str, Any]
Tensors = tuple[torch.Tensor, ...]

_SHARE = 0.6
"""The share of a step's time limit for training; the rest is for reading, exporting and saving."""
_WARM_UP = 0.1
SETTLED = 0.6
"""The share of a training after which masks no longer change."""


@dataclass(frozen=True)
class Schedule:
    """The options of a training.

    Attributes:
        epochs: The most epochs.
        seconds: The time limit; the number of epochs is reduced to those that fit.
        patience: The number of epochs without a smaller error after which training ends.
        learning_rate: The largest learning rate of AdamW; it rises, and falls along a half wave of the cosine.
        batch: The number of rows in a step.
        seed: Of the order of the rows.
    """

    epochs: int
    seconds: float
    patience: int
    learning_rate: float
    batch: int
    seed: int


def read_schedule(job: Json, *, attends: bool) -> Schedule:
    """Return the schedule of a job; the default learning rate is smaller for networks with attention."""
    options = job["options"]
    limit = job.get("seconds") or math.inf
    rate = options["learning_rate"] or (8e-4 if attends else 3e-3)
    seconds = min(options["seconds"], _SHARE * limit)
    return Schedule(options["epochs"], seconds, options["patience"], rate, options["batch"], job["seed"])


def distil(
    student: nn.Module,
    data: rows.Data,
    schedule: Schedule,
    *,
    after_step: Callable[[float], None] | None = None,
) -> Json:
    """Train a student in place, and restore the weights of its best epoch; return notes for the metadata.

    Args:
        student: The network, with the inputs and outputs of the source.
        data: The training and search rows, with the source's outputs.
        schedule: The options of the training.
        after_step: Called after each step of the optimizer with the share of the training that is done, such as for
            masks. Then only the last 40 % of the epochs count, in which the masks stay.

    Returns:
        ``epochs``, ``best_epoch``, ``error`` and ``first_error`` on the search split, ``seconds`` and ``log``; or
        ``refused`` with the reason.
    """
    began, trained = time.monotonic(), [one for one in student.parameters() if one.dtype.is_floating_point]
    for one in trained:
        one.requires_grad_(True)
    optimizer = torch.optim.AdamW(trained, lr=schedule.learning_rate)
    generator = torch.Generator().manual_seed(schedule.seed)
    first = best = data.measure_error(student)
    best_epoch, kept, log = 0, _copy(student), list[Json]()
    count, steps, epoch = schedule.epochs, data.count_steps(schedule.batch), 0
    while epoch < count:
        student.train()
        for step, numbers in enumerate(data.shuffle(schedule.batch, generator)):
            share = (epoch + step / steps) / count
            for group in optimizer.param_groups:
                group["lr"] = schedule.learning_rate * _scale(share)
            optimizer.zero_grad()
            loss = data.compare(call_module(student, data.take(numbers)), data.take_wanted(numbers))
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            if after_step is not None:
                after_step(share)
        epoch += 1
        student.eval()
        error = data.measure_error(student)
        score = data.measure_score(student)
        log.append({"epoch": epoch, "error": error, **({} if score is None else {"score": score})})
        print(_format(epoch, count, error, data.metric, score), flush=True)  # noqa: T201 - the step's log
        if not math.isfinite(error):
            return {
                "refused": f"the training diverged in epoch {epoch}; lower learning_rate, now {schedule.learning_rate:g}"
            }
        counts = after_step is None or epoch > SETTLED * count
        if counts and (error < best or (after_step is not None and best_epoch == 0)):
            best, best_epoch, kept = error, epoch, _copy(student)
        spent = time.monotonic() - began
        count = min(count, max(epoch, int(schedule.seconds / (spent / epoch))))
        if counts and epoch - best_epoch >= schedule.patience:
            break
    student.load_state_dict(kept)
    seconds = round(time.monotonic() - began, 1)
    return {
        "epochs": epoch,
        "best_epoch": best_epoch,
        "error": best,
        "first_error": first,
        "seconds": seconds,
        "log": log,
    }


def _scale(share: float) -> float:
    """Return the factor of the learning rate: a linear rise, then half a wave of the cosine."""
    if share < _WARM_UP:
        return 0.1 + 0.9 * share / _WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (share - _WARM_UP) / (1 - _WARM_UP)))


def _copy(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _format(epoch: int, count: int, error: float, metric: str, score: float | None) -> str:
    scored = "" if score is None else f", {metric} {score:.4f}"
    return f"epoch {epoch} of {count}: error {error:.6f}{scored} on the search split"
