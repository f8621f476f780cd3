"""The winner with the source model's own interface."""

from kedro_hone.learner.model import Learner, load

__all__ = ["Learner", "load"]
