"""``kedro hone listen``, which starts runs for events of registries, and ``kedro hone approve``."""

from __future__ import annotations

import glob
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click
from kedro.config import MissingConfigException
from kedro.framework import project
from omegaconf import OmegaConf

from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.plugins import describe_exception
from hone_runtime.contract.target import find_name, find_target
from hone_runtime.errors import ExitCode, HoneError, read_lines
from hone_runtime.values.digest import digest_json
from kedro_hone.events.approval import ImagePlace, approve_winner
from kedro_hone.events.event import format_model_name
from kedro_hone.events.exclusive import SERVICE, lock_project
from kedro_hone.events.recipes import Recipes
from kedro_hone.events.rules import Rule, includes_events
from kedro_hone.events.service import Service
from kedro_hone.events.settings import Settings, read_secrets, read_settings
from kedro_hone.events.sweep import find_arrivals
from kedro_hone.graph import configure, find_parameters, find_root
from kedro_hone.recipe.publish import PublishSection
from kedro_hone.recipe.schema import Recipe, read_recipe
from kedro_hone.serving.image.references import read_target


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8472, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 for any.")
@click.option("--env", "-e", help="The Kedro environment of listen.yml.")
def listen(*, host: str, port: int, env: str | None) -> None:
    """Start a run for each new version that a rule in listen.yml takes, until it is ended.

    Webhooks of MLflow and of the Hub tell of versions, and a sweep finds those that no webhook told of.
    """
    try:
        from kedro_hone.events.server import bind_address, serve_http  # noqa: PLC0415 - needs the extra `events`
    except ImportError as error:
        raise click.ClickException(f"{error}: pip install 'kedro-hone[events]'") from error
    if env:
        os.environ["KEDRO_ENV"] = env  # an approval's process reads listen.yml, too
    configure()
    root = find_root()
    settings = read_settings(read_section(open_loader(root, env), "listen")).place(env)
    secrets = read_secrets(settings.secrets)
    recipes = Recipes(
        lambda: {rule.name: read_rule(root, rule)[1] for rule in settings.rules},
        folder=root / project.settings.CONF_SOURCE,
    )
    hardware = read_host().fingerprint
    with lock_project(root, SERVICE), bind_address(host, port) as listener:
        service = Service(settings, secrets, project=root, hardware=hardware, recipes=recipes.read)
        serve_http(service, listener)


@click.command()
@click.argument("uri")
@click.option("--env", "-e", help="The Kedro environment of listen.yml.")
def approve(uri: str, *, env: str | None) -> None:
    """Move the alias to the winner URI, which was published with `hone.publish.approval`, and the tag of its image."""
    if env:
        os.environ["KEDRO_ENV"] = env
    configure()
    root = find_root()
    publication = approve_winner(uri, project=root, places=find_places(root))
    click.echo(f"{publication.alias} points to {publication.uri}")


@click.command(hidden=True)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def job(folder: Path) -> None:
    """Do what the job in FOLDER says; the service starts it."""
    from kedro_hone.events.jobs import run_job  # noqa: PLC0415 - needs the extra `events`

    if not sys.stdin.buffer.readline():  # the service died before it recorded this process
        sys.exit(ExitCode.TERMINATED)
    configure()
    run_job(folder, project=find_root(), token=os.environ.get("HONE_GITHUB_TOKEN", ""), find_places=find_places)


@click.command(hidden=True)
@click.argument("registry")
def arrivals(registry: str) -> None:
    """Print what is new in REGISTRY after the cursor on standard input; the service starts it."""
    configure()
    click.echo(find_arrivals(registry, **json.load(sys.stdin), project=find_root()).model_dump_json())


def find_places(root: Path) -> tuple[ImagePlace, ...]:
    """Return where the project's recipes push the images of winners, in the environment ``KEDRO_ENV``.

    The recipes are the project's own and those of the rules in ``listen.yml``. The reason why one cannot be used is
    printed on standard error; it then names no place.
    """
    errors, rules = list[str](), tuple[Rule, ...]()
    found = list[ImagePlace]()
    with _note_error(errors):
        settings = find_settings(root, None)
        rules = settings.rules if settings else ()
    with _note_error(errors):
        found += _list_own_places(root)
    for number, rule in enumerate(rules):
        with _note_error(errors):
            found += _list_places(root, rule, rules[:number])
    for one in errors:
        click.echo(f"The tag of an image may not be written: {one}", err=True)
    return tuple(found)


@contextmanager
def _note_error(errors: list[str]) -> Iterator[None]:
    """Append the text of an error to a list: an approval does not depend on what is wrong elsewhere."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - it is printed; OmegaConf and registries raise anything
        known = HoneError.find(error)
        errors.append(f"{known.what} {known.why} {known.hint}" if known else describe_exception(error))


def _list_own_places(root: Path) -> list[ImagePlace]:
    """Return the place of the project's own recipe; empty if it names no model, or pushes no image.

    Raises:
        Exception: The configuration cannot be read, or the recipe names no target model.
    """
    model = (find_parameters(open_loader(root, None)) or {}).get("model")
    source = str(model.get("uri") or "") if isinstance(model, Mapping) else ""
    publish = read_rule(root, None)[0].publish if source else PublishSection()
    if publish.image is None or not publish.enabled:
        return []
    target = find_target(source, uri=publish.uri, name=publish.name, project=root)
    name = target.name or find_name(target, source)
    models = glob.escape(format_model_name(name, uri=publish.uri or source))
    return [_make_place(publish.image.push, publish.alias, models)]


def _list_places(root: Path, rule: Rule, earlier: Sequence[Rule]) -> list[ImagePlace]:
    """Return the place of a rule's recipe; empty if it pushes no image, or another machine runs it.

    Raises:
        Exception: The configuration cannot be read.
    """
    publish = read_rule(root, rule)[0].publish
    if publish.image is None or not publish.enabled or rule.dispatch is not None:
        return []
    if publish.name or publish.uri:
        name = publish.name or find_target(rule.models, uri=publish.uri, name=None, project=root).name or ""
        models = glob.escape(format_model_name(name, uri=publish.uri or rule.models))
        return [_make_place(publish.image.push, publish.alias, models)]
    others = tuple(one.models for one in earlier if includes_events(one.events, rule.events))
    return [_make_place(publish.image.push, publish.alias, rule.models, others=others)]


def _make_place(push: str, alias: str, models: str, *, others: tuple[str, ...] = ()) -> ImagePlace:
    """Return a place whose tag was checked; raises as ``read_target``."""
    read_target(push)
    return ImagePlace(push=push, alias=alias, models=models, others=others)


def open_loader(root: Path, env: str | None) -> Any:
    """Return the project's configuration loader for an environment, with a pattern for ``listen.yml``."""
    settings = project.settings
    source, env = str(root / settings.CONF_SOURCE), env or os.environ.get("KEDRO_ENV")
    loader = settings.CONFIG_LOADER_CLASS(conf_source=source, env=env, **settings.CONFIG_LOADER_ARGS)
    loader.config_patterns["listen"] = ["listen*", "listen*/**"]
    return loader


def find_settings(root: Path, env: str | None) -> Settings | None:
    """Return the settings in ``listen.yml``; None if there is no such file.

    Raises:
        HoneError: As ``read_section`` and ``read_settings``.
    """
    loader = open_loader(root, env)
    places = {loader.base_env or "base", loader.env or loader.default_run_env or "local"}
    found = any(any(Path(loader.conf_source, place).glob("listen*")) for place in places)
    return read_settings(read_section(loader, "listen")) if found else None


def read_section(loader: Any, name: str) -> Mapping[str, Any]:
    """Return the configuration that a loader reads under a name.

    Raises:
        HoneError: ``rules-invalid``: there is no such file, or it is not YAML.
    """
    try:
        found: Mapping[str, Any] = loader[name]
    except MissingConfigException as error:
        why = "Without rules no event would start a run."
        hint = "Write conf/base/listen.yml; Listen to a registry in the documentation has an example."
        raise HoneError("rules-invalid", "There is no listen.yml.", why=why, hint=hint) from error
    except Exception as error:
        hint = "Correct the YAML in conf/base/listen.yml, or that of the environment."
        raise HoneError("rules-invalid", "listen.yml cannot be read.", why=str(error), hint=hint) from error
    return found


def read_rule(root: Path, rule: Rule | None) -> tuple[Recipe, str]:
    """Return the recipe of a rule's runs, or the project's own, and the digest of the project's.

    Raises:
        HoneError: ``recipe-invalid``; ``rules-invalid``: the rule's changes of the recipe are invalid.
    """
    own = find_parameters(open_loader(root, rule.env if rule else None)) or {}
    changes = rule.recipe if rule else {}
    merged = OmegaConf.to_container(OmegaConf.merge(own, changes, {"model": {"uri": "models:/any/1"}}))
    try:
        return read_recipe(cast("Mapping[str, Any]", merged)), digest_json(own)
    except HoneError as error:
        if rule is None:
            raise
        what = f"The recipe of the rule {rule.name!r} cannot be used."
        hint = (
            "Correct `recipe` of that rule in listen.yml, or what it changes: "
            f"conf/{rule.env or 'base'}/parameters.yml."
        )
        raise HoneError("rules-invalid", what, why=read_lines(error.why), hint=hint) from error
