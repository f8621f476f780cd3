"""Print which of the large toolchains a change affects, as the JSON list of a matrix; standard library only.

``python tools/changed_toolchains.py BASE`` compares the files here with a revision; without one all are affected. Each
entry has the ``toolchain`` and ``pytest``, its tests as arguments: ``make test-toolchains PYTEST="…"``.

A toolchain is affected by changes of its folder, of a toolchain that it ``uses``, and of its tests with the test
modules that they import. It is also affected by modules of the core that run in workers, are the contract, or are
imported by one of these or by its description. Files that determine how toolchains are tested affect all, and
documentation none. The nightly tests find what other changes break.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

SHARED = ("tests/conformance/test_adaptors.py", "tests/integration/test_capabilities.py")
"""Tests of many toolchains; their names contain that of the toolchain in brackets."""
ALWAYS = (
    *("Makefile", "tools/changed_toolchains.py", ".github/workflows/toolchains.yml"),
    *("tests/conftest.py", "tests/installations.py", "tests/conformance/conftest.py"),
    *("tests/integration/adaptors/conftest.py", "tests/integration/adaptors/run_worker.py"),
    *("tests/conformance/suite/", SHARED[0]),
)
"""Files, and folders with a slash, that determine how every toolchain is tested."""
RUNTIME = ("contract", "conversion", "interfaces", "onnx", "sessions", "tuning", "worker")
"""The folders of ``hone_runtime`` that run in workers, and the contract."""


def main() -> None:
    """Print the matrix of this file's repository."""
    root, base = Path(__file__).resolve().parents[1], "".join(sys.argv[1:2])
    print(json.dumps(make_matrix(root, find_changes(root, base) if base else None)))


def find_changes(root: Path, base: str) -> frozenset[str]:
    """Return the files that differ from a revision, including untracked ones.

    Raises:
        subprocess.CalledProcessError: There is no such revision.
    """
    asked = (
        ["diff", "--name-only", "--no-renames", "-z", base, "--"],
        ["ls-files", "--others", "--exclude-standard", "-z"],
    )
    listed = (
        subprocess.run(["git", *one], cwd=root, check=True, capture_output=True, text=True).stdout for one in asked
    )
    return frozenset(name for text in listed for name in text.split("\0") if name)


def make_matrix(root: Path, changes: frozenset[str] | None) -> list[dict[str, str]]:
    """Return the entries of the toolchains that some changed files affect, by name; of all for None."""
    tests = find_tests(root)
    touched = (name for name in sorted(tests) if changes is None or touches(root, name, tests[name], changes))
    return [{"toolchain": name, "pytest": select(name, tests[name])} for name in touched]


def find_tests(root: Path) -> dict[str, tuple[str, ...]]:
    """Return the files with large tests of each large toolchain, without shared ones.

    A toolchain is large if its description requires separate tests, or if a file of large tests is named after it. Its
    files are that one, and those that import the toolchain or contain its name, or that of an adaptor, as a text.
    """
    files = [path for path in sorted(root.glob("tests/**/test_*.py")) if "mark.large" in path.read_text()]
    own = [path for path in files if str(path.relative_to(root)) not in SHARED]
    folders = {path.parent.name: path for path in root.glob("adaptors/*/adaptor.py")}
    named = {path.stem.removeprefix("test_") for path in own}
    large = {name for name, path in folders.items() if name in named or _is_large(path)}
    found: dict[str, tuple[str, ...]] = dict.fromkeys(sorted(large), ())
    for path in own:
        for name in sorted(large & _list_names(path)):
            found[name] += (str(path.relative_to(root)),)
    return found


def select(name: str, tests: Iterable[str]) -> str:
    """Return pytest's arguments for a toolchain's tests."""
    words = " or ".join([*(Path(path).stem for path in tests), f"[{name}.", f"[{name}-"])
    return " ".join([f"-k '{words}'", *tests, *SHARED])


def touches(root: Path, name: str, tests: Iterable[str], changes: frozenset[str]) -> bool:
    """Return whether one of some changed files affects a toolchain."""
    wanted = [f"adaptors/{one}/" for one in find_used(root, name)]
    wanted += [*ALWAYS, *find_core(root, root / "adaptors" / name / "adaptor.py"), *find_helpers(root, tests)]
    files, folders = {one for one in wanted if one[-1] != "/"}, tuple(one for one in wanted if one[-1] == "/")
    return any(one in files or one.startswith(folders) for one in changes if not one.endswith(".md"))


def find_used(root: Path, name: str) -> frozenset[str]:
    """Return a toolchain and those that it uses, directly and through others, by their descriptions."""
    found, pending = {name}, [name]
    while pending:
        tree = _parse(root / "adaptors" / pending.pop() / "adaptor.py")
        said = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "uses"]
        fresh = {one for value in said for one in ast.literal_eval(value)} - found
        found |= fresh
        pending += fresh
    return frozenset(found)


def find_core(root: Path, description: Path) -> frozenset[str]:
    """Return the modules that run in workers, start them or are the contract, with what these or a description import.

    Of the imports, those of the runtime and of the core count.
    """
    runtime, core = root / "src" / "hone_runtime", root / "src" / "kedro_hone" / "core"
    starts = [*core.glob("workers/**/*.py")]
    starts += [path for room in RUNTIME for path in runtime.glob(f"{room}/**/*.py")]
    reached = _follow([*starts, description], lambda path: _find_ours(root, path))
    ours = (path for path in reached if path.is_relative_to(runtime) or path.is_relative_to(core))
    return frozenset(str(path.relative_to(root)) for path in ours)


def find_helpers(root: Path, tests: Iterable[str]) -> frozenset[str]:
    """Return test files and the files of the tests that they, and the fixtures that they use, import or name."""
    reached = _follow([root / path for path in tests], lambda path: _find_helpers(root, path))
    return frozenset(str(path.relative_to(root)) for path in reached)


def _follow(starts: Iterable[Path], find: Callable[[Path], Iterable[Path]]) -> set[Path]:
    found = set(starts)
    pending = [*found]
    while pending:
        fresh = {*find(pending.pop())} - found
        found |= fresh
        pending += fresh
    return found


@cache
def _find_ours(root: Path, path: Path) -> tuple[Path, ...]:
    """Return the files of kedro-hone that a file imports, with their enclosing packages."""
    found: list[Path] = []
    for name in _list_imports(_parse(path)):
        if name.startswith(("kedro_hone.", "hone_runtime.")):
            place = root / "src" / name.replace(".", "/")
            around = [one / "__init__.py" for one in (place, *place.parents) if one.is_relative_to(root / "src")]
            found += (one for one in (place.with_suffix(".py"), *around) if one.is_file())
    return tuple(found)


@cache
def _find_helpers(root: Path, path: Path) -> tuple[Path, ...]:
    """Return the files next to a test file, or above it, that it imports or names, and those of its fixtures."""
    places = (path.parent, root / "tests", root / "tests" / "integration" / "adaptors")
    conftests = [_parse(place / "conftest.py") for place in places if (place / "conftest.py").is_file()]
    fixtures = {node.name: node for tree in conftests for node in tree.body if isinstance(node, ast.FunctionDef)}
    pending: list[ast.AST] = [_parse(path)]
    found: list[Path] = []
    while pending:
        tree = pending.pop()
        asked = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        pending += [fixtures.pop(name) for name in sorted(asked & fixtures.keys())]
        named = {
            str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant) and _is_script(node.value)
        }
        named |= {f"{name.replace('.', '/')}.py" for name in _list_imports(tree)}
        named.discard("conftest.py")  # it affects all
        found += (place / name for place in places for name in named if (place / name).is_file())
    return tuple(found)


def _is_script(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\w+\.py", value) is not None


def _list_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full names of imports; a name imported from a package may be that of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _list_names(path: Path) -> set[str]:
    """Return what a file may test: its own name, the toolchains that it imports, and the first words of its texts."""
    prefix, names = "kedro_hone.adaptors.", [*_list_imports(_parse(path))]
    texts = [node.value for node in ast.walk(_parse(path)) if isinstance(node, ast.Constant)]
    found = {name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)}
    found |= {text.split(".")[0] for text in texts if isinstance(text, str)}
    return found | {path.stem.removeprefix("test_")}


def _is_large(path: Path) -> bool:
    """Return whether a toolchain's description requires separate tests: it can be installed, and is not ``TESTED``."""
    facts = {node.arg: ast.unparse(node.value) for node in ast.walk(_parse(path)) if isinstance(node, ast.keyword)}
    return facts.get("verification") != "Verification.TESTED" and facts.get("lockable") != "False"


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
