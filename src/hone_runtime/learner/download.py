"""A published winner on this machine, checked before anything opens it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hone_runtime.contract.plugins import describe_exception
from hone_runtime.contract.proof import EVIDENCE_FOLDER, GOLDEN
from hone_runtime.contract.registries import find_registry
from hone_runtime.contract.registry import VersionInfo
from hone_runtime.contract.tags import DIGEST, FILES
from hone_runtime.errors import HoneError
from hone_runtime.learner.golden import Golden
from hone_runtime.learner.manifest import list_digests, read_artifact
from hone_runtime.learner.runtimes import refuse_code
from hone_runtime.learner.versions import check_version_files
from hone_runtime.signing.policy import Policy
from hone_runtime.signing.verify import find_model_name, verify_version
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import MANIFEST


@dataclass(frozen=True, kw_only=True)
class Download:
    """A winner's version in a folder. Its files match its manifest, and the registry's tags where there are any.

    Attributes:
        folder: The whole version, with its evidence; or a folder of the artifact's files only.
        files: The folder of the artifact's files.
        version: The registry's description; None for a folder.
        name: The model's name in the registry, or in the version's own files; None if unknown.
        vouched: Whether code may be opened.
    """

    folder: Path
    files: Path
    artifact: Artifact
    version: VersionInfo | None
    name: str | None
    vouched: bool

    def read_golden(self) -> Golden | None:
        """Return the golden rows; None if the version has none.

        Raises:
            HoneError: ``model-corrupt``: they cannot be read.
        """
        try:
            return Golden.read(self.folder / EVIDENCE_FOLDER / GOLDEN)
        except (OSError, ValueError) as error:
            raise HoneError(
                "model-corrupt",
                f"The golden rows of {self.folder.name} cannot be read.",
                why=describe_exception(error),
                hint="Pull or download it again; if that does not help, publish it again.",
            ) from error


def fetch_winner(
    uri_or_path: str,
    stack: ExitStack,
    *,
    verify: Policy | None,
    vouched: bool,
    digest: str = "",
    copied_from: Path | None = None,
) -> Download:
    """Download a winner if it is not in a folder, and check its files; nothing is opened.

    Args:
        uri_or_path: As in ``load``.
        stack: Removes the downloaded files when it is closed.
        verify: The required signer; None if no signature is required.
        vouched: Whether code may be opened: the user requires a signature, or trusts the author.
        digest: The digest of the only accepted artifact; empty for any.
        copied_from: The folder that the path is a copy of: its place may name the model that must be signed.

    Raises:
        HoneError: As in ``load``, except for what concerns the runtime and the golden rows.
    """
    folder, version = Path(uri_or_path), None
    if is_uri(uri_or_path) or not folder.is_dir():
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kedro-hone-")))
        version = find_registry(uri_or_path).pull(uri_or_path, folder)
    name = version.name if version else find_model_name(copied_from or folder)
    read = verify_version(folder, verify, name=name) if verify else {}
    due = version.tags.get(DIGEST) if version else None
    artifact, files = find_artifact(folder, uri_or_path, due=due, read=read)
    if digest not in {"", artifact.digest}:
        raise explain_other(uri_or_path, artifact.digest, digest)
    if not vouched:
        refuse_code(artifact, files)
    whole = version.tags.get(FILES) if version else None
    check_version_files(folder, due=whole, read={**list_digests(files), **read})
    return Download(folder=folder, files=files, artifact=artifact, version=version, name=name, vouched=vouched)


def is_uri(asked: str) -> bool:
    """Return whether a text names a registry's version; a folder with such a name is written ``./models:/…``."""
    return re.match(r"[A-Za-z][\w+.-]*:/", asked) is not None


def find_artifact(folder: Path, asked: str, *, due: str | None, read: Mapping[Path, str]) -> tuple[Artifact, Path]:
    """Return the artifact of an MLflow model folder, or of its ``artifact`` folder, with that folder.

    Its digest must equal ``due``, if given; files in ``read``, with their digests, are not read again.

    Raises:
        HoneError: ``model-unsupported``: there is no artifact; ``model-corrupt``.
    """
    for place in (folder, folder / "artifact"):
        if (place / MANIFEST).is_file():
            return read_artifact(place, due=due, read=read), place
    opened = "that is a path is opened by its own framework, such as ONNX Runtime"
    raise HoneError(
        "model-unsupported",
        f"{asked} contains no winner of kedro-hone.",
        why=f"There is no {MANIFEST} in it: it is a source model, or something else.",
        hint="Load a version that was published, such as models:/<name>@honed; a source "
        f"{opened if Path(asked).exists() else 'is loaded with mlflow.pyfunc'}.",
    )


def explain_other(asked: str, found: str, wanted: str) -> HoneError:
    """Return the error for a winner that differs from the one that was loaded in another process."""
    return HoneError(
        "model-corrupt",
        f"{asked} is not the winner that was loaded where this was pickled.",
        why=f"Its digest is {found}, and {wanted} was loaded.",
        hint="Load the intended version in each process, by its number.",
    )
