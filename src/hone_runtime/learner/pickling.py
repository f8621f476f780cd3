"""A learner as a pickle: where it is from and its digest. It is pulled, verified and opened on the other side."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from hone_runtime.signing.policy import Policy
from hone_runtime.values.base import Value

if TYPE_CHECKING:
    from hone_runtime.learner.model import Learner

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


def reduce(learner: Learner) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what is pickled of a learner: how it was loaded, and none of its files.

    Raises:
        TypeError: It was not loaded by ``kedro_hone.load``, or it is code: a pickle vouches for nothing.
    """
    if learner.origin is None:
        raise TypeError(f"a learner that was opened without kedro_hone.load cannot be pickled. {_ADVICE}")
    if learner.origin.code:
        why = "it is code, and a pickle must not say that it may be run"
        raise TypeError(f"this winner cannot be pickled: {why}. {_ADVICE}")
    return _reopen, (learner.origin.model_dump(mode="json"),)


def _reopen(said: dict[str, Any]) -> Any:
    from hone_runtime.learner.loading import reopen  # noqa: PLC0415 - it imports this module

    return reopen(Origin.model_validate(said))
