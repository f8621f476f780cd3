"""Show on a terminal what is running, what is done and the best candidate; elsewhere there is only the log."""

from __future__ import annotations

import atexit
from typing import Any

import rich
from kedro.framework.hooks import hook_impl
from kedro.pipeline import Pipeline
from kedro.pipeline.node import Node
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from kedro_hone.hooks.membership import has_own


class ProgressHooks:
    """A progress display below the log; the processes of ParallelRunner run only nodes, no pipeline to show."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._display: Progress | None = None
        self._task = TaskID(0)

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline) -> None:
        """Start the display."""
        # Kedro's log handler writes to the same console, so that its lines go above the display.
        console = self._console or rich.get_console()
        if not console.is_terminal or not has_own(pipeline):
            return
        name, best = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[best]}"))
        columns = (SpinnerColumn(), name, BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), best)
        # Standard output is not replaced: colorama (through DVC) stores the stream that it finds, and at the end writes
        # a reset to it, which rich would print as text.
        self._display = Progress(
            *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task = self._display.add_task("starting", total=len(pipeline.nodes), best="")
        atexit.register(self.after_pipeline_run)  # Kedro calls no hook after Ctrl-C, and the cursor would stay hidden
        self._display.start()

    @hook_impl
    def before_node_run(self, node: Node) -> None:
        """Show the running node."""
        if self._display is not None:
            self._display.update(self._task, description=node.name)

    @hook_impl
    def after_node_run(self, outputs: dict[str, Any]) -> None:
        """Count the node as done, and show the best candidate so far."""
        if self._display is None:
            return
        self._display.advance(self._task)
        for best in filter(None, map(name_best, outputs.values())):
            self._display.update(self._task, best=best)

    @hook_impl
    def after_pipeline_run(self) -> None:
        """End the display, if there is one."""
        atexit.unregister(self.after_pipeline_run)
        if self._display is not None:
            self._display.stop()
            self._display = None

    on_pipeline_error = after_pipeline_run


def name_best(value: object) -> str:
    """Return the best candidate so far, from the output of the race or the confirmation; otherwise an empty string."""
    # Imported here: settings are imported by every command of Kedro.
    from hone_runtime.values.measurement import Confirmation, RaceResult  # noqa: PLC0415

    if isinstance(value, RaceResult) and value.standings and value.standings[0].objective:
        return f"best so far {value.standings[0].objective.estimate:.1f}x: {value.standings[0].id}"
    if isinstance(value, Confirmation) and value.finalists and value.finalists[0].deciding:
        return f"confirmed {value.finalists[0].deciding.ratio.estimate:.1f}x: {value.finalists[0].id}"
    return ""
