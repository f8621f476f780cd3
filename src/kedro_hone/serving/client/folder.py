"""The folder of a generated client."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import Final

from hone_runtime.errors import HoneError
from kedro_hone.serving.client.interface import Interface
from kedro_hone.serving.client.page import write_page
from kedro_hone.serving.client.proto import write_proto
from kedro_hone.serving.client.python import write_client_file, write_package_file, write_project_file

_SHIPPED: Final = Path(__file__).parent / "shipped"


def list_client_files(interface: Interface) -> dict[PurePosixPath, str]:
    """Return the text of each file of a client, by its path; equal interfaces give equal files."""
    package = PurePosixPath(interface.package)
    files = {
        PurePosixPath("README.md"): write_page(interface),
        PurePosixPath("pyproject.toml"): write_project_file(interface),
        PurePosixPath("proto", f"{interface.stem}.proto"): write_proto(interface),
        PurePosixPath("proto", "open_inference.proto"): _read("open_inference.proto"),
        package / "__init__.py": write_package_file(interface),
        package / "client.py": write_client_file(interface),
        package / "py.typed": "",
        **{package / name: _read(name) for name in ("connection.py", "tensors.py")},
    }
    return dict(sorted(files.items()))


def write_client(interface: Interface, folder: Path) -> None:
    """Write a client to a folder that is empty or does not exist: all files, or none.

    Raises:
        HoneError: ``option-invalid``: the folder has files.
    """
    if folder.is_symlink() or folder.exists():
        _refuse_occupied(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        part.chmod(0o755)
        for name, text in list_client_files(interface).items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        part.rename(folder)  # replaces an empty folder, and nothing else
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _refuse_occupied(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        return
    raise HoneError(
        "option-invalid",
        "--output names a folder with other files.",
        why=f"{folder} is not an empty folder, and files in it could be lost.",
        hint="Name a folder that is empty or does not exist: --output FOLDER.",
    )


def _read(name: str) -> str:
    return (_SHIPPED / name).read_text(encoding="utf-8")
