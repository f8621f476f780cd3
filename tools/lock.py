"""Pin what this repository installs, with the digests of its files: each lock is complete, and each line has hashes.

``requirements.lock`` is for running it, ``requirements-dev.lock`` for working on it and ``requirements-mutants.lock``
for ``make mutants``, each with what it adds to the one before; each toolchain has its own. The ranges are in
``pyproject.toml`` and ``requirements.in``. uv, which must be on the path, chooses the versions and reads the digests of
all their files, for every platform, from the package index.

PyTorch has two builds of one version, with a lock each next to its toolchain's: the CPU build (``+cpu``), whose digest
is that of the file that pip finds on this machine, and the index's, with the libraries of CUDA that it needs. Another
toolchain whose own environment has PyTorch gets copies.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN, DEV, MUTANTS = (ROOT / f"requirements{name}.lock" for name in ("", "-dev", "-mutants"))
CPU, CUDA = (ROOT / "adaptors" / "pytorch" / f"requirements-{build}.lock" for build in ("cpu", "cuda"))
WITH_TORCH = ("executorch", "litert_torch", "modelopt", "neural_compressor_pt", "sparseml")
"""Other toolchains with PyTorch in an environment of their own."""
WITH_CUDA = ("modelopt", "onnxruntime_gpu", "tensorrt")
"""Toolchains whose own locks name packages of NVIDIA's: all but those that PyTorch's locks next to them have."""
SOURCES = {"executorch": ("antlr4-python3-runtime",), "sparseml": ("gputil",)}
"""Packages of toolchains that exist as source archives only."""
UNLOCKED = ("bladedisc", "torch_tensorrt")
"""Toolchains of which package indexes lack a part: for BladeDISC even the name there would be a stranger's."""
TOOLCHAINS = ("adaptors", "docs/examples")
HEAD = "# Made by `make lock`; do not edit.\n"
PACKAGE = re.compile(r"^(\S+)==\S+(?: \\\n    --hash=\S+)+$", re.MULTILINE)
OF_TORCH = re.compile("(cuda|nvidia)-|(triton|torch)$")


def main() -> None:
    """Write every lock; with ``--keep`` versions that still fit stay as they are."""
    keep = "--keep" in sys.argv[1:]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    builder = project["build-system"]["requires"]  # the project itself is installed without another environment
    wanted = [*builder, *project["project"]["dependencies"]]
    wanted += [need for extra in ("pipeline", "signing", "github", "events", "toolchains") for need in extras[extra]]
    run = resolve(wanted, prefer=[RUN, CUDA] if keep else [])
    write(RUN, run)
    CUDA.write_text(HEAD + "".join(text for name, text in run.items() if OF_TORCH.match(name)))
    version = run["torch"].split()[0]
    CPU.write_text(f"{HEAD}{version}+cpu \\\n    --hash=sha256:{digest_file(f'{version}+cpu')}\n")
    for build, name in itertools.product((CPU, CUDA), WITH_TORCH):
        (ROOT / "adaptors" / name / build.name).write_text(build.read_text())
    known, below = dict(run), RUN
    for lock, group in ((DEV, "dev"), (MUTANTS, "mutants")):
        wanted += project["dependency-groups"][group]
        added = resolve(wanted, prefer=[lock, CUDA] if keep else [CUDA], fixed=known)
        write(lock, {name: text for name, text in added.items() if name not in known}, head=f"{HEAD}-r {below.name}\n")
        known, below = known | added, lock
    for path in (path for folder in TOOLCHAINS for path in sorted(ROOT.glob(f"{folder}/*/requirements.in"))):
        if path.parent.name in UNLOCKED:
            continue
        lock = path.with_suffix(".lock")
        found = resolve(path.read_text().splitlines(), prefer=[lock if keep and lock.exists() else RUN, CUDA])
        built = {name: found.pop(name) for name in SOURCES.get(path.parent.name, ())}
        torch = {name for name in found if OF_TORCH.match(name)}
        if path.parent.name in WITH_CUDA:
            torch &= run.keys() if path.parent.name in WITH_TORCH else set()
        write(lock, found, without=torch)
        if built:
            write(path.with_name("sources.lock"), built)


def resolve(wanted: list[str], *, prefer: list[Path], fixed: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the lines of a lock by package.

    Args:
        wanted: Requirements, as ranges.
        prefer: Locks whose versions are taken where they fit; all others are the newest.
        fixed: Lines whose versions must be taken.
    """
    command = ["uv", "pip", "compile", "-", "--python", sys.executable, "--quiet", "--no-header", "--no-annotate"]
    with tempfile.TemporaryDirectory() as folder:
        lock, constraints = Path(folder) / "lock", Path(folder) / "constraints"
        constraints.write_text("".join((fixed or {}).values()))
        command += ["--generate-hashes", "--constraint", str(constraints), "--output-file"]
        lock.write_text("".join(re.sub(r"(?m)^-r .*\n", "", path.read_text()) for path in prefer))
        subprocess.run([*command, str(lock)], input="\n".join(wanted), check=True, text=True, stdout=subprocess.DEVNULL)
        return {found[1]: f"{found[0]}\n" for found in PACKAGE.finditer(lock.read_text())}


def write(lock: Path, packages: dict[str, str], *, head: str = HEAD, without: AbstractSet[str] | None = None) -> None:
    """Write a lock of all packages but torch and what only its build for CUDA needs, or but the named ones."""
    left_out = {name for name in packages if OF_TORCH.match(name)} if without is None else without
    lock.write_text(head + "".join(text for name, text in packages.items() if name not in left_out))


def digest_file(requirement: str) -> str:
    """Return the SHA-256 digest of the file that pip finds for a requirement."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, requirement]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).iterdir()
        with wheel.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
