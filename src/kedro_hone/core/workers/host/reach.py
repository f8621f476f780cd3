"""The paths that a worker may read and write: its toolchain, the system's libraries and programs, the job's files."""

# Paths are text here, as in jobs and variables.
# ruff: noqa: PTH109, PTH111, PTH112, PTH113, PTH117, PTH119, PTH120

from __future__ import annotations

import ast
import collections
import contextlib
import functools
import itertools
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import hone_runtime
from hone_runtime.contract.job import Job
from hone_runtime.values.base import Json

LAYERS: tuple[str, ...] = ("namespaces", "landlock", "seccomp")
"""The layers of isolation to try; a kernel or a container may support fewer."""

_ETC: Final = """
    OpenCL alternatives clang conda crypto-policies debian_version fonts gai.conf group host.conf hostname hosts
    ld.so.cache ld.so.conf ld.so.conf.d ld.so.preload locale.alias locale.conf localtime lsb-release mime.types
    nsswitch.conf nvidia os-release passwd pki/tls/openssl.cnf redhat-release ssl/certs ssl/openssl.cnf static
    system-release timezone vulkan
""".split()  # noqa: SIM905 - a list of forty literals would take forty lines
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/proc", "/sys"),
    *("/run/nvidia-persistenced", "/run/opengl-driver"),
    *(f"/etc/{name}" for name in _ETC),
)
_SOFTWARE = re.compile(r"(PATH|LD_LIBRARY_PATH|CC|CXX|(CUDA|ROCM|HIP)_(HOME|PATH|ROOT))")
_PARTS: Final = ("bin", "include", "lib", "lib64", "libexec", "share", "pyvenv.cfg")
_COMPILERS: Final = ("cc", "c++", "gcc", "g++", "clang", "clang++", "ld", "as", "nvcc", "hipcc")
_PROJECT: Final = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "conf", ".env")
_RUNTIME: Final = Path(hone_runtime.__file__).parent


def find_reach(job: Job, *, python: Path, folder: Path, variables: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the paths that a job's worker ``reads``, ``writes`` and ``lists``, and the paths to mount writable.

    Paths in a model's own description are not included. The job's temporary folder must be set.
    """
    of_job = [job.worker_folder, *job.uses, *job.reads, *(path for path in job.trust if os.path.isabs(path))]
    of_job += [job.input.path] if job.input else []
    of_job += [path for path in (job.calibration, job.training) if path]
    named = [*_find_paths([job.options, job.program or {}, job.model_extra or {}])]
    writes = [str(folder), *(path for path in (job.temporary, job.output) if path)]
    # Folders next to each other are mounted as one, so that files can still be moved between them.
    above = collections.Counter(os.path.dirname(path) for path in writes)
    above.pop("/dev/shm", None)  # noqa: S108 - which is each worker's own
    mounts = [os.path.dirname(path) if above[os.path.dirname(path)] > 1 else path for path in writes]
    software = [*_find_software(variables), *_find_compilers(variables), *_find_interpreter(python)]
    narrow = [*itertools.chain.from_iterable(map(_narrow, software))]
    # Python imports nothing from a folder that it cannot list.
    lists = {os.path.dirname(path) for path in narrow if path.endswith(".py") or os.path.isfile(f"{path}/__init__.py")}
    reads = [*_SYSTEM, str(_RUNTIME), *narrow, *of_job, *named]
    return {"reads": reads, "writes": writes, "mounts": mounts, "lists": sorted(lists)}


def _find_paths(value: Json) -> Iterator[str]:
    """Yield the absolute paths in options; for a program that is a package, its folder."""
    if isinstance(value, str) and os.path.isabs(value):
        yield os.path.dirname(value) if os.path.basename(value) == "__init__.py" else value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _find_paths(each)


def _find_software(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the folders of programs and libraries in a worker's variables; those in ``/opt`` completely."""
    for name, text in variables.items():
        if _SOFTWARE.fullmatch(name):
            for path in filter(os.path.isabs, text.split(os.pathsep)):
                folder = os.path.dirname(path)
                place = path if os.path.isdir(path) or _is_wide(folder) else folder
                whole = "/".join(place.split("/")[:3])
                yield whole if place.startswith("/opt/") and not _is_wide(whole) else place


def _find_compilers(variables: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of compilers in ``PATH``, by name and with links resolved, and the folders next to ``bin``."""
    named = [text.split()[0] for name in ("CC", "CXX") if (text := variables.get(name, "").strip())]
    for name in (*_COMPILERS, *named):
        if program := shutil.which(name, path=variables.get("PATH", "")):
            for place in {os.path.normpath(program), os.path.realpath(program)}:
                folder = os.path.dirname(place)
                yield os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder


def _narrow(path: str) -> Iterator[str]:
    """Yield a path of software; if that includes the home or the project, only its programs, libraries and packages."""
    yield from _list_parts(Path(path)) if _is_wide(path) else [path]


def _list_parts(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for child in sorted(folder.iterdir()):
            package = child.suffix in {".py", ".egg-info", ".dist-info"} or os.path.isfile(child / "__init__.py")
            if (child.name in _PARTS or package) and not _is_wide(str(child)):
                yield str(child)


def _is_wide(path: str) -> bool:
    """Whether it is, or is above, the home, its applications' data or the project."""
    real, home = os.path.realpath(path), os.path.expanduser("~")
    own = (os.path.realpath(place) for place in (home, f"{home}/.local/share", os.getcwd()))
    return any(os.path.commonpath((real, place)) == real for place in own)


def find_python(python: Path) -> Path:
    """Return the path of an interpreter without links and ``..`` in its folder, which a worker could not follow.

    The last link stays: it identifies an environment's interpreter.
    """
    return python.parent.resolve() / python.name


@functools.lru_cache(maxsize=64)
def _find_interpreter(python: Path) -> tuple[str, ...]:
    """Return the folders of an interpreter: its environment, the one that was made from, and each link on the way."""
    prefix = python.parent.parent
    found = [python, *([prefix] if (prefix / "pyvenv.cfg").exists() else [])]
    hop = python
    while hop.is_symlink():
        found.append(hop.parent)
        hop = hop.parent / hop.readlink()
    base = hop.resolve().parent.parent
    whole = base.is_relative_to("/opt") or any((base / mark).exists() for mark in ("pyvenv.cfg", "conda-meta"))
    found += [hop.parent, *([base] if whole else map(Path, _list_parts(base)))]
    if python == find_python(Path(sys.executable)):  # editable packages already run in this process
        found += _find_edited(prefix)
    return tuple(str(path) for path in found)


def _find_edited(prefix: Path) -> Iterator[Path]:
    """Yield the folders of editable installations, from their lines in ``.pth`` files and setuptools' maps."""
    for site in prefix.glob("lib/python3*/site-packages"):
        for file in site.glob("*.pth"):
            lines = file.read_text(errors="replace").splitlines()
            for folder in (Path(line) for line in lines if os.path.isabs(line)):
                project = any((folder / mark).exists() for mark in _PROJECT)
                yield from map(Path, _list_parts(folder)) if project else [folder]
        for file in site.glob("__editable__*_finder.py"):
            if found := re.search(r"^MAPPING\b.*?= (\{.*\})$", file.read_text(errors="replace"), re.MULTILINE):
                yield from map(Path, ast.literal_eval(found[1]).values())
