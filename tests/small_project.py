"""Small Kedro projects in a temporary folder: real git, DVC, registry and command line, and a toolchain of numpy only.

The project is a user's own: its package registers its toolchain in ``settings.py`` and takes the hooks, the pipelines
and the commands from kedro-hone. Its model sleeps for a while and multiplies by a matrix, so that how much faster a
candidate is, and how wrong, is an option of its adaptor.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import command_server
import numpy as np
from toolchains.toy.model import make_model

from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.manifest import Manifest, read_sealed
from kedro_hone.core.store.artifacts import Store

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"
TOY = TESTS / "toolchains" / "toy"
ROWS = {"calibration": 40, "search": 60, "gate": 120}
FAST = "source.shop_fast"

PYPROJECT = """
[tool.kedro]
package_name = "shop"
project_name = "shop"
kedro_init_version = "1.7.0"
source_dir = "src"
"""

SETTINGS = '''
"""Kedro's settings: those of kedro-hone, a hook and a toolchain of our own."""

import os
from pathlib import Path

from kedro.framework.hooks import hook_impl

from kedro_hone.search import context
from hone_runtime.contract.catalogue import register
from kedro_hone.settings import CONFIG_LOADER_ARGS, DISABLE_HOOKS_FOR_PLUGINS
from kedro_hone.settings import HOOKS as HONE_HOOKS
from shop import adaptors


class Diary:
    @hook_impl
    def after_node_run(self, node):
        with (Path(__file__).parents[2] / "data" / "diary.txt").open("a") as stream:
            stream.write(node.name + "\\n")


if load := os.environ.get("SHOP_LOAD"):  # tests run at the same time: no test is about what others take by chance
    context.share_of_others = lambda start: float(load)

HOOKS = (*HONE_HOOKS, Diary())
register(*adaptors.ADAPTORS)
'''

ADAPTORS = '''
"""A toolchain of one matrix, whose adaptors are good, slow, wrong or refuse."""

from dataclasses import replace
from pathlib import Path

from pydantic import Field

from hone_runtime.values.outcome import Refused; from hone_runtime.values.artifact import Stage
from toolchains.toy import adaptor as toy

FILES = toy.TOOLCHAIN.formats["toy"]
TOOLCHAIN = replace(
    toy.TOOLCHAIN,
    name="shop",
    folder=Path(__file__).parent / "toolchain",
    formats={**toy.TOOLCHAIN.formats, "tensorflow": FILES},  # a backend that nothing else in this project knows
    default=True,
)


class Fast(toy.CompileOptions):
    slow: float = Field(default=0.02, ge=0)


class Slow(toy.CompileOptions):
    slow: float = Field(default=2.0, ge=0)


class Round(toy.ToyOptions):
    slow: float = Field(default=5.0, ge=0)  # so that nobody beats the fast one by chance


def refuse(artifact, options, host):
    return Refused(by="shop", reason="it is closed on Mondays")


def make(what, base=toy.COMPILE, **changes):
    return replace(base, name=f"shop.{what}", toolchain=TOOLCHAIN, default=True, **changes)


BACKEND = frozenset({"tensorflow"})
ADAPTORS = [
    make("convert", stage=Stage.CONVERT, produces="tensorflow", options=toy.ToyOptions),
    make("round", toy.COMPRESS, accepts=BACKEND, produces="tensorflow", options=Round),
    make("fast", accepts=BACKEND | {"toy-source"}, options=Fast),
    make("slow", options=Slow),
    make("closed", can_take=refuse),
]
'''

PIPELINE_REGISTRY = '''
"""The pipelines of kedro-hone."""

from kedro_hone.pipeline_registry import register_pipelines

__all__ = ["register_pipelines"]
'''

CLI = '''
"""The commands of kedro-hone, whose ``run`` exits with the verdict."""

from kedro_hone.cli import cli

__all__ = ["cli"]
'''

QUIET = "0.01"
"""What others take of the cores in these projects, by their settings; where ``SHOP_LOAD`` is empty, it is measured."""

HANG = 1800.0
"""Seconds after which something is taken to hang; no run of these projects ends by the race's budget."""

PARAMETERS: dict[str, Any] = {
    "model": {"uri": "models/matrix"},
    "program": {"name": "fidelity"},
    "shapes": {"eight": {"batch": 8}},
    "threads": 1,
    "toolchains": ["shop"],
    "gates": {"drop": 0.1, "other_load": 1},  # tests run at the same time
    "budget": "thorough",
    "race": {"rounds": 12, "block": 3, "burst_ms": 2.0, "seconds": HANG},
    # One finalist, fifty times as fast as the source: so few launches decide it also on a busy machine.
    "confirm": {"looks": [3], "rounds": 3, "burst_ms": 2.0, "finalists": 1},
}


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    output: str


@dataclass
class Project:
    """One project.

    Attributes:
        root: Its folder.
        parameters: What stands under ``hone``; written before each command.
        environment: More variables of its commands.
        python: The interpreter of its commands.
    """

    root: Path
    parameters: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(PARAMETERS))
    environment: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable

    @property
    def work(self) -> Path:
        return self.root / "data" / "hone"

    @property
    def splits(self) -> Path:
        return self.root / "data" / "digits" / "splits"

    @property
    def store(self) -> Store:
        return Store(self.work / "store")

    @property
    def runs(self) -> list[Path]:
        return sorted((self.work / "runs").glob("*"))

    @property
    def evidence(self) -> dict[str, Any]:
        """The evidence of the last run that made a verdict."""
        return json.loads((self.work / "latest" / "evidence.json").read_text())

    @property
    def variables(self) -> dict[str, str]:
        # pytest sets and removes a variable of its own while other threads read them: those are looked up one by one.
        names = [name for name in list(os.environ) if not name.startswith(("KEDRO_", "MLFLOW_", "PYTEST_CURRENT"))]
        inherited = {name: os.environ[name] for name in names}
        return {
            **inherited,
            **command_server.FIXED,
            "SHOP_LOAD": QUIET,
            "HONE_HOME": str(self.root.parent / "home"),
            "DVC_SITE_CACHE_DIR": str(self.root.parent / "dvc-site"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            **self.environment,
        }

    def set(self, **sections: Any) -> None:
        """Change the recipe; sections are merged, all else is replaced."""
        for name, value in sections.items():
            known = self.parameters.get(name)
            both = isinstance(known, dict) and isinstance(value, dict) and name != "shapes"
            self.parameters[name] = {**known, **value} if both else value

    def write(self) -> None:
        """Write the recipe, unless it is there already: others may read a shared project at the same time."""
        path, text = self.root / "conf" / "base" / "parameters.yml", json.dumps({"hone": self.parameters}, indent=1)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)  # JSON is YAML

    def start(self, *arguments: str, prefix: tuple[str, ...] = (), module: str = "kedro") -> subprocess.Popen[str]:
        """Start a command of Kedro's; its output goes to a pipe."""
        self.write()
        return subprocess.Popen(
            [*prefix, self.python, "-m", module, *arguments],
            cwd=self.root,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(self, *arguments: str, prefix: tuple[str, ...] = (), module: str = "kedro") -> Done:
        """Run a command of Kedro's to its end, in a fork of the command server where that is the same."""
        variables = self.variables
        if not prefix and self.python == sys.executable and command_server.can_be_forked(variables):
            self.write()
            server = command_server.find_server()
            return Done(*server.call(module, *arguments, folder=self.root, variables=variables, seconds=HANG))
        with self.start(*arguments, prefix=prefix, module=module) as process:
            try:
                output, _ = process.communicate(timeout=HANG)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                raise
        return Done(process.returncode, output)

    def run(self, *arguments: str, code: int | set[int] = 0) -> Done:
        """Run ``kedro run`` and expect an exit code, or one of several."""
        done = self.call("run", *arguments)
        assert done.code in (code if isinstance(code, set) else {code}), done.output
        return done

    def write_splits(self, **rows: int) -> None:
        """Write the three splits: rows of four numbers, no two equal, with the source's predictions as labels."""
        self.splits.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(1)
        with np.load(self.root / "models" / "matrix" / "weights.npz") as weights:
            w, b = weights["w"], weights["b"]
        for name, count in (ROWS | rows).items():
            x = draw.normal(size=(count, 4)).astype(np.float32)
            answers = x @ w + b
            np.savez(self.splits / f"{name}.npz", x=x, labels=answers.argmax(axis=1), answers=answers)

    def track(self, *, tag: str = "v1", suffix: str = "npz") -> None:
        """Put the splits under DVC in a git repository of their own, commit them and tag the commit."""
        folder = self.splits.parent

        def call(*command: str) -> None:
            done = subprocess.run(command, cwd=folder, env=self.variables, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr

        if not (folder / ".git").exists():
            call("git", "init", "--quiet", "--initial-branch=main")
            call(sys.executable, "-m", "dvc", "init", "--quiet")
        call(sys.executable, "-m", "dvc", "add", "--quiet", *(f"splits/{name}.{suffix}" for name in ROWS))
        call("git", "add", "--all")
        author = ("-c", "user.name=a person", "-c", "user.email=person@example.org")
        call("git", *author, "commit", "--quiet", "--message", "Track the splits")
        call("git", "tag", "--force", tag)

    def forget(self) -> None:
        """Remove what runs left, as on a machine that never had the project."""
        shutil.rmtree(self.work)

    def candidate(self, identifier: str) -> dict[str, Any]:
        """One candidate of the last evidence."""
        return next(one for one in self.evidence["candidates"] if one["id"] == identifier)

    def read_diary(self) -> list[str]:
        """The nodes that ran, in the order in which they ended."""
        path = self.root / "data" / "diary.txt"
        return path.read_text().splitlines() if path.exists() else []

    def read_outcomes(self) -> dict[str, dict[str, Any]]:
        """What every step of the last runs handed on, by its namespace."""
        files = sorted((self.work / "work").glob("*.outcome.json"))
        return {file.name.removesuffix(".outcome.json"): json.loads(file.read_text()) for file in files}

    def check_store(self) -> int:
        """Assert that everything in the store is whole and nothing is left over; return how many artifacts it has."""
        store = self.store
        assert list((store.root / "tmp").iterdir()) == []
        objects = sorted((store.root / "objects").iterdir())
        for place in objects:
            assert read_sealed(place), place
        for path in (store.root / "steps").iterdir():
            assert store.find(path.stem) is not None, path
        for path in (store.root / "values").iterdir():
            assert store.read_value(path.stem) is not None, path
        for place in (store.root / "trees").iterdir():
            assert store.find_tree(place.name) is not None, place
        return len(objects)

    def list_processes(self) -> dict[int, str]:
        """Every process that has the project's folder in its command, its variables or as its current folder."""
        mark = os.fsencode(self.root.parent) + b"/"
        found: dict[int, str] = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                command = (place / "cmdline").read_bytes()
                texts = (command, (place / "environ").read_bytes(), os.fsencode((place / "cwd").readlink()) + b"/")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if any(mark in text for text in texts) and int(place.name) != os.getpid():
                found[int(place.name)] = command.replace(b"\0", b" ").decode(errors="replace")
        return found

    def wait_for_silence(self, seconds: float = HANG) -> None:
        """Return when no process of the project lives; guards need a moment to see that their host is gone."""
        deadline = time.monotonic() + seconds
        while left := self.list_processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)


def make_template(folder: Path) -> Path:
    """Make a project with its data under git and DVC, and return its root; copies of it are projects of their own."""
    root = folder / "shop"
    package = root / "src" / "shop"
    package.mkdir(parents=True)
    (root / "conf" / "local").mkdir(parents=True)
    shutil.copytree(SOURCE.parent / "conf" / "base", root / "conf" / "base")
    (root / "pyproject.toml").write_text(PYPROJECT)
    texts = {
        "__init__": "",
        "settings": SETTINGS,
        "adaptors": ADAPTORS,
        "pipeline_registry": PIPELINE_REGISTRY,
        "cli": CLI,
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text.lstrip())
    write_toolchain(package / "toolchain")
    write_source(root / "models" / "matrix")
    project = Project(root)
    project.write_splits()
    project.track()
    return root


def write_toolchain(folder: Path) -> None:
    """Write the toolchain's folder: the toy's, under our names."""
    (folder / "worker").mkdir(parents=True)
    for file in (TOY / "requirements.in", TOY / "requirements.lock"):
        shutil.copy(file, folder)
    text = (TOY / "worker" / "__init__.py").read_text()
    for old, new in (
        ('"toy.compress"', '"shop.round"'),
        ('{"toy", "toy-source"}', '{"toy", "toy-source", "tensorflow"}'),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "worker" / "__init__.py").write_text(text)


def write_source(folder: Path, **options: Any) -> None:
    """Write the source model; a manifest says what it is, as in a published one."""
    options = {"slow": 3.0} | options
    artifact = make_model(folder, **options).model_copy(update={"runtime": "shop"})
    digest = Manifest.measure(folder, artifact.manifest()).digest
    write_manifest(folder, artifact.model_copy(update={"digest": digest}))


def write_onnx_source(folder: Path) -> None:
    """Write three layers without activations as the source model, in place of the one that is there."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    shutil.rmtree(folder)
    folder.mkdir()
    draw = np.random.default_rng(0)
    weights = [draw.normal(size=size, scale=0.1).astype(np.float32) for size in pairwise((4, 256, 256, 3))]
    names = ["x", "a", "b", "y"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [names[n], f"w{n}"], [names[n + 1]]) for n in range(3)],
        "matrices",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(weight, f"w{n}") for n, weight in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, folder / "model.onnx")


def copy_project(template: Path | Project, folder: Path) -> Project:
    """Copy a project below a folder, with its recipe; a template has the one that all begin with."""
    source = Project(template) if isinstance(template, Path) else template
    root = folder / source.root.name
    shutil.copytree(source.root, root, symlinks=True)
    return Project(root, copy.deepcopy(source.parameters))
