"""Winners with the source model's own interface."""

from hone_runtime.learner.loader import load
from hone_runtime.learner.model import Learner
from hone_runtime.signing.policy import Policy

__all__ = ["Learner", "Policy", "load"]
