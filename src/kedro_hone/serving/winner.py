"""A winner as servers see it: a model with a name, a version, inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Final

from hone_runtime.errors import HoneError
from hone_runtime.learner.download import Download, fetch_winner, is_uri
from hone_runtime.learner.golden import Golden
from hone_runtime.signing.policy import Policy
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import UnsealableError, copy_tree
from kedro_hone.serving.tensors import Tensor, describe_tensors

SERVER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""The names that a model may have in servers, folders and URLs."""
_UNNAMED: Final = "model"


@dataclass(frozen=True, kw_only=True)
class ServedWinner:
    """A published winner, downloaded and checked, with its interface for servers.

    Attributes:
        uri: The registry's URI with the version pinned; for a folder its path.
        name: The model's name in a server: letters, digits, ``.``, ``_`` and ``-``.
        version: The registry's version; ``1`` for a folder.
        download: The files; they are removed when the context of ``pull_winner`` ends.
        golden: The golden rows; None if the version has none.
    """

    uri: str
    name: str
    version: str
    download: Download
    golden: Golden | None
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def artifact(self) -> Artifact:
        """The winner's artifact."""
        return self.download.artifact

    @property
    def files(self) -> Path:
        """The folder of the artifact's files."""
        return self.download.files


@contextmanager
def pull_winner(
    uri: str, *, name: str | None = None, verify: Policy | None = None, trusted: bool = False, copies: bool = False
) -> Iterator[ServedWinner]:
    """Download a winner, check its files, and remove them at the end.

    Args:
        uri: ``models:/digits@honed``, ``models:/digits/4``, or a folder with a published version.
        name: The name in the server; by default the last part of the registry's.
        verify: The required signer; None if no signature is required.
        trusted: Whether the user trusts the author of an unsigned winner that is code.
        copies: Whether the version in a folder is copied before it is checked, since its files are opened again later:
            what is checked is what is opened.

    Raises:
        HoneError: ``serving-unsupported``, or as in ``hone_runtime.learner.download.fetch_winner``.
    """
    with ExitStack() as stack:
        place, source = uri, None
        if copies and not is_uri(uri) and Path(uri).is_dir():
            source = Path(uri).resolve()
            place = _copy_version(source, stack)
        vouched = verify is not None or trusted
        download = fetch_winner(place, stack, verify=verify, vouched=vouched, copied_from=source)
        yield describe_winner(download, uri, name=name)


def _copy_version(folder: Path, stack: ExitStack) -> str:
    place = Path(stack.enter_context(TemporaryDirectory(prefix="kedro-hone-")), folder.name)
    try:
        copy_tree(folder, place, share=False)
    except UnsealableError as error:
        raise HoneError(
            "model-corrupt",
            f"{folder} is not a published version.",
            why=f"{error}.",
            hint="A version has only files and folders; pull or publish it again.",
        ) from error
    return str(place)


def describe_winner(download: Download, uri: str, *, name: str | None = None) -> ServedWinner:
    """Return a downloaded winner with its interface for servers; the arguments are those of ``pull_winner``.

    Raises:
        HoneError: ``serving-unsupported``: a tensor's type does not exist in the protocol.
    """
    version, artifact = download.version, download.artifact
    return ServedWinner(
        uri=version.uri if version else uri,
        name=name or make_server_name(download.name or PurePath(uri).name),
        version=version.version if version else "1",
        download=download,
        golden=download.read_golden(),
        inputs=describe_tensors(artifact.inputs),
        outputs=describe_tensors(artifact.outputs),
    )


def make_server_name(name: str) -> str:
    """Return a model's name for a server's URLs and folders, from its name in a registry or a path."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(name).name).strip("-._")[:128] or _UNNAMED
