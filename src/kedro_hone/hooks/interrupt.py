"""Ctrl-C ends the search, not the run: the results so far are confirmed, judged and reported."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

from hone_runtime.text import open_logger
from kedro_hone.hooks.membership import has_own

if TYPE_CHECKING:
    from kedro_hone.core.store.runs import RunFolder

_LOGGER = open_logger(__name__)


class InterruptHooks:
    """Handles the first Ctrl-C of a run that races; the second one, or one before the search began, ends the run.

    In a run with ParallelRunner each process gets the signal itself, so the first one ends the run.

    A thread, not the handler, reports the effect of the first one, since the handler could deadlock. The interrupted
    code may be printing with a lock that the display waits for, while the display has the lock that the handler's
    output needs. The thread starts with the run, since starting a thread needs locks, too.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._run: RunFolder | None = None
        self._settled = threading.Event()
        self._teller: threading.Thread | None = None

    @hook_impl(trylast=True)  # if another hook refuses the run, Kedro calls no hook at its end
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]
    ) -> None:
        """Handle Ctrl-C, unless another handler is set."""
        self.after_pipeline_run()  # for an earlier run in this process: Kedro does not call it after Ctrl-C
        self.interrupted, self._run = False, None
        parallel = "ParallelRunner" in str(run_params.get("runner"))
        main = threading.current_thread() is threading.main_thread()  # only the main thread may set a handler
        if parallel or not main or not has_own(pipeline) or "race" not in pipeline.all_outputs():
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._run = catalog.load("run")
            self._settled = threading.Event()
            teller = threading.Thread(target=self._report, args=(self._settled,), name="hone-interrupt", daemon=True)
            teller.start()
            self._teller = teller
            signal.signal(signal.SIGINT, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        if self._run is None or not self._run.search_began:
            self._settled.set()
            signal.default_int_handler(number, frame)
            return
        self._run.stop()
        self.interrupted = True
        self._settled.set()

    def _report(self, settled: threading.Event) -> None:
        settled.wait()
        if self.interrupted:
            _LOGGER.warning("interrupted: what was measured is confirmed and judged; Ctrl-C again ends the run")

    def _restore(self) -> None:
        if signal.getsignal(signal.SIGINT) == self._stop:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @hook_impl
    def after_pipeline_run(self) -> None:
        """Restore the handler of Ctrl-C."""
        self._restore()
        self._settled.set()
        if self._teller is not None:
            self._teller.join()
            self._teller = None

    on_pipeline_error = after_pipeline_run
