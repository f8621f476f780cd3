"""``kedro hone verify``: what is known of a published version without opening its model."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.tags import DIGEST
from hone_runtime.learner.evidence import check_published
from hone_runtime.signing.verify import describe_signature
from hone_runtime.text import clean_line
from kedro_hone.cli.signers import read_policy, signer_options


@click.command()
@click.argument("uri")
@signer_options
@click.option("--name", help="The signed model's expected name; by default that in URI.")
@click.option("--source", metavar="DIGEST", help="The expected digest of its source, as in hone.source_digest.")
def verify(uri: str, *, keys: tuple[str, ...], **asked: str | None) -> None:
    """Check a published version: its files, the registry's tags, its evidence, and its signature.

    URI is models:/name@alias, models:/name/version, or a folder. The model is not opened. The signature is checked with
    --key, or --identity and --issuer. Exit codes: 0 all that was checked is as it should be; 3 something is not, or
    cannot be checked.
    """
    policy = read_policy({"keys": keys, **asked})
    with tempfile.TemporaryDirectory(prefix="kedro-hone-") as scratch:
        folder = Path(scratch, "version")
        version, evidence = check_published(uri, folder, find_registry(uri), policy)
        said = describe_signature(folder)
    signer = "one of the keys" if keys else asked["identity"]
    _print_check("files", "each matches the manifest")
    _print_check(
        "tags", DIGEST in version.tags and f"{DIGEST} is that of the manifest", missing="the registry has none"
    )
    _print_check("evidence", evidence)
    _print_check(
        "signature",
        policy and f"of {signer}, over every file but the registry's own notes",
        missing=(said and f"it is {said}; name --key") or "none",
    )


def _print_check(what: str, found: object, *, missing: str = "") -> None:
    click.echo(clean_line(f"{what:10s} {f'checked: {found}' if found else f'NOT checked: {missing}'}"))
