"""Show the running nodes, the progress, the expected time and the best candidate: live on a terminal."""

from __future__ import annotations

import atexit
import multiprocessing
import os
from typing import TYPE_CHECKING, Any

from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node

from kedro_hone.hooks.logs import configure_logging
from kedro_hone.hooks.membership import has_own

if TYPE_CHECKING:
    from rich.console import Console

    from kedro_hone.hooks.display import Display
    from kedro_hone.hooks.tracker import Listener, Tracker


class ProgressHooks:
    """Shows the progress of a run; the processes of ParallelRunner run only nodes, no pipeline to show."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._display: Display | None = None
        self._tracker: Tracker | None = None
        self._listener: Listener | None = None
        self._process = 0

    @hook_impl(trylast=True)  # a run that another hook refuses shows nothing
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]) -> None:
        """Start the display of a run of our pipelines."""
        self.after_pipeline_run()  # of an earlier run in this process
        if not has_own(pipeline):
            return
        # Imported here: settings are imported by every command of Kedro.
        import rich  # noqa: PLC0415

        from kedro_hone.hooks.display import open_display  # noqa: PLC0415
        from kedro_hone.hooks.progress_file import NotingDisplay  # noqa: PLC0415
        from kedro_hone.hooks.tracker import Listener, Tracker, find_phase  # noqa: PLC0415

        if not any(map(find_phase, pipeline.nodes)):
            return
        self._process, self._tracker = os.getpid(), Tracker(pipeline, catalog)
        # The log's handler writes to the same console, so that its lines go above the display.
        shown = open_display(self._console or rich.get_console(), self._tracker.take)
        self._display = NotingDisplay(shown, self._tracker.take)
        self._listener = Listener(self._tracker, self._display)
        self._listener.attach()
        atexit.register(self.after_pipeline_run)  # Kedro calls no hook after Ctrl-C, and the cursor would stay hidden

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        """Show the running node; a process of ParallelRunner sets up its log anew."""
        if multiprocessing.parent_process() is not None and self._process != os.getpid():
            self._process, self._tracker, self._display = os.getpid(), None, None
            configure_logging()
        if self._tracker is not None and self._display is not None:
            self._tracker.begin(node)
            self._display.show()

    @hook_impl
    def after_node_run(self, node: Node, outputs: dict[str, Any]) -> None:
        """Count the node as done, and read the best candidate and the expected times from its outputs."""
        if self._tracker is not None and self._display is not None:
            self._tracker.end(node, outputs)
            self._display.show()

    @hook_impl(tryfirst=True)  # before the verdict is printed
    def after_pipeline_run(self) -> None:
        """End the display, if there is one."""
        atexit.unregister(self.after_pipeline_run)
        if self._listener is not None:
            self._listener.detach()
        if self._display is not None:
            self._display.close()
        self._display = self._tracker = self._listener = None

    on_pipeline_error = after_pipeline_run
