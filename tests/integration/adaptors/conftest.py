"""The digits net in every source format, and a bench that calls the functions of a toolchain's worker."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hone_runtime.contract.catalogue import find_used
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.digest import digest_tree
from kedro_hone.adaptors.litert import adaptor as litert
from kedro_hone.recipe.capabilities import find_versions_to_write
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files

SCRIPT = Path(__file__).with_name("run_worker.py")


@dataclass(frozen=True)
class DigitsSamples:
    """Rows of scikit-learn's digits that the net was not trained on.

    Attributes:
        calibration: A npz with one array, ``image``, of 256 rows.
        x: Images of the search split, float32 (512, 1, 8, 8), in 0..1.
        y: Their labels, int64 (512,).
    """

    calibration: Path
    x: np.ndarray
    y: np.ndarray


@pytest.fixture(scope="session")
def run_there(environments) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a script with a toolchain's Python, and returns what it wrote as JSON.

    The script gets the worker's file, the folder, and the names that follow.
    """

    def run_there(toolchain: Toolchain, script: Path, folder: Path, *names: str, wrote: str) -> dict[str, Any]:
        environment = environments.ensure(toolchain)
        command = [environment.python, str(script), str(toolchain.worker.resolve()), str(folder), *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads((folder / wrote).read_text())

    return run_there


@pytest.fixture(scope="session")
def digits_module(digits_models: Path) -> Path:
    """A directory with ``digits_net.py`` (class ``DigitsNet``), ``model.pt2`` (its state) and ``module.json``."""
    return digits_models / "module"


@pytest.fixture(scope="session")
def digits_exported(digits_models: Path) -> Path:
    """A directory with ``model.pt2``: ``image`` (batch, 1, 8, 8) to logits, batch dynamic."""
    return digits_models / "exported"


@pytest.fixture(scope="session")
def digits_onnx(digits_models: Path) -> Path:
    """A directory with ``model.onnx``: ``image`` (batch, 1, 8, 8) to ``logits`` (batch, 10), batch dynamic."""
    return digits_models / "onnx"


@pytest.fixture(scope="session")
def digits_samples(digits_models: Path) -> DigitsSamples:
    """Calibration rows as a npz and the search split as arrays."""
    search = np.load(digits_models / "search.npz")
    return DigitsSamples(calibration=digits_models / "calibration.npz", x=search["x"], y=search["y"])


HANG = 1800.0
"""Seconds after which a call is taken to hang."""

IMPORTS = {
    "pytorch": ("torch", "torch.export", "torch._dynamo"),
    "onnxruntime": ("onnx", "onnxruntime", "onnxruntime.quantization"),
    "openvino": ("openvino", "nncf"),
}
"""What a call of a toolchain's worker spends most of its time with, where it computes little."""


class Forks:
    """Processes that have imported a toolchain, and fork for each call; their calls' outcomes that are asked for again.

    Args:
        cache: A folder for what PyTorch compiles.
    """

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.servers: dict[tuple[str, str], subprocess.Popen[str]] = {}
        self.described: dict[tuple[str, str, str], object] = {}

    def call(self, toolchain: Toolchain, python: str, folder: Path) -> None:
        """Let a fork work on a folder, and wait for its end."""
        key = (toolchain.name, python)
        if key not in self.servers:
            self.servers[key] = subprocess.Popen(
                [python, "-I", str(SCRIPT), "--serve", *IMPORTS.get(toolchain.name, ())],
                env={**os.environ, **toolchain.environment, "TORCHINDUCTOR_CACHE_DIR": str(self.cache)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        server = self.servers[key]
        server.stdin.write(f"{folder}\n")
        server.stdin.flush()
        ready, _, _ = select.select([server.stdout], [], [], HANG)
        assert ready, f"{folder} hangs"
        status = server.stdout.readline().strip()
        log = folder / "log"
        assert status == "0", f"exit status {status}: {log.read_text(errors='replace')[-4000:] if log.exists() else ''}"

    def close(self) -> None:
        for server in self.servers.values():
            server.kill()
            server.communicate()


@pytest.fixture(scope="session")
def forks(tmp_path_factory) -> Iterator[Forks]:
    forks = Forks(tmp_path_factory.mktemp("inductor"))
    yield forks
    forks.close()


class Bench:
    """Runs the functions of one toolchain's worker, each in a process that has done nothing but import it.

    Args:
        module: The toolchain's ``adaptor`` module.
        scratch: An empty directory.
        forks: Where the processes come from.
    """

    def __init__(self, module, scratch: Path, forks: Forks) -> None:
        self.forks = forks
        self.toolchain = module.TOOLCHAIN
        self.adaptors = {adaptor.name: adaptor for adaptor in module.ADAPTORS}
        self.scratch = scratch
        self.calls = 0
        self.python = sys.executable
        self.host = read_host()
        self.emulator: list[str] = []

    def call(self, function: str, path: Path, form: str, *, feeds=(), expect_error: bool = False, **job):
        """Run one function on a directory of a format; return its result and the call's folder."""
        self.calls += 1
        folder = self.scratch / f"{self.calls:02d}-{function}"
        for name in ("output", "temporary"):
            (folder / name).mkdir(parents=True)
        described = job.pop("described", None) or {"inputs": [], "outputs": []}
        row = {
            "function": function,
            "worker": str(self.toolchain.worker),
            "uses": [str(worker.parent) for worker in find_used(self.toolchain)],
            "adaptor": job.pop("adaptor", ""),
            "input": {
                "path": str(path),
                "format": form,
                "inputs": described["inputs"],
                "outputs": described["outputs"],
                "device": job.pop("device", "cpu"),
                "run_options": job.pop("run_options", {}),
                "static_shapes": job.pop("static_shapes", []),
                "metadata": job.pop("metadata", {}),
            },
            "output": str(folder / "output"),
            "temporary": str(folder / "temporary"),
            "options": {},
            "calibration": None,
            "program": None,
            "shapes": [],
            "seed": 0,
            "threads": 1,
            "produces": form,
            "trust": [],
            "expect_error": expect_error,
            **job,
        }
        (folder / "job.json").write_text(json.dumps(row))
        for index, arrays in enumerate(feeds):
            np.savez(folder / f"feeds-{index:02d}.npz", **arrays)
        if self.emulator:
            self._emulate(folder)
        else:
            self.forks.call(self.toolchain, str(self.python), folder)
        return json.loads((folder / "result.json").read_text()), folder

    def _emulate(self, folder: Path) -> None:
        done = subprocess.run(
            [*self.emulator, self.python, "-I", str(SCRIPT), str(folder)],
            env={**os.environ, **self.toolchain.environment, "TMPDIR": str(folder / "temporary")},
            cwd=folder / "temporary",
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]

    def transform(self, name: str, path: Path, *, options=None, **job):
        """Run an adaptor with its default or the given options; return its notes and where it wrote."""
        adaptor = self.adaptors[name]
        form = job.pop("form", next(iter(adaptor.accepts)))
        job["options"] = adaptor.options(**(options or {})).resolve(self.host).model_dump(mode="json")
        job["described"] = job.get("described") or self.describe(path, form)
        job["takes"] = find_versions_to_write(adaptor, find_versions=dict)
        notes, folder = self.call("transform", path, form, adaptor=name, produces=adaptor.produces, **job)
        return notes or {}, folder / "output"

    def describe(self, path: Path, form: str):
        """Describe a directory; inputs, outputs and the graph's digest. The same files are described once."""
        if any(each.is_symlink() for each in path.iterdir()):  # a digest does not tell a link from a file
            return self.call("describe", path, form)[0]
        key = (self.toolchain.name, form, digest_tree(path))
        if key not in self.forks.described:
            self.forks.described[key] = self.call("describe", path, form)[0]
        return self.forks.described[key]

    def run(self, path: Path, form: str, feeds, **job):
        """Load a directory in a fresh process and return its outputs for each of the feeds."""
        job["described"] = job.get("described") or self.describe(path, form)
        folder = self.call("run", path, form, feeds=feeds, **job)[1]
        return [dict(np.load(each)) for each in sorted(folder.glob("outputs-*.npz"))]

    def count_operators(self, path: Path, form: str, feeds, **job):
        """Load a directory in a fresh process and return its operators by precision and kind, for each of the feeds."""
        job["described"] = job.get("described") or self.describe(path, form)
        return self.call("count_operators", path, form, feeds=feeds, **job)[0]


@pytest.fixture
def make_bench(tmp_path, forks):
    """Return a function from a toolchain's adaptor module to its bench."""
    return lambda module: Bench(module, tmp_path, forks)


@pytest.fixture(scope="module")
def make_shared_bench(tmp_path_factory, forks):
    """Return a function from a toolchain's adaptor module to a bench for what many tests of a module look at."""
    return lambda module: Bench(module, tmp_path_factory.mktemp("shared"), forks)


@pytest.fixture
def emulator() -> list[str]:
    """The command that runs a program on an emulated Haswell: AVX2, and neither AVX-512 nor VNNI nor BF16."""
    program = shutil.which("qemu-x86_64")
    if program is None:
        pytest.skip("there is no qemu-x86_64 (Debian: qemu-user) to emulate a CPU without VNNI")
    return [program, "-cpu", "Haswell"]


@pytest.fixture
def runtime(make_bench, environments, tmp_path):
    """A bench of LiteRT, in an environment of its own."""
    bench = make_bench(litert)
    bench.scratch, bench.python = tmp_path / "litert", environments.ensure(litert.TOOLCHAIN).python
    return bench


@pytest.fixture
def seal_source(tmp_path):
    """Return a function that writes a file or folder as the source artifact that it becomes: folder and format."""

    def seal(model: Path) -> tuple[Path, str]:
        pulled = model
        if model.is_file():
            pulled = tmp_path / "pulled" / model.stem
            pulled.mkdir(parents=True)
            shutil.copy(model, pulled)
        flavor = read_flavor(pulled, trust=frozenset())
        folder = tmp_path / "sealed" / model.name
        write_files(flavor, pulled, folder)
        return folder, flavor.format

    return seal
