"""What a worker imports of ours is what its toolchain declares."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from hone_runtime.contract.catalogue import find_installed, list_builtin

ROOT = Path(__file__).parents[4]
ROOMS = {"worker", "conversion", "tuning", "sessions", "interfaces", "onnx"}
"""Of ``hone_runtime``, what runs in workers."""
DYNAMIC = {"composite"}
"""Those that import the workers of their parts by name, at run time."""


def list_imports(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("name", list_builtin())
def test_a_worker_imports_what_its_toolchain_uses(name):
    toolchain = find_installed(name)
    own = toolchain.worker.parent
    assert own.name == f"hone_{name}"
    found = {full.split(".")[0] for full in list_imports(own)}
    of_others = {one.removeprefix("hone_") for one in found if one.startswith("hone_")} - {"runtime", "programs", name}
    assert of_others == set(toolchain.uses) - (set(toolchain.uses) if name in DYNAMIC else set())


@pytest.mark.parametrize("name", list_builtin())
def test_a_worker_imports_of_the_runtime_what_runs_in_workers(name):
    found = [full.split(".") for full in list_imports(find_installed(name).worker.parent)]
    assert {full[1] for full in found if full[0] == "hone_runtime"} <= ROOMS
    assert not [full for full in found if full[0] == "kedro_hone"]


def test_nothing_of_the_host_imports_a_worker():
    workers = {f"hone_{name}" for name in list_builtin()}
    for folder in ("src", "nodes", "pipelines"):
        assert not workers & {full.split(".")[0] for full in list_imports(ROOT / folder)}
