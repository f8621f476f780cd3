"""Wheels that hold nothing, or zeros, to be installed from a folder."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, needs: str = "", *, holds: int = 0) -> str:
    """Make a wheel that holds nothing, or so many bytes, and return its digest."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    wanted = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(path, "w") as wheel:
        info = f"{stem}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wanted}")
        if holds:
            wheel.writestr(f"{name}.bin", bytes(holds))
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()
