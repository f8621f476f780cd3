"""A ``Containerfile`` with its context, for those who build images by Docker, Podman or BuildKit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from hone_runtime.errors import HoneError
from kedro_hone.core.store.disk import explain_disk_errors
from kedro_hone.serving.image.archives import Tree
from kedro_hone.serving.image.bytecode import read_content
from kedro_hone.serving.image.contents import (
    ENTRYPOINT,
    ENVIRONMENT,
    GRPC_PORT,
    HTTP_PORT,
    MODEL,
    PACKAGES,
    READY,
    ROOT,
    RUNTIME,
    START,
    USER,
)
from kedro_hone.serving.image.references import read_reference

_LINES: Final = """\
# Written by `kedro-hone image`: build it in this folder by `docker build -f Containerfile -t NAME .`
FROM {base}
COPY requirements.lock /tmp/requirements.lock
RUN python3 -m pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: \\
    --target /{packages} --requirement /tmp/requirements.lock && rm /tmp/requirements.lock
COPY runtime /{runtime}
COPY model /{model}
COPY server.json /{start}
ENV {variables}
USER {user}
EXPOSE {http} {grpc}
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=60s CMD ["python3", "-c", "import urllib.request as u; u.urlopen('{ready}', timeout=3)"]
ENTRYPOINT {start_command}
"""


def write_context(
    folder: Path, *, base: str, runtime: Tree, model: Tree, locks: Iterable[Path], versions: Mapping[str, str]
) -> None:
    """Write the folder of a ``Containerfile``, with everything that it copies.

    Args:
        folder: Absent or empty.
        base: The reference of the base image.
        runtime: The files of kedro-hone, by their paths in the image.
        model: The winner with the server's configuration, by their paths in the image.
        locks: The locks of the server's environment.
        versions: The packages of the image, by canonical name.

    Raises:
        HoneError: ``option-invalid``: the folder is not empty, or the base is no reference; ``store-full`` or
            ``store-read-only``.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        why = "Files of another image in it would become part of this one."
        raise HoneError("option-invalid", f"The folder {folder} is not empty.", why=why, hint="Name a new folder.")
    read_reference(base)  # else a line break in it would be an instruction
    with explain_disk_errors(folder):
        for place, content in {**runtime, **model}.items():
            path = folder / place.relative_to(ROOT)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(read_content(content))
        (folder / "requirements.lock").write_text(_select(locks, versions), encoding="utf-8")
        (folder / "Containerfile").write_text(_format(base), encoding="utf-8")


def _format(base: str) -> str:
    return _LINES.format(
        base=base,
        packages=PACKAGES,
        runtime=RUNTIME,
        model=MODEL,
        start=START,
        variables=" ".join(f"{name}={value}" for name, value in ENVIRONMENT.items()),
        user=USER,
        http=HTTP_PORT,
        grpc=GRPC_PORT,
        ready=READY,
        start_command=json.dumps(list(ENTRYPOINT)),
    )


def _select(locks: Iterable[Path], versions: Mapping[str, str]) -> str:
    """Return the entries of locks, with their hashes, for some packages; of two builds of one, that of its version."""
    text = "\n".join(lock.read_text(encoding="utf-8") for lock in locks)
    found = dict[str, str]()
    for name, version, rest in re.findall(r"^(\S+)==(\S+)((?:[^\n]*\\\n)*[^\n]*)", text, re.MULTILINE):
        key = canonicalize_name(name)
        if key in versions and (key not in found or versions[key] == version):
            found[key] = f"{name}=={version}{rest}"
    return "\n".join([*found.values(), ""])
