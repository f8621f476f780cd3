"""``kedro hone optimize``: from a model and its data to a verdict, without any file to write."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any, Final

import click
import yaml

from hone_runtime.errors import ExitCode, HoneError
from hone_runtime.text import clean_line, clean_text
from hone_runtime.values.digest import digest_json
from kedro_hone.cli.failures import explain_failures
from kedro_hone.cli.tracking import pin_store
from kedro_hone.core.environments.store import find_home
from kedro_hone.core.locks import hold_lock, read_holder
from kedro_hone.core.store.disk import find_disk_error
from kedro_hone.derivation.origins import name_origin
from kedro_hone.derivation.project import (
    LOCK,
    claim_folder,
    format_yaml,
    release_folder,
    save_project,
    write_project,
)
from kedro_hone.derivation.proposal import Proposal, propose
from kedro_hone.derivation.request import (
    Request,
    make_absolute,
    read_budget,
    read_data,
    read_pairs,
    read_shape,
    read_share,
    read_values,
    refuse_secrets,
)
from kedro_hone.derivation.source_hints import suggest_source
from kedro_hone.graph import configure, read_catalog, read_entries, read_parameters, separate
from kedro_hone.hooks.flags import translate_keys
from kedro_hone.hooks.lines import hold_messages
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.report.result_file import VARIABLE, read_result
from kedro_hone.report.snippets import enter, note_start
from kedro_hone.runner.start import check_start

_FOLDER = click.Path(path_type=Path, file_okay=False)
_SHOWN_ROUTES: Final = 40
"""The number of routes that a dry run prints."""
_MANY: Any = {"multiple": True, "metavar": "NAME=VALUE"}


@click.command()
@click.argument("source")
@click.option("--data", multiple=True, metavar="FILE", help="The data; or SPLIT=FILE for calibration, search and gate.")
@click.option("--no-data", is_flag=True, help="Draw the inputs at random: the verdict is a DRAFT, never published.")
@click.option("--target", metavar="COLUMN", help="The column of the labels, or of the numbers to predict.")
@click.option("--group", metavar="COLUMN", help="Rows with one value of this column stay in one split.")
@click.option("--task", metavar="NAME", help="The task, such as tabular-regression, where it cannot be derived.")
@click.option("--input", "inputs", **_MANY, help="The column or array of an input of the model.")
@click.option("--classes", metavar="A,B", help="The names of the classes, in the order of the model's outputs.")
@click.option("--option", "options", **_MANY, help="A further option of the task's program, such as scale=0.0039.")
@click.option("--module", metavar="FILE:CLASS", help="The author's class of a PyTorch model; it is executed.")
@click.option("--shape", "shapes", multiple=True, metavar="batch=N,…", help="Sizes that every candidate must serve.")
@click.option(
    "--max-drop",
    metavar="SHARE",
    help="The most that the metric may lose; 1%, or the least provable.",
)
@click.option("--min-speedup", type=click.FloatRange(min=1), help="How much faster the winner must be.")
@click.option(
    "--budget",
    metavar="TIME",
    help="How long the search may take, such as 10m; or quick, default or thorough. The confirmation comes on top.",
)
@click.option("--toolchains", metavar="A,B", help="The toolchains that take part.")
@click.option("--trust", multiple=True, help="What may be executed: pickle, module, native or remote-code.")
@click.option("--publish/--no-publish", default=False, help="Publish a winner; not by default.")
@click.option("--allow", multiple=True, help="What a winner may be that is withheld by default: anomalous.")
@click.option("--to", metavar="URI", help="The model that a winner is published to, where it is another one.")
@click.option(
    "--set",
    "settings",
    **_MANY,
    help="Any other key of the recipe, such as gates.size_mb=5 or adaptors[tvm.cpu].enabled=false.",
)
@click.option("--folder", type=_FOLDER, help="Where the run and the store are; in the user's cache if not given.")
@click.option("--save", type=_FOLDER, help="Write what was derived to this folder, as a project of three files.")
@click.option("--dry-run", is_flag=True, help="Print the recipe, the catalog and the routes; build nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; everything else goes to stderr.")
@click.pass_context
def optimize(context: click.Context, /, **given: Any) -> None:
    """Make the model SOURCE faster, with proof: derive a recipe from it and from its data, and run it.

    SOURCE is a path or a URI, such as models:/churn/3 or hf://owner/name. Exit codes are those of a run; 12 is a DRAFT.
    """
    try:
        with translate_keys():
            _optimize(context, given)
    except HoneError as error:
        if given["as_json"]:
            click.echo(json.dumps({"exit_code": ExitCode.INPUT, "slug": error.slug, "message": str(error)}, indent=2))
        raise


def _optimize(context: click.Context, given: Mapping[str, Any]) -> None:
    """Derive the project, check what its run needs, and run it; a mistake ends it before anything is built."""
    start, request = Path.cwd(), _read_request(given)
    folder = (given["folder"] or _name_folder(request)).resolve()
    if inside := [place for place in request.data.values() if Path(place).is_relative_to(folder)]:
        why = f"{inside[0]} is in the folder that --folder names, whose files may be replaced."
        raise HoneError("option-invalid", "--data is in the folder of the run.", why=why, hint="Name another --folder.")
    existed = folder.exists()
    new = claim_folder(folder, flag="--folder")
    pin_store(os.environ, start)
    os.environ.pop("KEDRO_ENV", None)  # the derived project has one environment
    with (
        note_start(start),
        redirect_stdout(sys.stderr) if given["as_json"] else nullcontext(),
        _hold_folder(folder),
        _leave_nothing(folder, existed=existed, new=new),
        suggest_source(given["source"], start),
    ):
        claim_folder(folder, flag="--folder")  # another command may have removed it meanwhile
        click.echo(clean_text(f"reading   {request.source}{' and its data' if request.data else ''}"))
        with nullcontext() if given["dry_run"] else hold_messages():  # a run repeats them
            proposal = propose(request, folder)
        write_project(folder, recipe=proposal.recipe, catalog=proposal.catalog)
        separate(folder)
        for line in proposal.lines:
            click.echo(clean_line(line))
        if given["save"]:
            target = start / given["save"]
            save_project(folder, target, recipe=proposal.recipe, catalog=proposal.catalog)
            click.echo(f"saved     {target}: `{enter(target)}kedro-hone run` runs it again")
        os.chdir(folder)
        configure()
        _check_unchanged(proposal)
        recipe, registered = read_recipe(read_parameters()), read_catalog()
        click.echo("checking  the registry, the data and what the run needs")
        with name_origin(proposal.origin), nullcontext() if given["dry_run"] else hold_messages():
            check_start(recipe, registered, source=proposal.source)
        if given["dry_run"]:
            _print_plan(proposal)
            return
        with _collect_result() as result:
            code = _run(context)
    if given["as_json"]:
        click.echo(json.dumps({"exit_code": code, **result, "derived": list(proposal.lines)}, indent=2))
    sys.exit(code)


@contextmanager
def _leave_nothing(folder: Path, *, existed: bool, new: bool) -> Iterator[None]:
    """Remove what was made in a new folder if the block ends by an error before anything was pulled or derived."""
    try:
        yield
    except Exception:
        if new:
            release_folder(folder, existed=existed)
        raise


def _check_unchanged(proposal: Proposal) -> None:
    """Raise ``option-invalid`` if other files in the folder, such as in ``conf/local``, change what was derived."""
    parts = {
        "recipe": (proposal.recipe, read_parameters(), "parameters*.yml"),
        "catalog": (proposal.catalog, read_entries(), "catalog*.yml"),
    }
    for name, (derived, read, files) in parts.items():
        if json.dumps(derived, default=str, sort_keys=True) != json.dumps(read, default=str, sort_keys=True):
            why = "Other files in its conf/ are merged over it, and what was printed would not be what runs."
            hint = f"Remove conf/local/{files} there, or name another --folder."
            raise HoneError("option-invalid", f"The folder of the run changes the derived {name}.", why=why, hint=hint)


def _read_request(given: Mapping[str, Any]) -> Request:
    """Return the request of a command line.

    Raises:
        HoneError: ``option-invalid``.
    """
    start = Path.cwd()
    data = read_data(given["data"], start)
    if bool(data) == given["no_data"]:
        both = "--data and --no-data exclude each other: leave --no-data out to prove something with the data"
        raise click.UsageError(both if data else "give --data FILE; or --no-data for a draft")
    values, options = read_values(given["settings"], "--set"), read_values(given["options"], "--option")
    for flag, value in (("SOURCE", given["source"]), ("--to", given["to"]), ("--set", values), ("--option", options)):
        refuse_secrets(value, flag)
    settings: dict[str, Any] = {"publish.enabled": given["publish"], **values}
    if given["module"]:
        place, separator, name = given["module"].rpartition(":")
        settings["model.module"] = f"{_locate_code(place, start)}{separator}{name}"
    trust = [*dict.fromkeys([*given["trust"], *(["module"] if given["module"] else [])])]
    named = {
        "gates.speedup": given["min_speedup"],
        "budget": given["budget"] and read_budget(given["budget"]),
        "toolchains": given["toolchains"] and yaml.safe_load(f"[{given['toolchains']}]"),
        "trust": trust or None,
        "publish.allow": list(given["allow"]) or None,
        "publish.uri": given["to"] and make_absolute(given["to"], start),
    }
    return Request(
        source=make_absolute(given["source"], start),
        data=data,
        target=given["target"],
        group=given["group"],
        task=given["task"] and _locate_code(given["task"], start),
        inputs=read_pairs(given["inputs"], "--input"),
        classes=tuple(filter(None, (given["classes"] or "").split(","))),
        options=options,
        shapes=tuple(read_shape(one) for one in given["shapes"]),
        max_drop=given["max_drop"] and read_share(given["max_drop"], "--max-drop"),
        settings={**settings, **{name: value for name, value in named.items() if value is not None}},
    )


def _locate_code(place: str, start: Path) -> str:
    """Return a file of code with its absolute path, and the name of a package unchanged."""
    return make_absolute(place, start) if place.endswith(".py") else place


def _name_folder(request: Request) -> Path:
    """Return a folder in the user's cache for a model and its data: a second run finds what was built."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.source.rpartition(":")[2]).strip("-")[-40:]
    return find_home() / "projects" / f"{name}-{digest_json([request.source, dict(request.data)])[7:17]}"


def _print_plan(proposal: Proposal) -> None:
    from kedro_hone.cli.routes import print_routes  # noqa: PLC0415 - it imports the planning of routes

    recipe, catalog = map(format_yaml, ({"hone": proposal.recipe}, proposal.catalog))
    click.echo(clean_text(f"\n# conf/base/parameters.yml\n{recipe}\n# conf/base/catalog.yml\n{catalog}"))
    print_routes(source=proposal.source.format, most=_SHOWN_ROUTES)


@contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    """Hold the folder of a run: another run in it would replace the recipe and the splits of this one.

    Raises:
        HoneError: ``option-invalid``: another run is in progress there; ``store-full`` or ``store-read-only``.
    """
    lock = folder / LOCK
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(lock, purpose="optimizing in this folder", waits=False))
        except BlockingIOError as error:
            why = f"{folder} is in use by {read_holder(lock) or 'another process'}; two runs would mix their files."
            hint = "Wait for its end and repeat the command; or name another folder: --folder FOLDER."
            raise HoneError("option-invalid", "Another run is in progress here.", why=why, hint=hint) from error
        try:
            yield
        except OSError as error:  # of the derivation, whose folder is not the current project
            full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
            if full and (known := find_disk_error(error, folder)):
                raise known from error
            raise


def _run(context: click.Context) -> int:
    """Run the pipelines of the current folder's project, and return the exit code."""
    from kedro_hone.cli import run_pipelines  # noqa: PLC0415 - it imports this module

    try:
        with explain_failures(), translate_keys():
            context.invoke(run_pipelines)
    except SystemExit as end:
        return int(end.code or ExitCode.SUCCESS)
    return ExitCode.SUCCESS


@contextmanager
def _collect_result() -> Iterator[dict[str, Any]]:
    """Yield a dict that has the result of a run when the block ends: the folder, the verdict, what was published."""
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        outer = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = outer or str(Path(scratch) / "result.json")
        try:
            yield result
        finally:
            found = read_result(Path(os.environ[VARIABLE]))
            result |= found.model_dump()
            if found.folder:
                result["report"] = str(Path(found.folder) / "report.html")
            if outer is None:
                del os.environ[VARIABLE]
