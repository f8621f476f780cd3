"""The pickle of a learner: its origin and its digest. Unpickling pulls, verifies and opens the winner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from hone_runtime.signing.policy import Policy
from hone_runtime.values.base import Value

Reopen = Callable[[dict[str, Any]], Any]
"""Loads a winner by the fields of an ``Origin``."""

_ADVICE = "Load it with kedro_hone.load in each process."


class Origin(Value):
    """How a winner was loaded: everything needed to load the same one again.

    Trust is not included: the author of a pickle must not choose what is trusted by its reader.

    Attributes:
        uri: The version, pinned; or the absolute path of a folder.
        digest: The winner's digest, which is checked when it is loaded again.
        code: Whether opening it may run code of its author, so that it must be signed or trusted.
        verify: The required signer, also when it is loaded again.
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
    """Return the pickled form of a learner: how it was loaded, without its files.

    Raises:
        TypeError: It was not loaded by ``kedro_hone.load``, or it is code: a pickle cannot make code trusted.
    """
    if origin is None or reopen is None:
        raise TypeError(f"a learner that was opened without kedro_hone.load cannot be pickled. {_ADVICE}")
    if origin.code:
        why = "it is code, and a pickle must not declare it trusted"
        raise TypeError(f"this winner cannot be pickled: {why}. {_ADVICE}")
    return reopen, (origin.model_dump(mode="json"),)
