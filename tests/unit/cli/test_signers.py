"""The options by which commands check who made a winner."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kedro_hone.cli import hone
from kedro_hone.cli.signers import read_policy

NONE = {"keys": (), "identity": None, "issuer": None}


def test_without_an_option_no_signature_is_required():
    assert read_policy(NONE) is None


@pytest.mark.parametrize(
    "options", [{"keys": ("a.pem",)}, {"identity": "me@example.org", "issuer": "https://issuer.example.org"}]
)
def test_a_named_signer_is_required(options):
    policy = read_policy(NONE | options)
    assert policy is not None
    assert {name: getattr(policy, name) for name in options} == options


@pytest.mark.parametrize(
    "options",
    [
        {"identity": ""},
        {"issuer": "https://issuer.example.org"},
        {"keys": ("a.pem",), "identity": "me@example.org", "issuer": "https://issuer.example.org"},
    ],
)
def test_an_empty_or_incomplete_signer_is_a_mistake(options):
    with pytest.raises(click.UsageError, match="--key"):
        read_policy(NONE | options)


@pytest.mark.parametrize("command", ["serve", "export", "image", "wire", "verify"])
def test_each_command_that_opens_a_winner_has_the_same_options(command):
    shown = CliRunner().invoke(hone, [command, "--help"]).output
    assert all(option in shown for option in ("--key FILE", "--identity TEXT", "--issuer TEXT"))
    assert command == "verify" or "--trust [native]" in shown


@pytest.mark.parametrize("command", ["serve", "export", "image", "wire"])
def test_an_empty_identity_ends_each_command_before_anything_is_pulled(command, tmp_path):
    more = {"export": ["--to", "onnx"], "image": ["--containerfile", str(tmp_path / "c")]}.get(command, [])
    done = CliRunner().invoke(hone, [command, str(tmp_path / "absent"), "--identity", "", *more])
    assert done.exit_code == 2
    assert "Name --key" in done.output


@pytest.mark.parametrize("command", ["serve", "export", "image", "client"])
@pytest.mark.parametrize("name", ["a b", "../x", "_x", "", "x" * 129])
def test_a_name_that_no_server_can_have_is_refused_before_anything_is_pulled(command, name, tmp_path):
    done = CliRunner().invoke(hone, [command, str(tmp_path / "absent"), "--name", name])
    assert done.exit_code == 2
    assert "letters, digits, dots" in done.output
