"""The image of a winner: base, packages, runtime and model, each a layer, and the model last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from hone_runtime.values.base import Json
from kedro_hone.core.environments.environment import Environment
from kedro_hone.serving.image.archives import Tree
from kedro_hone.serving.image.base import Base
from kedro_hone.serving.image.blobs import Blobs
from kedro_hone.serving.image.bytecode import add_bytecode
from kedro_hone.serving.image.contents import (
    ENTRYPOINT,
    ENVIRONMENT,
    GRPC_PORT,
    HTTP_PORT,
    PACKAGES,
    READY,
    USER,
    list_model,
    list_runtime,
    name_source,
    place,
    read_evidence,
)
from kedro_hone.serving.image.descriptors import (
    CONFIG,
    MANIFEST,
    Descriptor,
    Manifest,
    digest_bytes,
    format_json,
    read_platform,
)
from kedro_hone.serving.image.layers import make_layer, read_diff_id
from kedro_hone.serving.image.leaks import Private, refuse_leaks
from kedro_hone.serving.image.packages import Packages, list_packages
from kedro_hone.serving.image.referrers import CREATED
from kedro_hone.serving.server.configuration import TextInput
from kedro_hone.serving.winner import ServedWinner

_LABEL: Final = "org.kedro-hone."


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image whose blobs are in the folder of blobs.

    Attributes:
        manifest: The manifest with its layers.
        packages: The packages in it.
        model: The layer with the winner, which is the last one.
    """

    manifest: Manifest
    packages: Packages
    model: Descriptor


def build_image(
    winner: ServedWinner,
    base: Base,
    *,
    environment: Environment,
    blobs: Blobs,
    private: Private,
    paths: bool = True,
    text: TextInput | None = None,
) -> Image:
    """Write the blobs of a winner's image; equal inputs give equal digests.

    Args:
        winner: The winner.
        base: The base image.
        environment: The environment of the server, from which the packages are taken.
        blobs: The folder of blobs.
        private: What no layer may contain.
        paths: Whether paths of this machine are looked for in the version's files.
        text: How texts become the model's inputs; None: requests contain the inputs themselves.

    Raises:
        HoneError: ``image-leaks``, ``serving-unsupported``, ``toolchain-unbuildable``, ``store-full`` or
            ``store-read-only``.
    """
    model, runtime = list_model(winner, text), list_runtime(winner)
    packages = list_packages(environment, winner.artifact, model=model)
    labels = _describe_labels(winner, base)
    refuse_leaks({**model, **_list_labels(labels)}, private, paths=paths)
    refuse_leaks(runtime, private, paths=False)  # its pages have examples of paths
    layers = (
        make_layer(add_bytecode(place(packages.files, PACKAGES)), blobs, key=packages.key),
        make_layer(add_bytecode(runtime), blobs),
        make_layer(model, blobs),
    )
    described = _describe_config(base, layers, labels)
    refuse_leaks({PurePosixPath("config.json"): format_json(described)}, private, paths=False)  # a base names /root
    config = blobs.add_json(described, CONFIG)
    shown = tuple(one.model_copy(update={"annotations": None}) for one in layers)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.dump(),
        "layers": [one.dump() for one in (*base.layers, *shown)],
        "annotations": {**labels, f"{_LABEL}healthcheck": READY},
    }
    manifest = blobs.add_json(document, MANIFEST)
    parts = (*base.layers, *shown, config)
    return Image(manifest=Manifest(descriptor=manifest, parts=parts), packages=packages, model=shown[-1])


def _describe_config(base: Base, layers: tuple[Descriptor, ...], labels: dict[str, str]) -> dict[str, Json]:
    """Return the configuration of an image: the base's, with what starts and checks the server."""
    known = base.config.get("config") or {}
    variables = dict(one.partition("=")[::2] for one in known.get("Env") or ()) | ENVIRONMENT
    platform = read_platform()
    steps = ("packages", "runtime", "model")
    return {
        "created": CREATED,
        "architecture": platform.architecture,
        "os": platform.os,
        **({"variant": base.config["variant"]} if base.config.get("variant") else {}),
        "config": {
            "User": USER,
            "ExposedPorts": {f"{HTTP_PORT}/tcp": {}, f"{GRPC_PORT}/tcp": {}},
            "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
            "Entrypoint": list(ENTRYPOINT),
            "WorkingDir": "/",
            "Labels": {**(known.get("Labels") or {}), **labels},
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [*base.diff_ids, *map(read_diff_id, layers)]},
        "history": [
            *(base.config.get("history") or ()),
            *({"created": CREATED, "created_by": f"kedro-hone image: {name}"} for name in steps),
        ],
    }


def _describe_labels(winner: ServedWinner, base: Base) -> dict[str, str]:
    version, evidence = winner.download.version, read_evidence(winner)
    tags = version.tags if version else {}
    found = {
        "org.opencontainers.image.title": winner.name,
        "org.opencontainers.image.version": winner.version,
        "org.opencontainers.image.base.name": base.name,
        "org.opencontainers.image.base.digest": base.digest,
        f"{_LABEL}digest": winner.artifact.digest,
        f"{_LABEL}source": name_source(winner),
        f"{_LABEL}source-digest": tags.get("hone.source_digest", ""),
        f"{_LABEL}evidence": digest_bytes(evidence) if evidence else "",
    }
    return {name: value for name, value in found.items() if value}


def _list_labels(labels: dict[str, str]) -> Tree:
    """Return labels as if they were files, to look for what is private in them."""
    return {PurePosixPath("labels", name): value.encode() for name, value in labels.items()}
