"""The commands, from click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from generated.models import make_table
from kedro_hone.cli import cli


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all below it, with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if below := command.get_command(context, name):
                yield from walk(below, (*path, name))


def describe_commands() -> str:
    """Return a section for each command."""
    return "\n\n".join(_describe(path, command) for path, command in walk(cli) if path and path != ("hone",))


def _describe(path: tuple[str, ...], command: click.Command) -> str:
    usage = " ".join(("kedro", *path, *_list_arguments(command)))
    parts = [f"## kedro {' '.join(path)}", f"```console\n{usage}\n```", inspect.cleandoc(command.help or "")]
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    if options:
        rows = [
            (", ".join(f"`{name}`" for name in option.opts), " ".join((option.help or "").split()))
            for option in options
        ]
        parts.append(make_table(rows, "option", "meaning"))
    return "\n\n".join(parts)


def _list_arguments(command: click.Command) -> Iterator[str]:
    for argument in command.params:
        if isinstance(argument, click.Argument):
            name = (argument.name or "").upper()
            many = f"{name}…" if argument.nargs == -1 else name
            yield many if argument.required else f"[{many}]"
    if any(isinstance(option, click.Option) for option in command.params):
        yield "[OPTIONS]"
    if isinstance(command, click.Group):
        yield "[COMMAND]"
