"""kedro-hone: every new version in your model registry comes back faster, with proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hone_runtime.learner import Policy, load

__version__ = "0.1.0"
__all__ = ["Policy", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """Import the learner when it is first used: the pipelines import this package and do not need it."""
    if name in {"Policy", "load"}:
        from hone_runtime import learner  # noqa: PLC0415 - see the docstring

        return getattr(learner, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
