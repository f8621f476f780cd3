"""Tied weights: weights with more than one name in a model, such as those of its input and output embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

Ties = tuple[tuple[str, ...], ...]
"""The names of each weight with more than one name."""


def list_ties(model: nn.Module) -> Ties:
    """Return the names of each weight with more than one name in a model."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return tuple(tuple(group) for group in names.values() if len(group) > 1)


def find_partners(name: str, ties: Ties) -> tuple[str, ...]:
    """Return the other names of a weight."""
    return next((tuple(other for other in group if other != name) for group in ties if name in group), ())


def untie_where_different(model: nn.Module, new: Mapping[str, Tensor]) -> None:
    """Untie all weights of a model if the new values of one weight differ between its names.

    All of them, since its configuration has only one option, ``tie_word_embeddings``; it is set to false.
    """
    ties, parameters = list_ties(model), dict(model.named_parameters(remove_duplicate=False))
    groups = ([new.get(name, parameters[name]) for name in group] for group in ties)
    if all(torch.equal(group[0], value) for group in groups for value in group[1:]):
        return
    for name in (name for group in ties for name in group[1:]):
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, nn.Parameter(parameters[name].detach().clone()))
    config: Any = model.config
    for one in (config, config.get_text_config()):
        one.tie_word_embeddings = False
