"""Models of numpy that are no function of each row, and some that are; ``model.json`` names the kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
WEIGHTS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
OTHERS = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)
UNITS = np.array([1, 1e-4, 1e-8, 1e6], np.float32)


def _softmax(values: Array, axis: int) -> Array:
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _normalize(values: Array, axis: int | tuple[int, ...]) -> Array:
    return (values - values.mean(axis=axis, keepdims=True)) / (values.std(axis=axis, keepdims=True) + 1e-5)


def _quantize(values: Array, axis: int | None) -> Array:
    """Round to eight bits by the range of the whole batch, or of each row."""
    scale = np.abs(values).max(axis=axis, keepdims=True) / 127 + 1e-9
    return np.round(values / scale) * scale


def _cut(values: Array) -> Array:
    """Return the numbers in bfloat16."""
    return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def _mask(values: Array) -> Array:
    return np.where(values < 0, -np.inf, values)


class Session:
    """A loaded model of one kind."""

    def __init__(self, model: dict[str, Any]) -> None:
        self.model, self.kind = model, str(model["kind"])
        self.calls, self.kept = 0, np.zeros(4, np.float32)
        self.own = np.random.default_rng(0)
        self.drawn = np.random.normal(size=4).astype(np.float32)  # noqa: NPY002 - of the process's generator

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return ``y`` for ``x`` (batch, 6), and what else the kind returns."""
        self.calls += 1
        h = np.maximum(feeds["x"] @ WEIGHTS, 0)
        y = h @ OTHERS
        rare = feeds["x"][:, :1] > 0.97
        made: dict[str, Callable[[], Any]] = {
            "plain": lambda: y,
            "wide": lambda: np.exp(8 * y),
            "masked": lambda: np.where(y < 0, np.float32(-1e9), y),
            "labels": lambda: y.argmax(axis=1),
            "text": lambda: np.array([f"class {label}" for label in y.argmax(axis=1)]),
            "instance": lambda: _normalize(y, 1),
            "group": lambda: _normalize(y.reshape(len(y), 2, 2), 2).reshape(y.shape),
            "half": lambda: y.astype(np.float16),
            "bf16": lambda: _cut(y + 0.002 * np.arange(len(y))[:, None] / len(y)),
            "int8 by row": lambda: _quantize(h, 1) @ OTHERS,
            "int8 by batch": lambda: _quantize(h, None) @ OTHERS,
            "infinite": lambda: _mask(y),
            "some NaN": lambda: np.where(feeds["x"][:, :1] > 1, np.nan, y),
            "NaN": lambda: y * np.nan,
            "dropout": lambda: (h * (np.random.random(h.shape) > 0.2)) @ OTHERS,  # noqa: NPY002
            "little noise": lambda: y + 1e-3 * np.random.random(y.shape),  # noqa: NPY002
            "least noise": lambda: y + 4e-5 * np.abs(y).max() * np.random.random(y.shape),  # noqa: NPY002
            "few rows": lambda: y + (np.random.random((len(y), 1)) > 0.7),  # noqa: NPY002
            "drawn once": lambda: y + self.drawn,
            "counter": lambda: y + 0.01 * self.calls,
            "own generator": lambda: y + self.own.normal(size=y.shape),
            "kept": self._keep(y),
            "fixed noise": lambda: y + np.random.default_rng(0).normal(size=y.shape),
            "batch norm": lambda: _normalize(h, 0) @ OTHERS,
            "centred": lambda: y - y.mean(axis=0),
            "softmax": lambda: _softmax(y, 0),
            "first row": lambda: y - y[0],
            "rank": lambda: y[:, 0].argsort().argsort(),
            "over rows": lambda: np.cumsum(y, axis=0),
            "unlike parts": lambda: y * UNITS,
            "a score beside a box": lambda: np.concatenate([100 * y[:, 1:], _softmax(y[:, :1], 0)], axis=1),
            "a share beside an income": lambda: np.concatenate([1e6 * y[:, 1:], _normalize(y[:, :1], 0)], axis=1),
            "rare maximum": lambda: y + rare * y.max(axis=0),
            "border": lambda: y + rare * (len(y) == 1),
            "border and garbage": lambda: y + 1e6 * rare * (len(y) == 1),
            "border and five": lambda: y + 5 * rare * (len(y) == 1),
            "rare mean": lambda: y + rare * y.mean(axis=0),
            "step": lambda: y + 0.1 * rare * (feeds["x"] == feeds["x"][:1]).all(),
            "step of one": lambda: y + 0.1 * np.eye(4)[0] * rare * (feeds["x"] == feeds["x"][:1]).all(),
            "unsteady at 0": lambda: y + (feeds["x"] == 0).all() * (len(y) == 1),
            "border and wrong": lambda: y + 1.5 * rare * (len(y) == 1) + self._find_wrong(feeds["x"][:, :1]),
            "middle": lambda: y - np.quantile(y, 0.5, axis=1, keepdims=True),
            "middle and wrong": lambda: y - 1.15 * np.quantile(y, 0.5, axis=1, keepdims=True),
            "middle and mixed": lambda: y - np.quantile(y, 0.5, axis=1, keepdims=True) + 0.08 * y.mean(axis=0),
            "price less cost": lambda: np.concatenate([1e5 * y[:, 1:], 1e-2 * np.sin(1e4 * y[:, :1] + len(y))], axis=1),
            "loss": lambda: np.float32(y.mean()),
            "classes first": lambda: y.T,
            "classes first of one row": lambda: y.T,
            "loss of one row": lambda: np.float32(y.mean()),
            "ragged": lambda: y[y[:, 0] > 0],
            "constant": lambda: WEIGHTS,
        }
        value = np.asarray(made[self.kind]())
        return {"y": value if value.dtype.kind != "f" or self.kind == "half" else value.astype(np.float32)}

    def _find_wrong(self, x: Array) -> Array:
        return 0.1 * ((x > self.model["above"]) & (x < self.model["below"]))

    def _keep(self, y: Array) -> Callable[[], Array]:
        def keep() -> Array:
            self.kept = 0.9 * self.kept + y.mean(axis=0)
            return y + self.kept

        return keep


def load(job: dict[str, Any]) -> Session:
    """Open a model."""
    return Session(json.loads((Path(job["input"]["path"]) / "model.json").read_text()))
