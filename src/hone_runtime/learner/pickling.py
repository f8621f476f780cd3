"""A learner as a pickle: where it is from and its digest. It is pulled, verified and opened on the other side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from hone_runtime.signing.policy import Policy
from hone_runtime.values.base import Value

Reopen = Callable[[dict[str, Any]], Any]
"""Loads a winner by the fields of an ``Origin``."""

_ADVICE = "Load it with kedro_hone.load in each process."


class Origin(Value):
    """How a winner was loaded: what is needed to load the same one again.

    Trust is no part of it: whoever wrote a pickle must not choose what is trusted where it is read.

    Attributes:
        uri: The version, pinned; or the absolute path of a folder.
        digest: The winner's, which it must have there too.
        code: Whether opening it may run what its author wrote, so that somebody had to vouch for it.
        verify: Whose signature it must have there too.
    """

    uri: str = ""
    digest: str = ""
    code: bool = False
    verify: Policy | None = None
    on_mismatch: Literal["fallback", "warn", "refuse"] = "fallback"
    interface: str | None = None
    threads: int | None = None
    skip_padding: bool | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of ``open_learner`` by their names."""
        return {name: getattr(self, name) for name in ("interface", "threads", "skip_padding")}


def reduce(origin: Origin | None, reopen: Reopen | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what is pickled of a learner: how it was loaded, and none of its files.

    Raises:
        TypeError: It was not loaded by ``kedro_hone.load``, or it is code: a pickle vouches for nothing.
    """
    if origin is None or reopen is None:
        raise TypeError(f"a learner that was opened without kedro_hone.load cannot be pickled. {_ADVICE}")
    if origin.code:
        why = "it is code, and a pickle must not say that it may be run"
        raise TypeError(f"this winner cannot be pickled: {why}. {_ADVICE}")
    return reopen, (origin.model_dump(mode="json"),)
