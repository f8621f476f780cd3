"""kedro-hone: every new version in your model registry comes back faster, with proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kedro_hone.learner import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """Import ``load`` when it is first asked for: the pipelines import this package and have no use for it."""
    if name == "load":
        from kedro_hone.learner import load  # noqa: PLC0415 - see the docstring

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
