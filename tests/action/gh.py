"""A stand-in for GitHub's ``gh``, which speaks HTTPS only: the commands of our documentation, at ``GITHUB_API_URL``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import requests


def download(arguments: argparse.Namespace) -> None:
    """Copy what is in ``STAND_IN_ARTIFACTS``, each artifact to a folder of its own."""
    for artifact in Path(os.environ["STAND_IN_ARTIFACTS"]).iterdir():
        if fnmatch(artifact.name, arguments.pattern):
            shutil.copytree(artifact, Path(arguments.dir, artifact.name))


def view(arguments: argparse.Namespace) -> None:
    """Say the number of the only pull request."""
    assert arguments.head == os.environ["HEAD"]
    filter_by(arguments.jq, b'{"number": 7}')


def call(arguments: argparse.Namespace) -> None:
    """Ask GitHub, page after page."""
    body = None
    if arguments.field:
        name, _, value = arguments.field.partition("=")
        body = json.dumps({name: Path(value[1:]).read_text() if value.startswith("@") else value}).encode()
    place = arguments.place
    url: str | None = place if "://" in place else f"{os.environ['GITHUB_API_URL']}/{place}"
    while url:
        answer = requests.request(arguments.method, url, data=body, timeout=20)
        answer.raise_for_status()
        following = answer.headers.get("Link", "")
        filter_by(arguments.jq, answer.content)
        url = following.partition(">")[0].lstrip("<") if arguments.paginate else None


def filter_by(expression: str | None, text: bytes) -> None:
    """Print what jq makes of an answer."""
    sys.stdout.flush()
    subprocess.run(["jq", "--raw-output", expression or "."], input=text, check=True)


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run-download")
    one.add_argument("run")
    one.add_argument("--pattern", required=True)
    one.add_argument("--dir", required=True)
    one.set_defaults(act=download)
    one = commands.add_parser("pr-view")
    one.add_argument("head")
    one.add_argument("--json", required=True)
    one.add_argument("--jq", required=True)
    one.set_defaults(act=view)
    one = commands.add_parser("api")
    one.add_argument("place")
    one.add_argument("--method", default="GET")
    one.add_argument("--field")
    one.add_argument("--jq")
    one.add_argument("--paginate", action="store_true")
    one.set_defaults(act=call)
    words = sys.argv[1:]
    if words[0] != "api":
        words[:2] = [f"{words[0]}-{words[1]}"]
    arguments = parser.parse_args(words)
    arguments.act(arguments)


main()
