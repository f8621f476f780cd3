"""Pin the packages of this repository, with the digests of their files: locks are complete, all lines have hashes.

``requirements.lock`` is for running it, ``requirements-dev.lock`` for working on it and ``requirements-mutants.lock``
for ``make mutants``, each with its additions to the one before; each toolchain has its own. The ranges are in
``pyproject.toml`` and ``requirements.in``. uv, which must be on the path, chooses the versions and reads the digests of
all their files, for every platform, from the package index.

PyTorch has two builds of one version, with a lock each next to its toolchain's. The lock of the CPU build (``+cpu``)
has the digest of the file that pip finds on this machine; that of the index's build includes the required libraries of
CUDA. Another toolchain with PyTorch in its own environment gets copies.
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

from hone_runtime.contract.catalogue import find_installed, list_builtin
from hone_runtime.contract.toolchain import Toolchain
from kedro_hone.serving.environment import SERVERS

ROOT = Path(__file__).resolve().parent.parent
RUN, DEV, MUTANTS = (ROOT / f"requirements{name}.lock" for name in ("", "-dev", "-mutants"))
CPU, CUDA = (ROOT / "adaptors" / "pytorch" / f"requirements-{build}.lock" for build in ("cpu", "cuda"))
EXAMPLES = ROOT / "docs" / "examples"
HEAD = "# Made by `make lock`; do not edit.\n"
PACKAGE = re.compile(r"^(\S+)==\S+(?: \\\n    --hash=\S+)+$", re.MULTILINE)
OF_TORCH = re.compile("(cuda|nvidia)-|(triton|torch)$")


def main() -> None:
    """Write every lock; with ``--keep`` versions that still fit are not changed."""
    keep = "--keep" in sys.argv[1:]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    builder = project["build-system"]["requires"]  # the project itself is installed without another environment
    wanted = [*builder, *project["project"]["dependencies"]]
    chosen = ("pipeline", "mlflow", "huggingface", "signing", "github", "events", "toolchains")
    wanted += [need for extra in chosen for need in extras[extra] if not need.startswith("kedro-hone[")]
    run = resolve(wanted, prefer=[RUN, CUDA] if keep else [])
    write(RUN, run)
    CUDA.write_text(HEAD + "".join(text for name, text in run.items() if OF_TORCH.match(name)))
    version = run["torch"].split()[0]
    CPU.write_text(f"{HEAD}{version}+cpu \\\n    --hash=sha256:{digest_file(f'{version}+cpu')}\n")
    toolchains = [found for name in list_builtin() if (found := find_installed(name)) is not None]
    for build, toolchain in itertools.product((CPU, CUDA), [*toolchains, *SERVERS.values()]):
        if toolchain.with_torch:
            (toolchain.folder / build.name).write_text(build.read_text())
    known, below = dict(run), RUN
    for lock, group in ((DEV, "dev"), (MUTANTS, "mutants")):
        wanted += project["dependency-groups"][group]
        added = resolve(wanted, prefer=[lock, CUDA] if keep else [CUDA], fixed=known)
        write(lock, {name: text for name, text in added.items() if name not in known}, head=f"{HEAD}-r {below.name}\n")
        known, below = known | added, lock
    for toolchain in (toolchain for toolchain in toolchains if toolchain.requirements.exists() and toolchain.lockable):
        lock_toolchain(toolchain, run, keep=keep)
    for server in SERVERS.values():
        lock_toolchain(server, run, keep=keep)
    for path in sorted(EXAMPLES.glob("*/requirements.in")):
        lock = path.with_suffix(".lock")
        write(lock, resolve(path.read_text().splitlines(), prefer=[lock if keep and lock.exists() else RUN, CUDA]))


def lock_toolchain(toolchain: Toolchain, run: Mapping[str, str], *, keep: bool) -> None:
    """Write a toolchain's locks.

    Args:
        toolchain: The toolchain to lock.
        run: The lines of the lock for running the project, by package.
        keep: Whether to keep versions that still fit.
    """
    lock, wanted = toolchain.lock, toolchain.requirements.read_text().splitlines()
    found = resolve(wanted, prefer=[lock if keep and lock.exists() else RUN, CUDA])
    built = {name: found.pop(name) for name in toolchain.from_source}
    torch = {name for name in found if OF_TORCH.match(name)}
    if toolchain.with_cuda:  # all packages of NVIDIA except those in PyTorch's locks
        torch &= run.keys() if toolchain.with_torch else set()
    write(lock, found, without=torch)
    if built:
        write(toolchain.folder / "sources.lock", built)


def resolve(wanted: list[str], *, prefer: list[Path], fixed: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the lines of a lock by package.

    Args:
        wanted: Requirements, as ranges.
        prefer: Locks with preferred versions, used if they fit; all others are the newest.
        fixed: Lines with required versions.
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
    """Write a lock of all packages except torch and those only for its CUDA build, or except the given ones."""
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
