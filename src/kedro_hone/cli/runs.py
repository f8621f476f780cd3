"""Results of earlier runs: ``kedro hone report`` prints a report, ``replay`` runs one recorded step again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click
from rich.console import Console

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.job import Job, StepResult
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.text import clean_line, clean_text
from hone_runtime.values.regular import read_regular
from kedro_hone.cli.toolchain_builds import build_one
from kedro_hone.core.workers.host.run import WORKER_MAIN, call_worker
from kedro_hone.graph import configure, find_work, read_parameters
from kedro_hone.recipe.environments import open_environments
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.report.console import print_verdict
from kedro_hone.report.evidence import parse_evidence
from kedro_hone.report.files import read_publication

_FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("folder", required=False, type=_FOLDER)
@click.option("--open", "in_browser", is_flag=True, help="Open the page in the browser.")
def report(folder: Path | None, *, in_browser: bool) -> None:
    """Print the report of the last run, or of the run in FOLDER."""
    place = folder or find_work() / "latest"
    path = place / "evidence.json"
    if not path.is_file():
        why = "A run writes evidence.json once it has a verdict."
        hint = "Run `kedro-hone run`, or name a run's folder in data/hone/runs."
        raise HoneError("report-missing", f"There is no report in {place}.", why=why, hint=hint)
    evidence, publication = parse_evidence(path.read_bytes()), read_publication(place)
    print_verdict(evidence, Console(), folder=place, publication=publication)
    if in_browser:
        click.launch(str((place / "report.html").absolute()))


@click.command()
@click.argument("step")
@click.option("--run", "run_folder", type=_FOLDER, help="The run's folder; the latest one if not given.")
@click.option("--output", type=_FOLDER, help="Write the step's files to this folder, and keep them.")
def replay(step: str, *, run_folder: Path | None, output: Path | None) -> None:
    """Run STEP again, such as 007-onnxruntime.int8-static, and print what its worker prints."""
    configure()
    place = _find_step(step, run_folder)
    job = Job.model_validate_json(read_regular(place / "job.json"))
    toolchain = _find_toolchain(job)
    environments = open_environments(read_recipe(read_parameters()))
    python = Path(build_one(environments, toolchain).python)
    with tempfile.TemporaryDirectory() as scratch:
        folder, target = Path(scratch) / "step", (output or Path(scratch) / "output").absolute()
        target.mkdir(parents=True, exist_ok=True)
        again = job.model_copy(update={"output": str(target), "temporary": None})
        result = call_worker(again, python=python, toolchain=toolchain, folder=folder, limits=toolchain.limits)
        if (folder / "log").exists():  # no worker was started if its limits are too small
            click.echo(clean_text((folder / "log").read_text(errors="replace")), nl=False)
        made = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())
    if isinstance(result, StepResult):
        click.echo(f"{job.adaptor}: done in {result.seconds:.1f} s, notes {json.dumps(result.notes)}, files {made}")
    else:
        click.echo(clean_line(f"{job.adaptor}: {result.kind}: {result.reason}"))


def _find_step(step: str, run: Path | None) -> Path:
    """Return the folder of a step; without a run, of the latest run with steps."""
    run = run or max((path.parent for path in find_work().glob("runs/*/steps")), default=find_work() / "latest")
    steps = sorted(path.parent for path in (run / "steps").glob("*/job.json"))
    if found := [path for path in steps if step in {path.name, path.name.partition("-")[0]}]:
        return found[0]
    why = f"It has: {', '.join(path.name for path in steps) or 'none: all came from the store'}."
    hint = "Name one of them, or another run with --run."
    raise HoneError("replay-unknown", f"There is no step {step!r} in {run}.", why=why, hint=hint)


def _find_toolchain(job: Job) -> Toolchain:
    for toolchain in read_catalogue().toolchains.values():
        if toolchain.worker == Path(job.worker):
            return toolchain
    what = f"The step was made by {job.worker}, which belongs to no toolchain."
    why = "Steps of the program (reading data, scoring) have no environment of their own."
    hint = f"Run it by hand: python {WORKER_MAIN} with its job.json."
    raise HoneError("replay-unknown", what, why=why, hint=hint)
