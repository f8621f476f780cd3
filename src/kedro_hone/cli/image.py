"""``kedro hone image``: an image that serves a winner, written and pushed without Docker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hone_runtime.text import clean_line
from kedro_hone.cli.names import check_server_name
from kedro_hone.cli.signers import pull_allowed, signer_options, trust_option
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import find_home
from kedro_hone.serving.environment import build_server, list_locks
from kedro_hone.serving.export.check import find_golden_gap
from kedro_hone.serving.image.base import DEFAULT_BASE, fetch_base
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.containerfile import write_context
from kedro_hone.serving.image.contents import list_model, list_runtime
from kedro_hone.serving.image.layouts import check_target, write_layout
from kedro_hone.serving.image.leaks import Private, read_private, refuse_leaks
from kedro_hone.serving.image.packages import list_packages
from kedro_hone.serving.image.packing import Packed, pack_image, pack_modelpack
from kedro_hone.serving.image.push import push_image
from kedro_hone.serving.image.references import Reference, read_target
from kedro_hone.serving.image.registry import Repository
from kedro_hone.serving.server.configuration import TextInput
from kedro_hone.serving.tokens import find_text_input
from kedro_hone.serving.winner import ServedWinner

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("uri")
@click.option("--output", "-o", type=_FOLDER, help="Write the image to this folder, as an OCI image layout.")
@click.option("--push", metavar="REGISTRY/NAME:TAG", help="Push the image to a registry.")
@click.option("--base", default=DEFAULT_BASE, show_default=True, help="The base: a reference, or an image layout.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("image", "modelpack")),
    default="image",
    show_default=True,
    help="An image that serves the winner; or the winner alone, as a CNCF ModelPack artifact.",
)
@click.option("--containerfile", type=_FOLDER, help="Write a Containerfile with its context to this folder.")
@click.option("--name", callback=check_server_name, help="The model's name in the server; by default that in URI.")
@click.option("--insecure", is_flag=True, help="Reach registries without TLS; on loopback none is used anyway.")
@click.option("--allow-paths", is_flag=True, help="Pack a version whose files name paths of this machine.")
@click.option("--with-tokenizer", is_flag=True, help="Take texts: one input `text` in place of the tokens.")
@trust_option
@signer_options
def image(uri: str, **asked: Any) -> None:
    """Pack the winner URI as an OCI image that serves it, and push it; Docker is not needed.

    URI is models:/name@alias, models:/name/version, or a folder. The same winner on the same base gives the same
    digest, and another winner changes the last layer only. The evidence, a bill of materials and the signature are
    attached to it.
    """
    target = read_target(asked["push"]) if asked["push"] else None
    if not (asked["output"] or target or asked["containerfile"]):
        raise click.UsageError("Name --output, --push or --containerfile.")
    if asked["containerfile"] and asked["form"] == "modelpack":
        raise click.UsageError("A Containerfile is of an image: leave out --format modelpack or --containerfile.")
    if asked["output"]:
        check_target(asked["output"])
    blobs, private = Blobs(find_home() / "images"), read_private(Path.cwd())
    blobs.collect()
    with pull_allowed(uri, asked, name=asked["name"]) as winner:
        if gap := find_golden_gap(winner):
            _print("note", f"the golden rows were not compared: {gap}")
        environment = None if asked["form"] == "modelpack" else build_server([winner])
        if environment and asked["containerfile"]:
            _write_context(winner, environment, private, asked)
        if asked["output"] or target:
            packed = _pack(winner, environment, blobs=blobs, private=private, asked=asked)
            _deliver(packed, winner, blobs=blobs, target=target, asked=asked)


def _pack(
    winner: ServedWinner, environment: Environment | None, *, blobs: Blobs, private: Private, asked: Mapping[str, Any]
) -> Packed:
    paths = not asked["allow_paths"]
    if environment is None:
        packed = pack_modelpack(winner, blobs=blobs, private=private, paths=paths)
    else:
        base = fetch_base(asked["base"], blobs, insecure=asked["insecure"])
        if not base.python:
            _print("note", "the base image does not name its Python, which must be the one of the packages")
        text = _find_text(winner, asked)
        packed = pack_image(winner, base, environment=environment, blobs=blobs, private=private, paths=paths, text=text)
    manifest = packed.manifest
    _print("packed", f"{manifest.descriptor.digest} ({len(manifest.parts) - 1} layers, {packed.size / 2**20:.1f} MiB)")
    return packed


def _deliver(
    packed: Packed, winner: ServedWinner, *, blobs: Blobs, target: Reference | None, asked: Mapping[str, Any]
) -> None:
    """Write the layout, and push."""
    if folder := asked["output"]:
        tag = target.tag if target else winner.version
        write_layout(
            folder, packed.manifest, blobs=blobs, referrers=packed.referrers, tag=tag, platform=packed.platform
        )
        _print("written", f"{folder}, as {tag}")
    if target:
        repository = Repository(target, push=True, insecure=asked["insecure"])
        done = push_image(packed.manifest, target, blobs=blobs, repository=repository, referrers=packed.referrers)
        _print("pushed", f"{target} ({len(done.sent)} blobs sent, {len(done.found)} were there)")


def _write_context(winner: ServedWinner, environment: Environment, private: Private, asked: Mapping[str, Any]) -> None:
    model, runtime = list_model(winner, _find_text(winner, asked)), list_runtime(winner)
    refuse_leaks(model, private, paths=not asked["allow_paths"])
    refuse_leaks(runtime, private, paths=False)  # its pages have examples of paths
    packages = list_packages(environment, winner.artifact, model=model)
    folder = asked["containerfile"]
    locks = list_locks(environment)
    write_context(folder, base=asked["base"], runtime=runtime, model=model, locks=locks, versions=packages.versions)
    _print("written", f"{folder}/Containerfile with its context")


def _find_text(winner: ServedWinner, asked: Mapping[str, Any]) -> TextInput | None:
    return find_text_input(winner.download.folder, winner.artifact) if asked["with_tokenizer"] else None


def _print(what: str, text: str) -> None:
    click.echo(clean_line(f"{what:9s} {text}"))
