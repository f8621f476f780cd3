"""Which toolchains a change touches, in small repositories that are real ones, and in ours."""

from __future__ import annotations

import ast
import importlib.util
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hone_runtime.contract.catalogue import find_installed, list_builtin

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools" / "changed_toolchains.py"
_SPEC = importlib.util.spec_from_file_location("changed_toolchains", SCRIPT)
tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tool)

LARGE = "import pytest\npytestmark = pytest.mark.large\n"
FILES = {
    "Makefile": "test:\n",
    "README.md": "# It\n",
    "docs/adaptors/alpha.one.md": "",
    "pyproject.toml": "",
    "adaptors/alpha/adaptor.py": "from hone_runtime.values.artifact import Stage\nTOOLCHAIN = T(name='alpha')\n",
    "adaptors/alpha/worker/__init__.py": "",
    "adaptors/alpha/notes.md": "",
    "adaptors/beta/adaptor.py": "TOOLCHAIN = T(name='beta', uses=('small', 'alpha'))\n",
    "adaptors/gamma/adaptor.py": "TOOLCHAIN = T(name='gamma', uses=('beta',))\n",
    "adaptors/small/adaptor.py": "TOOLCHAIN = T(name='small', verification=Verification.TESTED)\n",
    "adaptors/zeta/adaptor.py": "TOOLCHAIN = T(name='zeta', verification=Verification.TESTED)\n",
    "src/hone_runtime/__init__.py": "",
    "src/hone_runtime/contract/adaptor.py": "from hone_runtime import text\n",
    "src/hone_runtime/text.py": "",
    "src/hone_runtime/worker/main.py": "def load():\n    import hone_runtime.errors\n",
    "src/hone_runtime/errors.py": "",
    "src/hone_runtime/values/artifact.py": "from hone_runtime.values.base import Json\n",
    "src/hone_runtime/values/base.py": "",
    "src/kedro_hone/core/workers/guard/main.py": "",
    "src/kedro_hone/core/stats/levels.py": "",
    "src/kedro_hone/nodes.py": "",
    "tests/conftest.py": "import project\n\ndef net(shared):\n    return run('net.py')\n",
    "tests/net.py": "",
    "tests/project.py": "",
    "tests/bench.py": "from samples import rows\n",
    "tests/samples.py": "",
    "tests/unit/test_beta.py": "NAME = 'beta.two'\n",
    "tests/conformance/test_adaptors.py": "M = pytest.mark.large\n",
    "tests/conformance/suite/checks.py": "",
    "tests/integration/adaptors/test_alpha.py": f"{LARGE}from kedro_hone.adaptors.alpha import adaptor\n",
    "tests/integration/test_zeta.py": f"{LARGE}import bench\n\ndef test(net):\n    pass\n",
    "tests/integration/test_line.py": f"{LARGE}ROUTE = 'beta.two', 'small.one'\n",
    "tests/integration/test_capabilities.py": f"{LARGE}QUESTIONS = 'alpha', 'beta'\n",
}
ALL = ["alpha", "beta", "gamma", "zeta"]
OF_NO_TOOLCHAIN = frozenset({"tests/e2e/test_action.py", "tests/integration/serving/test_torch.py"})
"""Files of ours whose large tests need no toolchain: the installation of the Action, and a server with PyTorch."""


@pytest.fixture
def repository(tmp_path) -> Path:
    """A repository with one commit: four large toolchains, of which one uses another, and a small one."""
    for name, text in {**FILES, "tools/changed_toolchains.py": SCRIPT.read_text()}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Change it")


def choose(root: Path, *arguments: str) -> list[str]:
    """Return what the program prints in a repository, as names."""
    command = [sys.executable, "-I", str(root / "tools" / "changed_toolchains.py"), *arguments]
    printed = subprocess.run(command, cwd=root.parent, check=True, capture_output=True, text=True).stdout
    return [entry["toolchain"] for entry in json.loads(printed)]


def test_all_are_chosen_without_a_revision_and_none_without_a_change(repository):
    assert choose(repository) == ALL
    assert choose(repository, "") == ALL
    assert choose(repository, "HEAD") == []


@pytest.mark.parametrize(
    ("path", "touched"),
    [
        ("adaptors/alpha/worker/__init__.py", ["alpha", "beta", "gamma"]),  # used by beta, and so by gamma
        ("adaptors/alpha/requirements.lock", ["alpha", "beta", "gamma"]),
        ("adaptors/small/adaptor.py", ["beta", "gamma"]),
        ("adaptors/gamma/adaptor.py", ["gamma"]),
        ("adaptors/zeta/adaptor.py", ["zeta"]),
        ("tests/integration/adaptors/test_alpha.py", ["alpha"]),
        ("tests/integration/test_line.py", ["beta"]),  # it names one of its adaptors
        ("tests/samples.py", ["zeta"]),  # its tests import it through another file
        ("tests/net.py", ["zeta"]),  # a fixture runs it that its tests ask for
        ("tests/project.py", []),  # of fixtures that no large test asks for
        ("tests/unit/test_beta.py", []),  # which every change runs
        ("tests/integration/test_capabilities.py", []),
        ("src/hone_runtime/worker/main.py", ALL),
        ("src/kedro_hone/core/workers/guard/main.py", ALL),
        ("src/hone_runtime/errors.py", ALL),
        ("src/hone_runtime/text.py", ALL),
        ("src/hone_runtime/__init__.py", ALL),
        ("src/hone_runtime/values/base.py", ["alpha"]),  # which its description alone imports
        ("src/kedro_hone/core/stats/levels.py", []),
        ("src/kedro_hone/nodes.py", []),
        ("pyproject.toml", []),
        ("tests/conftest.py", ALL),
        ("tests/conformance/suite/checks.py", ALL),
        ("Makefile", ALL),
        ("docs/adaptors/alpha.one.md", []),
        ("adaptors/alpha/notes.md", []),
        ("README.md", []),
    ],
)
def test_a_file_touches_what_depends_on_it(repository, path, touched):
    (repository / path).write_text(f"{FILES.get(path, '')}\n# edited\n")
    found = choose(repository, "HEAD")
    commit(repository)

    assert found == touched
    assert choose(repository, "HEAD^1") == touched


def test_what_is_removed_or_moved_away_touches_as_well(repository):
    git(repository, "rm", "--quiet", "adaptors/zeta/adaptor.py", "tests/integration/test_zeta.py")
    git(repository, "mv", "adaptors/gamma/adaptor.py", "adaptors/small/adaptor.txt")
    git(repository, "mv", "adaptors/alpha/worker/__init__.py", "moved.py")
    commit(repository)

    assert choose(repository, "HEAD^1") == ["alpha", "beta"]


def test_several_commits_count_from_the_revision_on(repository):
    for name in ("zeta", "gamma"):
        (repository / "adaptors" / name / "adaptor.py").write_text(f"TOOLCHAIN = T(name={name!r}, note='')\n")
        commit(repository)

    assert choose(repository, "HEAD^1") == ["gamma"]
    assert choose(repository, "HEAD~2") == ["gamma", "zeta"]


def test_an_unknown_revision_is_an_error(repository):
    with pytest.raises(subprocess.CalledProcessError):
        choose(repository, "no-such-revision")


def test_an_entry_has_the_tests_as_arguments(repository):
    entries = {entry["toolchain"]: shlex.split(entry["pytest"]) for entry in tool.make_matrix(repository, None)}

    assert entries["beta"] == [
        *("-k", "test_line or [beta. or [beta-"),
        *(
            "tests/integration/test_line.py",
            "tests/conformance/test_adaptors.py",
            "tests/integration/test_capabilities.py",
        ),
    ]


def test_every_large_file_of_ours_belongs_to_a_toolchain():
    tests = tool.find_tests(ROOT)
    marked = {path for path in ROOT.glob("tests/**/test_*.py") if _has_mark(path)}
    found = {path for paths in tests.values() for path in paths}

    assert {str(path.relative_to(ROOT)) for path in marked} <= found | {*tool.SHARED} | OF_NO_TOOLCHAIN
    assert tests.keys() <= list_builtin().keys()
    assert {"sklearn", "tvm", "tensorrt"} <= tests.keys()


def _has_mark(path: Path) -> bool:
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute))
    return any(ast.unparse(node) == "pytest.mark.large" for node in nodes)


def test_what_a_toolchain_of_ours_uses_is_read_as_it_is():
    for name in tool.find_tests(ROOT):
        assert {name, *find_installed(name).uses} <= tool.find_used(ROOT, name)


def test_documentation_of_ours_touches_none_and_the_guard_all():
    everything = [entry["toolchain"] for entry in tool.make_matrix(ROOT, None)]
    pages = {str(path.relative_to(ROOT)) for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]}
    guard = "src/kedro_hone/core/workers/guard/landlock.py"

    assert tool.make_matrix(ROOT, frozenset(pages)) == []
    assert [entry["toolchain"] for entry in tool.make_matrix(ROOT, frozenset({guard}))] == everything
    assert tool.make_matrix(ROOT, frozenset({"src/kedro_hone/core/stats/levels.py", "nodes/race.py"})) == []
