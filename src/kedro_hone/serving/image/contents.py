"""What is in an image: packages, the files of kedro-hone that serve, and the winner with its server's configuration."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FOLDER
from hone_runtime.contract.toolchain import UNTRACKED
from hone_runtime.errors import HoneError
from hone_runtime.learner.download import is_uri
from hone_runtime.signing.policy import SIGNATURE, UNSIGNED, VERSION_FILES
from hone_runtime.text import clean_line
from hone_runtime.values.forms import FORMS_FOLDER
from hone_runtime.values.regular import read_regular
from kedro_hone.serving.image.archives import Tree
from kedro_hone.serving.image.descriptors import format_json
from kedro_hone.serving.launch import MODULE, describe_model
from kedro_hone.serving.runtime_files import list_runtime_files
from kedro_hone.serving.server.configuration import Configuration, TextInput
from kedro_hone.serving.winner import ServedWinner

ROOT: Final = PurePosixPath("opt/hone")
PACKAGES: Final = ROOT / "packages"
RUNTIME: Final = ROOT / "runtime"
MODEL: Final = ROOT / "model"
START: Final = ROOT / "server.json"
HTTP_PORT: Final = 8080
GRPC_PORT: Final = 8081
USER: Final = "10001:10001"
ENTRYPOINT: Final = ("python3", "-P", "-m", MODULE, f"/{START}")
ENVIRONMENT: Final = {
    **UNTRACKED,
    "HOME": "/tmp",  # noqa: S108 - the user has no entry in /etc/passwd, and OpenVINO refuses to start without a home
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONPATH": f"/{RUNTIME}:/{PACKAGES}",
    "PYTHONUNBUFFERED": "1",
}
READY: Final = f"http://127.0.0.1:{HTTP_PORT}/v2/health/ready"


def place(tree: Tree, folder: PurePosixPath) -> Tree:
    """Return files below a folder of an image."""
    return {folder / name: content for name, content in tree.items()}


def list_runtime(winner: ServedWinner) -> Tree:
    """Return the files of kedro-hone that serve a winner.

    Raises:
        HoneError: ``serving-unsupported``.
    """
    return place(list_runtime_files(winner.artifact), RUNTIME)


def list_model(winner: ServedWinner, text: TextInput | None = None) -> Tree:
    """Return the files of a winner's version with the configuration of its server; as ``configure_server``."""
    configuration = configure_server(winner, text)
    return {**place(list_version(winner), MODEL), START: format_json(configuration.model_dump(mode="json"))}


def list_version(winner: ServedWinner) -> Tree:
    """Return the files of a winner's version by their relative names.

    Links, hidden files, and the folders of other forms of the winner are left out; with these, also the list of all
    files and the signature over them, which were checked.
    """
    folder = winner.download.folder
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    found = {PurePosixPath(path.relative_to(folder).as_posix()): path for path in paths}
    dropped = {FORMS_FOLDER, VERSION_FILES, *UNSIGNED} if (folder / FORMS_FOLDER).is_dir() else set[str]()
    kept = (name for name in found if name.parts[0] not in dropped)
    return {name: found[name] for name in kept if not any(part.startswith(".") for part in name.parts)}


def configure_server(winner: ServedWinner, text: TextInput | None = None) -> Configuration:
    """Return the configuration with which the server starts in a container.

    Args:
        winner: The winner.
        text: How texts become the model's inputs; None: requests contain the inputs themselves.

    Raises:
        HoneError: ``option-invalid``: a server cannot have such a name; ``serving-unsupported``.
    """
    try:
        model = describe_model(winner, text=text)
    except ValueError as error:
        why = "It has at most 128 letters, digits, dots, underscores and hyphens, and begins with a letter or a digit."
        raise HoneError(
            "option-invalid", f"{winner.name!r} is no name for a server.", why=why, hint="Write another --name."
        ) from error
    place = {"folder": Path(MODEL.relative_to(START.parent)), "uri": name_source(winner)}
    return Configuration(
        models=(model.model_copy(update=place),),
        host="0.0.0.0",  # noqa: S104 - of a container
        http_port=HTTP_PORT,
        grpc_port=GRPC_PORT,
    )


def name_source(winner: ServedWinner) -> str:
    """Return the registry's URI of a winner's version; empty for files, whose path is of this machine only."""
    version = winner.download.version
    uri = version.uri if version else ""
    return clean_line(uri) if is_uri(uri) and not uri.startswith("file:") else ""


def read_evidence(winner: ServedWinner) -> bytes | None:
    """Return the bytes of a winner's evidence; None if the version has none.

    Raises:
        HoneError: ``model-corrupt``: it is too large, or no file.
    """
    return _read(winner.download.folder / EVIDENCE_FOLDER / EVIDENCE)


def read_signature(winner: ServedWinner) -> bytes | None:
    """Return the bytes of a winner's signature; None if it is not signed; raises as ``read_evidence``."""
    return _read(winner.download.folder / SIGNATURE)


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HoneError(
            "model-corrupt",
            f"The file {path.name} of the winner cannot be read.",
            why=str(error),
            hint="Pull or download it again; if that does not help, publish it again.",
        ) from error
