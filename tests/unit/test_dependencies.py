"""What is declared, what is pinned and what the toolchains ask for agree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hone_runtime.contract.catalogue import read_catalogue
from kedro_hone.core.environments.requirements import read_lines

ROOT = Path(__file__).parents[2]
TOOLCHAINS = [ROOT / folder for folder in ("adaptors", "docs/examples")]
LOCKS = sorted({*ROOT.glob("*.lock"), *(lock for folder in TOOLCHAINS for lock in folder.glob("*/*.lock"))})
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
REGISTRIES = "kedro-hone[huggingface,mlflow]"
RUN = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *(need for extra in ("pipeline", "mlflow", "huggingface") for need in EXTRAS[extra] if need != REGISTRIES),
]
DEFAULT = [toolchain for toolchain in read_catalogue().toolchains.values() if toolchain.default]
TOGETHER = [toolchain for toolchain in DEFAULT if toolchain.name in {"onnxruntime", "openvino", "pytorch"}]
"""The others have environments of their own."""


def read_pins(path: Path) -> dict[str, str]:
    lines = [line.removesuffix(" \\") for line in path.read_text().splitlines() if "==" in line]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.mark.parametrize("wanted", [*RUN, *EXTRAS["signing"], *EXTRAS["toolchains"]])
def test_the_lock_satisfies_what_running_asks_for(wanted):
    requirement = Requirement(wanted)

    pins = read_pins(ROOT / "requirements.lock") | read_pins(ROOT / "adaptors" / "pytorch" / "requirements-cuda.lock")

    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("target", ["run", "test"])
def test_make_installs_wheels_and_builds_the_rest_with_the_setuptools_of_the_lock(target, tmp_path):
    command = ["make", "--dry-run", target, f"VENV={tmp_path}", "PIP=cat;: pip"]
    recipe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    builder, first, *_ = (line for line in recipe if ": pip --" in line)

    chosen = subprocess.run(["sh", "-c", builder], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert re.fullmatch(r"setuptools==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+\n", chosen)
    for line in (builder, first):
        assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(line.split())
    assert "--no-build-isolation" in first
    (unwheeled,) = re.findall(r"--no-binary (\S+)", first)
    assert set(unwheeled.split(",")) <= set(read_pins(ROOT / "requirements.lock"))


@pytest.mark.parametrize(
    ("group", "wanted"), [(group, line) for group, lines in PROJECT["dependency-groups"].items() for line in lines]
)
def test_the_lock_of_a_group_satisfies_what_it_asks_for(group, wanted):
    requirement = Requirement(wanted)
    pins = read_pins(ROOT / "requirements.lock") | read_pins(ROOT / f"requirements-{group}.lock")

    assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_line_of_a_lock_has_the_digests_of_its_files(lock):
    lines = [line for line in read_lines(lock) if not line.startswith("-r ")]

    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==\S+( --hash=sha256:[0-9a-f]{64})+", line)] == []


def test_pytorch_and_what_cuda_needs_are_only_in_the_locks_of_its_builds():
    cpu, cuda = (read_pins(ROOT / "adaptors" / "pytorch" / f"requirements-{build}.lock") for build in ("cpu", "cuda"))

    assert cpu == {"torch": f"{cuda['torch']}+cpu"}
    assert "nvidia-cublas" in cuda
    for lock in (lock for lock in LOCKS if lock.parent.name not in {"onnxruntime_gpu", "tensorrt"}):  # GPUs only
        assert lock.name in {"requirements-cpu.lock", "requirements-cuda.lock"} or not set(cuda) & set(read_pins(lock))


def test_no_package_is_pinned_twice():
    pinned = Counter(name for path in ROOT.glob("requirements*.lock") for name in read_pins(path))

    assert [name for name, count in pinned.items() if count > 1] == []


@pytest.mark.parametrize("toolchain", TOGETHER, ids=lambda toolchain: toolchain.name)
def test_the_toolchains_extra_asks_for_what_a_toolchain_asks_for(toolchain):
    declared = {*EXTRAS["toolchains"], *PROJECT["project"]["dependencies"], *EXTRAS["pipeline"]}

    assert {line for line in toolchain.requirements.read_text().split("\n") if line} <= declared


@pytest.mark.parametrize("toolchain", DEFAULT, ids=lambda toolchain: toolchain.name)
def test_a_toolchain_of_its_own_environment_has_the_same_versions(toolchain):
    ours, pins = read_pins(ROOT / "requirements.lock"), read_pins(toolchain.lock)

    assert {name: pin for name, pin in pins.items() if name in ours and ours[name] != pin} == {}


def test_a_winner_asks_for_the_extra_that_the_project_has():
    for toolchain in TOGETHER:
        assert toolchain.extra in EXTRAS
        assert set(EXTRAS[toolchain.extra]) == set(toolchain.runtime_requirements)


def test_each_registry_that_needs_a_client_has_an_extra_of_its_name_and_the_pipeline_has_all():
    folders = {path.parent.name for path in (ROOT / "adaptors" / "registries").glob("*/registry.py")} - {"local"}
    assert folders <= set(EXTRAS)
    assert REGISTRIES in EXTRAS["pipeline"]
    assert set(Requirement(REGISTRIES).extras) == folders


def test_what_the_mutants_name_exists():
    asked = PROJECT["tool"]["mutmut"]
    named = [*asked["only_mutate"], *asked["also_copy"], *asked["pytest_add_cli_args_test_selection"]]
    named += [arg.partition("=")[2] for arg in asked["pytest_add_cli_args"] if arg.startswith("--ignore=")]

    assert [path for path in named if not any(ROOT.glob(path))] == []


def list_first_imports(worker: Path) -> set[str]:
    """Return the packages that importing a worker's part imports at once: those of its own files too, as they do."""
    found, seen, left = set(), set(), [worker]
    while left:
        path = left.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level:
                names = [node.module] if node.module else [alias.name for alias in node.names]
                left += [path.with_name(f"{name}.py") for name in names]
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module.partition(".")[0])
    return {name for name in found if name not in sys.stdlib_module_names and not name.startswith("hone_")}


USERS = [
    (toolchain, used)
    for toolchain in read_catalogue().toolchains.values()
    for used in toolchain.uses
    if toolchain.lock.is_file() and toolchain.name != "composite"  # which is run in an environment of all that it uses
]


@pytest.mark.parametrize(("toolchain", "used"), USERS, ids=lambda value: getattr(value, "name", value))
def test_what_a_part_imports_is_in_the_environment_of_who_uses_it(toolchain, used):
    part = read_catalogue().find_toolchain(used).worker
    pins = {name for lock in toolchain.lock.parent.glob("*.lock") for name in read_pins(lock)}
    pins |= {"onnxruntime"} if "onnxruntime-gpu" in pins else set()  # another distribution of the same package
    assert {canonicalize_name(name) for name in list_first_imports(part)} <= pins
