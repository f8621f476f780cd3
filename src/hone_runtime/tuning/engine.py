"""The interface between the tuner and a toolchain: it builds partly quantized models, runs them and measures them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

Outputs = Mapping[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]
"""Outputs by name, rows first."""

C = TypeVar("C")


class Engine(ABC, Generic[C]):
    """A toolchain's quantizer and runtime for one model.

    A candidate may be invalid as soon as the next one is built, so that an engine can reuse its files.

    Attributes:
        operators: The unique names of the operators that can be quantized, in the order of the graph.
    """

    operators: Sequence[str]

    @abstractmethod
    def open_source(self) -> C:
        """Return the model without any quantized operator."""

    @abstractmethod
    def build(self, excluded: frozenset[str]) -> C:
        """Return the model with all operators quantized except the excluded ones."""

    def isolate(self, operator: str) -> C:
        """Return the model with this operator as the only quantized one; for its score, never for a result."""
        return self.build(frozenset(self.operators) - {operator})

    @abstractmethod
    def run(self, candidate: C) -> Outputs:
        """Return a candidate's outputs for unlabelled rows, the same ones at each call."""

    @abstractmethod
    def find_class_axes(self, outputs: Outputs) -> Mapping[str, int]:
        """Return the axis of the classes for those of the source's outputs that have one: see ``Judge``."""

    @abstractmethod
    def measure(self, candidate: C) -> Mapping[str, float]:
        """Return the recipe's metrics on the search split, by name; higher is better."""

    @abstractmethod
    def measure_source(self) -> Mapping[str, float]:
        """Return the metrics of the source model on the same rows."""

    @abstractmethod
    def time(self, candidate: C) -> float:
        """Return the seconds that all operators of a candidate take in one call, by the runtime's profile."""

    @abstractmethod
    def list_times(self) -> Mapping[str, float]:
        """Return the seconds of the source's operators in one call, by the runtime's profile.

        An operator may be missing, for example if the runtime fused it with others.
        """
