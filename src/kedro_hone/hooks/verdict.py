"""Print the verdict of a run, and set its exit code."""

from __future__ import annotations

from typing import Any

from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from rich.console import Console

from hone_runtime.errors import ExitCode
from kedro_hone.hooks.membership import has_own

_EXIT_CODES = {"FAIL": ExitCode.FAIL, "INCONCLUSIVE": ExitCode.INCONCLUSIVE, "DRAFT": ExitCode.DRAFT}
"""Of the verdicts; PASS and KEEP are a success."""


class VerdictHooks:
    """Prints the verdict of a run, if any, and stores the exit code of the command line as ``exit_code``."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self.exit_code = ExitCode.SUCCESS

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]) -> None:
        """Report the run's folder to the program that started the run."""
        if has_own(pipeline) and "run" in pipeline.inputs():
            from kedro_hone.report.result_file import note_result  # noqa: PLC0415 - as below

            note_result(folder=str(catalog.load("run").folder))

    @hook_impl
    def after_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol[Any, Any]) -> None:
        """Print the verdict, the path of the report, and how to call the winner."""
        if not has_own(pipeline):
            return
        # Imported here: settings are imported by every command of Kedro.
        from hone_runtime.values.decision import Verdict  # noqa: PLC0415
        from kedro_hone.hooks.flags import choose_words  # noqa: PLC0415
        from kedro_hone.report.claims import format_speed  # noqa: PLC0415
        from kedro_hone.report.console import print_verdict  # noqa: PLC0415
        from kedro_hone.report.result_file import note_result  # noqa: PLC0415

        made = pipeline.all_outputs()
        published = catalog.load("publications") if "publications" in made else ()
        if published:
            note_result(published=published[0].uri, awaits=published[0].awaits)
        if "evidence" not in made:
            return
        evidence, run = catalog.load("evidence"), catalog.load("run")
        self.exit_code = _EXIT_CODES.get(evidence.verdict.value, ExitCode.SUCCESS)
        why = "" if evidence.verdict is Verdict.PASS else "; ".join(evidence.reasons)
        speed = format_speed(evidence.speedups) if evidence.winner and evidence.speedups else ""
        note_result(verdict=evidence.verdict.value, message=f"{why}." if why else "", speed=speed)
        print_verdict(
            evidence,
            self._console,
            folder=run.folder,
            publication=published[0] if published else None,
            translate=choose_words(),
        )
