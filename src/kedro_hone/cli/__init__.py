"""The command line: ``kedro run`` with an exit code for each verdict, and everything else under ``kedro hone``.

Kedro finds ``cli`` in this project, and ``commands`` through the entry point everywhere else, also outside a project.
"""

from __future__ import annotations

import difflib
import sys
from importlib import import_module
from typing import Any, Final

import click
from kedro.framework import project
from kedro.framework.cli.project import run as kedro_run

from hone_runtime.errors import ExitCode
from kedro_hone.cli.failures import explain, explain_failures
from kedro_hone.graph import configure, find_work, list_pipelines
from kedro_hone.hooks.interrupt import InterruptHooks
from kedro_hone.hooks.logs import configure_logging
from kedro_hone.hooks.progress import ProgressHooks
from kedro_hone.hooks.runtime import read_runtime
from kedro_hone.hooks.verdict import VerdictHooks

_SUMMARY = "Make registered models faster, with proof."


_MODULES: Final = {
    "adaptor": "plugins",
    "approve": "listen",
    "arrivals": "listen",
    "check": "check",
    "client": "client",
    "export": "export",
    "image": "image",
    "init": "init",
    "job": "listen",
    "listen": "listen",
    "optimize": "optimize",
    "registries": "plugins",
    "replay": "runs",
    "report": "runs",
    "routes": "routes",
    "serve": "serve",
    "sweep": "sweep",
    "toolchains": "plugins",
    "verify": "verify",
    "wire": "wire",
}
"""The module of each command in this package. Importing all of them would slow down each start of Kedro."""


class _Commands(click.Group):
    """Commands with explained failures; their modules are imported when one of them is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_MODULES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"kedro_hone.cli.{_MODULES[cmd_name]}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near or "did you mean" in error.message.casefold():
                raise
            ctx.fail(f"{error.message.rstrip('.')}. Did you mean {near[0]}?")

    @explain_failures()
    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx)


def _run(**options: Any) -> None:
    """Run the optimization: pull, convert, compress, compile, validate, race, confirm, gate, report and publish.

    Exit codes: 0 a winner was published or the source stays; 10 FAIL; 11 INCONCLUSIVE; 12 DRAFT; 3 bad recipe or
    input; 4 a bug.
    """
    configure_logging()
    if options.get("pipeline"):
        (options["pipeline"],) = list_pipelines([options["pipeline"]])
    else:
        options["pipelines"] = list_pipelines(options.get("pipelines") or ())
    options["runner"] = options.get("runner") or "kedro_hone.runner.SearchRunner"
    try:
        kedro_run.callback(**options)  # type: ignore[misc]  # click allows commands without one; this one has it
    except SystemExit as stop:  # by code of a plug-in: only the verdict determines the exit code
        raise RuntimeError(f"the run was ended by SystemExit({stop.code!r}), before it had a verdict") from stop
    finally:  # later output must not be printed through the display
        for hook in project.settings.HOOKS:
            if isinstance(hook, ProgressHooks):
                hook.after_pipeline_run()
    hooks = project.settings.HOOKS
    if any(hook.interrupted for hook in hooks if isinstance(hook, InterruptHooks)):
        sys.exit(ExitCode.INTERRUPTED)
    code = max((hook.exit_code for hook in hooks if isinstance(hook, VerdictHooks)), default=ExitCode.SUCCESS)
    sys.exit(code)


# With Kedro's own options: one command for users, and one whose exceptions another command explains.
run = click.Command("run", params=kedro_run.params, callback=explain_failures()(_run), help=_run.__doc__)
run_pipelines = click.Command("run", params=kedro_run.params, callback=_run)


@click.command()
@click.argument("candidate")
@click.option("--env", "-e", help="Kedro's environment; that of the race if not given.")
@click.pass_context
def choose(context: click.Context, *, candidate: str, env: str | None) -> None:
    """Confirm, gate and publish CANDIDATE of the last race in place of the fastest; nothing is built or raced again.

    The recipe is that of the race, with the `--params` and the `--env` of its run.

    Exit codes are those of a run.
    """
    configure()
    known = read_runtime(find_work())
    parameters = {**known.params, "hone": {**known.params.get("hone", {}), "choose": candidate}}
    context.invoke(run, pipelines=["choose", "publish"], params=parameters, env=env or known.env)


class _Script(_Commands):
    """The commands of ``kedro hone`` next to ``run``, without the word ``hone`` between."""


hone = _Commands(
    "hone",
    commands=[choose, explain],
    help="Routes, choices, toolchains, registries, reports, replays, published versions and errors of kedro-hone.",
)
cli = click.Group("kedro-hone", commands=[run, hone], help=_SUMMARY)
commands = click.Group("kedro-hone", commands=[hone], help=_SUMMARY)
script = _Script("kedro-hone", commands=[run, hone, choose, explain], help=_SUMMARY)
