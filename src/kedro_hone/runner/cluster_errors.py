"""Errors if a Dask cluster cannot run a search, or is lost during it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.errors import HoneError
from hone_runtime.text import begin_sentence


@contextmanager
def explain_loss(client: Any) -> Iterator[None]:
    """Raise ``cluster-unreachable`` if the connection to the scheduler is lost."""
    from distributed.comm import CommClosedError  # noqa: PLC0415 - an extra

    try:
        yield
    except (CancelledError, OSError) as error:  # a node's own exception may be an OSError, too
        if isinstance(error, CancelledError | CommClosedError) or client.status != "running":
            raise explain_unreachable(client.scheduler.address if client.scheduler else "", error) from error
        raise


def explain_unreachable(address: str, error: BaseException, hint: str | None = None) -> HoneError:
    """Return the error for a scheduler that is not reachable, or no longer reachable."""
    usual = "Start it, and its workers, and run again: what was built is in the store and is not built again."
    return HoneError(
        "cluster-unreachable",
        f"The Dask scheduler {address or '(no address)'} cannot be reached.",
        why=describe_exception(error),
        hint=hint or usual,
    )


def explain_unfit(why: str) -> HoneError:
    """Return the error for workers that cannot take part, or that are missing from the start."""
    return HoneError(
        "cluster-unfit",
        "The Dask cluster cannot run this search.",
        why=f"{begin_sentence(why)}.",
        hint="Start every worker with its resources, the same code and the project's folder: Run on a Dask cluster in "
        "the documentation has the commands.",
    )


def explain_lost(what: str, why: str) -> HoneError:
    """Return the error for a node without a remaining worker."""
    hint = "Look into the logs of the workers, start them again, and run again: what was built is in the store."
    return HoneError("cluster-worker-lost", what, why=why, hint=hint)
