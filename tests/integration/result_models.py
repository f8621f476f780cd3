"""PyTorch models by the structure of their result; written into a file next to the recipe, as a user's own class is."""

from __future__ import annotations

import collections
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class Prediction:
    """A result of the author's own class."""

    scores: torch.Tensor


class Output(collections.OrderedDict):
    """A result like those of transformers: a dictionary whose items are attributes too."""

    @property
    def scores(self) -> torch.Tensor:
        return self["scores"]


class Net(nn.Module):
    """One layer whose results are wrapped."""

    def __init__(self, kind: str = "tuple") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        self.kind = kind

    def forward(self, x: torch.Tensor):
        scores = self.layer(x)
        odds = scores.softmax(-1)
        return {
            "tensor": scores,
            "tuple": (scores, odds),
            "one": (scores,),
            "list": [scores, odds],
            "dict": {"scores": scores, "odds": odds},
            "absent": {"loss": None, "scores": scores},
            "output": Output(scores=scores, odds=odds),
            "nested": {"scores": scores, "states": (odds, scores)},
            "text": (scores, "yes"),
            "dataclass": Prediction(scores),
        }[self.kind]
