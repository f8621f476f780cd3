"""The winner with the source model's own interface."""

from kedro_hone.learner.loading import load
from kedro_hone.learner.model import Learner
from kedro_hone.signing.policy import Policy

__all__ = ["Learner", "Policy", "load"]
