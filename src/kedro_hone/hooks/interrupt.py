"""Ctrl-C ends the search, and not the run: what was measured so far is confirmed, judged and reported."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline

from hone_runtime.text import open_logger
from kedro_hone.core.store.runs import RunFolder

_LOGGER = open_logger(__name__)


class InterruptHooks:
    """Handles the first Ctrl-C of a run that races; the second one ends the run, as does one before the search began.

    In a run with ParallelRunner each process gets the signal itself, so that the first one ends it.

    What the first one did is told by a thread, and not by the handler: what that interrupts may be printing and hold a
    lock that the display waits for, while the display holds the one that the handler's line would need. The thread
    starts with the run, since starting one takes locks, too.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._run: RunFolder | None = None
        self._settled = threading.Event()
        self._teller: threading.Thread | None = None

    @hook_impl(trylast=True)  # where another hook refuses the run, Kedro tells nobody that it ended
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]
    ) -> None:
        """Take over Ctrl-C, where nobody else has."""
        self.after_pipeline_run()  # of an earlier run in this process, which Kedro does not call after Ctrl-C
        self.interrupted, self._run = False, None
        parallel = "ParallelRunner" in str(run_params.get("runner"))
        main = threading.current_thread() is threading.main_thread()  # only that one may set a handler
        if parallel or not main or "race" not in pipeline.all_outputs():
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._run = catalog.load("run")
            self._settled = threading.Event()
            teller = threading.Thread(target=self._tell, args=(self._settled,), name="hone-interrupt", daemon=True)
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

    def _tell(self, settled: threading.Event) -> None:
        settled.wait()
        if self.interrupted:
            _LOGGER.warning("interrupted: what was measured is confirmed and judged; Ctrl-C again ends the run")

    def _restore(self) -> None:
        if signal.getsignal(signal.SIGINT) == self._stop:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @hook_impl
    def after_pipeline_run(self) -> None:
        """Leave Ctrl-C as it was."""
        self._restore()
        self._settled.set()
        if self._teller is not None:
            self._teller.join()
            self._teller = None

    on_pipeline_error = after_pipeline_run
