"""Toolchains whose pins cannot be met together, in one run of the demo; and one whose environment goes away in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_project import HANG

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.errors import ExitCode

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

ROOT = Path(__file__).parents[2]
ON = (
    *("pytorch.export", "pytorch.onnx", "onnxruntime.session", "sparseml.prune", "deepsparse.engine", "iree.cpu"),
    *("neural_compressor.int8-static", "onnx2tf.tflite", "litert.xnnpack"),
)
SEVEN = ("onnxruntime", "sparseml", "deepsparse", "iree", "neural_compressor", "onnx2tf", "litert")
RUNTIMES = {"deepsparse.engine", "iree.cpu", "litert.xnnpack", "onnxruntime.session"}
VERDICTS = {ExitCode.SUCCESS, ExitCode.FAIL, ExitCode.INCONCLUSIVE}
LOST = "deepsparse"
"""The toolchain whose environment is deleted: another run compiles with it, and none of the others needs it."""


class Demo:
    """A copy of this repository with the demo's network, in which runs are started as a user does."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
        recipe = {
            "toolchains": sorted({name.partition(".")[0] for name in ON}),
            "adaptors": {
                name: {"enabled": name in ON}
                for name in read_catalogue().adaptors
                if name.partition(".")[0] in {each.partition(".")[0] for each in ON}
            },
            "budget": "thorough",
            "race": {"rounds": 6, "block": 3},
            "confirm": {"finalists": 2, "looks": [3]},
            "gates": {"drop": 0.05, "other_load": 1},
            "publish": {"enabled": False},
        }
        local = root / "conf" / "local"
        local.mkdir(parents=True, exist_ok=True)
        (local / "parameters.yml").write_text(json.dumps({"hone": recipe}))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(("KEDRO_", "MLFLOW_"))}
        return subprocess.Popen(
            [sys.executable, "-m", "kedro", "run", *arguments],
            cwd=self.root,
            env=inherited | {"HONE_HOME": str(self.home), "PYTHONPATH": str(self.root / "src"), "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        with self.start(*arguments) as process:
            output = process.communicate(timeout=4 * HANG)[0]
        assert process.returncode in VERDICTS, output
        return output

    @property
    def evidence(self) -> dict[str, Any]:
        return json.loads((self.root / "data" / "hone" / "latest" / "evidence.json").read_text())

    def list_routes(self, *statuses: str) -> dict[tuple[str, ...], dict[str, Any]]:
        """Return the candidates with one of the statuses, by their adaptors."""
        return {tuple(one["route"]): one for one in self.evidence["candidates"] if one["status"] in statuses}


@pytest.fixture(scope="module")
def demo(tmp_path_factory, environments) -> Iterator[Demo]:
    """One run of the seven, each with its environment."""
    demo = Demo(tmp_path_factory.mktemp("seven") / "demo", environments.root)
    demo.run("--pipelines", "demo")
    demo.run()
    return demo


def test_each_of_them_took_part_with_versions_that_exclude_each_other(demo):
    measured = demo.list_routes("measured", "dropped")
    took_part = {name for route in measured for name in route}
    # What makes the formats that routes start from is in none of them.
    assert {*ON} - {"pytorch.export"} <= took_part, demo.evidence["candidates"]
    versions = {row["toolchain"]: row["versions"] for row in demo.evidence["environments"]}
    assert versions.keys() >= set(SEVEN)
    onnx = {versions[name]["onnx"] for name in ("sparseml", "neural_compressor", "onnx2tf", "onnxruntime")}
    assert len(onnx) == 4, "four versions of one package"
    assert len({versions[name]["numpy"].partition(".")[0] for name in ("deepsparse", "onnxruntime")}) == 2


def test_one_that_goes_away_fails_its_candidates_only_and_the_next_run_repairs_it(demo, environments):
    environment = environments.locate(read_catalogue().find_toolchain(LOST))
    before = demo.list_routes("measured", "dropped")
    # By default the run itself builds it again.
    with demo.start("--params", "hone.seed=1,hone.missing_toolchains=skip") as process:
        for line in process.stdout:
            if re.search(r" built +deepsparse\.engine ", line):
                gone = environment.rename(environments.root / "gone")  # at once: the run might build it again meanwhile
                shutil.rmtree(gone)
                break
        output = process.communicate(timeout=4 * HANG)[0]
    assert process.returncode in VERDICTS, output

    failed = demo.list_routes("failed")
    assert failed
    assert all("deepsparse.engine" in route for route in failed), failed
    assert all("its own environment is not built" in one["reason"] for one in failed.values())
    others = {route for route in before if "deepsparse.engine" not in route}
    assert others <= demo.list_routes("measured", "dropped").keys()

    started = time.time()
    demo.run("--params", "hone.seed=1")
    assert before.keys() <= demo.list_routes("measured", "dropped").keys()
    assert environment.stat().st_mtime >= started
