"""The options by which commands check who made a winner, and the winner that they allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import click

from hone_runtime.errors import HoneError
from hone_runtime.signing.policy import Policy
from kedro_hone.serving.winner import ServedWinner, pull_winner

_Command = TypeVar("_Command", bound=Callable[..., Any])


def signer_options(command: _Command) -> _Command:
    """Add `--key`, `--identity` and `--issuer` to a command: the arguments ``keys``, ``identity`` and ``issuer``."""
    options = (
        click.option(
            "--key",
            "keys",
            multiple=True,
            metavar="FILE",
            help="A public key (PEM). May be repeated: one of the keys must have signed.",
        ),
        click.option("--identity", help="The identity that must have signed with Sigstore; needs --issuer."),
        click.option("--issuer", help="The OpenID Connect issuer of that identity."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def trust_option(command: _Command) -> _Command:
    """Add `--trust native` to a command: the argument ``trust``."""
    return click.option("--trust", type=click.Choice(["native"]), help="Trust the author of a winner that is code.")(
        command
    )


def read_policy(options: Mapping[str, Any]) -> Policy | None:
    """Return the required signer, from the options of a command; None if none is named.

    An empty option, such as from an unset variable, is a mistake: it requests something and names nothing.

    Raises:
        click.UsageError: The options name no signer, or several kinds of one.
    """
    if not options.get("keys") and all(value is None for name, value in options.items() if name != "keys"):
        return None
    try:
        return Policy.model_validate(dict(options))
    except ValueError as error:
        more = "; --source is sha256:…" if "source" in options else ""
        raise click.UsageError(f"Name --key, or --identity with --issuer{more}.") from error


@contextmanager
def pull_allowed(uri: str, options: Mapping[str, Any], *, name: str | None = None) -> Iterator[ServedWinner]:
    """Download a winner that the options of a command allow, or copy its folder, and remove it at the end.

    Args:
        uri: As in ``pull_winner``.
        options: All options of the command, with those of ``signer_options`` and ``trust_option``.
        name: The name in the server.

    Raises:
        HoneError: As in ``pull_winner``; the hint of ``native-not-trusted`` names the options.
    """
    policy = read_policy({one: options.get(one) for one in ("keys", "identity", "issuer")})
    with ExitStack() as stack:
        try:
            winner = stack.enter_context(
                pull_winner(uri, name=name, verify=policy, trusted=options["trust"] == "native", copies=True)
            )
        except HoneError as error:
            if error.slug != "native-not-trusted":
                raise
            hint = "Check its signature with --key, or trust whoever can write to the registry: --trust native."
            raise HoneError(error.slug, error.what, why=error.why, hint=hint) from error
        yield winner
