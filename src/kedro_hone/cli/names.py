"""The option `--name` of commands that put a winner behind a server."""

from __future__ import annotations

from typing import TypeVar

import click

from kedro_hone.serving.winner import SERVER_NAME

_Value = TypeVar("_Value", None, str, tuple[str, ...])


def check_server_name(_context: click.Context, _option: click.Parameter, value: _Value) -> _Value:
    """Return the value of an option, one name or several, if a server can have them; a callback of click.

    Raises:
        click.BadParameter: A server cannot have such a name.
    """
    names: tuple[str, ...] = (value,) if isinstance(value, str) else value or ()
    if any(not SERVER_NAME.fullmatch(name) for name in names):
        raise click.BadParameter("a name has letters, digits, dots, underscores and hyphens, 128 at most")
    return value
