"""``kedro hone adaptor test``: run the public conformance suite on an adaptor."""

from __future__ import annotations

import sys

import click

from kedro_hone.cli.failures import explain_failures


@click.group()
def adaptor() -> None:
    """Commands for authors of adaptors."""


@adaptor.command()
@click.argument("path")
@explain_failures
def test(path: str) -> None:
    """Run the tests in PATH, which subclass kedro_hone.testing.AdaptorSuite."""
    try:
        import pytest  # noqa: PLC0415 - only those who write adaptors have it
    except ImportError as error:
        raise click.ClickException("the suite runs under pytest: pip install pytest") from error
    sys.exit(pytest.main(["--import-mode=prepend", path]))  # tests can import what is next to them
