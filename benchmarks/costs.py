"""Measure the rows that are shipped as memory: what steps take and candidates gain, on a dozen models.

For each model a project of its own is made, in which ``kedro run`` builds, validates and races every candidate
(``budget: thorough``, an empty store). The models are the demo's network, one of the kind of MobileNetV2, six of
``networks.py``, three of Transformers with random weights, the MiniLM sentence encoder, and two as ONNX. What the store
of each remembers is written as one file, in the form of ``src/kedro_hone/building/costs.jsonl``::

    python benchmarks/costs.py rows.jsonl                     # an hour, on a quiet machine
    python benchmarks/costs.py rows.jsonl --models resnet vit --folder DIR
    python benchmarks/costs.py rows.jsonl --toolchains onnxruntime,openvino,pytorch,litert,litert_torch
    python benchmarks/costs.py rows.jsonl --models --projects DIR/cnn DIR/bert     # DIR of toolchains.py

Models that are in the folder already are not measured again. Rows tell of the processor that measured them: add them to
those of other processors. With ``--toolchains``, and of the projects of ``toolchains.py``, those rows are written that
have a toolchain which no model here is tried with by default; of the projects, those with the default options. What
tunes for minutes (TVM, SparseML's fine-tuning) takes part there only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from by_hand_models import ROOT, make_project, run
from toolchains import TUNES

from kedro_hone.core.contract.catalogue import read_catalogue

IDS = ("int64", 16)
NETWORKS: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "mlp": ("make_mlp", ("float32", 64)),
    "resnet": ("ResNet", ("float32", 3, 16, 16)),
    "lstm": ("Lstm", IDS),
    "encoder": ("Encoder", IDS),
    "gpt": ("Gpt", IDS),
    "vit": ("Vit", ("float32", 3, 32, 32)),
}
"""Models of ``networks.py``: what makes each, and the type and the sizes of a row of its input."""
ONNX = {"resnet-onnx": "resnet", "encoder-onnx": "encoder"}
TRANSFORMERS = ("bert", "gpt2", "vit-transformers")
OWN = ("digits", "mobilenet", "minilm")
MODELS = (*OWN, *NETWORKS, *TRANSFORMERS, *ONNX)
TOOLCHAINS = {"onnxruntime", "openvino", "pytorch"}
"""What the models are tried with: the toolchains that a recipe has by default, and that take them."""
SPLITS = {"calibration": 64, "search": 128, "gate": 128}
LENGTH = 32


def main() -> None:
    """Measure, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="the file to write")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--projects", nargs="*", type=Path, default=[], help="ended ones of toolchains.py")
    parser.add_argument("--folder", type=Path, help="where the projects are made; a temporary one by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--toolchains", default="", help="names of built ones, with commas; a recipe's by default")
    given = parser.parse_args()
    toolchains = [*dict.fromkeys(filter(None, given.toolchains.split(",")))]
    if unknown := [name for name in toolchains if name not in read_catalogue().toolchains]:
        parser.error(f"there is no toolchain {unknown[0]!r}")
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="costs-"))).resolve()
    written: list[dict[str, Any]] = []
    for name in given.models:
        raced = folder / name / "raced"
        if raced.exists() and raced.read_text() != given.toolchains:
            parser.error(f"{raced} is of a race with other toolchains: name another --folder")
        if not raced.exists():
            if (folder / name).exists():
                parser.error(f"{folder / name} is there, and no race ended in it: remove it, or name another --folder")
            began = time.monotonic()
            project = measure(name, folder, toolchains=toolchains, threads=given.threads)
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
            (project / "raced").write_text(given.toolchains)
        # What is known of the default toolchains' routes is from races of these alone.
        written += [
            row for row in read_rows(folder / name) if not (set(toolchains) - TOOLCHAINS and is_known(row["what"]))
        ]
        given.rows.write_text("".join(json.dumps(row) + "\n" for row in written))
    for project in given.projects:
        written += [row for row in read_rows(project) if not row["options"] and not is_known(row["what"])]
    given.rows.write_text("".join(json.dumps(row) + "\n" for row in written))


def read_rows(project: Path) -> list[dict[str, Any]]:
    """Return what a project's store remembers, rounded: of no versions, or none would count after a new lock."""
    rows = map(json.loads, (project / "data" / "hone" / "store" / "costs.jsonl").read_text().splitlines())
    return [
        {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items() if key != "versions"}
        for row in rows
    ]


def is_known(what: str) -> bool:
    """Tell whether all adaptors of a route are of toolchains that the models are tried with."""
    return {name.partition(".")[0] for name in what.split(">")} <= TOOLCHAINS


def measure(name: str, folder: Path, *, toolchains: list[str], threads: int) -> Path:
    """Race every candidate of a model, and return its project."""
    settings: dict[str, Any] = {"threads": threads, "budget": "thorough", "explore": False}
    if toolchains:
        tuners = {tuner: {"enabled": False} for tuner in TUNES if tuner.partition(".")[0] in toolchains}
        settings |= {"toolchains": toolchains, "missing_toolchains": "error", "adaptors": tuners}
    if name in OWN:
        project = make_project(name, folder, threads=threads).project
        env = ["--env", "minilm"] if name == "minilm" else []
    else:
        project, env = write_project(name, folder), []
    (project / "conf" / "local" / "parameters.yml").write_text(yaml.safe_dump({"hone": settings}))
    run(project, "run", "--to-nodes", "race", *env)
    return project


def write_project(name: str, folder: Path) -> Path:
    """Write the project of a model with random weights, whose candidates are compared with it."""
    project = folder / name
    shutil.copytree(ROOT / "conf", project / "conf", dirs_exist_ok=True)
    (project / "conf" / "local").mkdir(exist_ok=True)
    subprocess.run(
        [sys.executable, "-W", "ignore", __file__.replace("costs", "costs_models"), name, str(project)], check=True
    )
    recipe: dict[str, Any] = {
        "model": {"uri": "models/source"},
        "trust": [],
        "program": {"name": "fidelity"},
        "shapes": {"one": {"batch": 1}, "many": {"batch": 32}},
        "gates": {"drop": 0.9},  # that candidates are fast is asked, and not that random weights bear rounding
    }
    if name in NETWORKS:
        maker, (dtype, *sizes) = NETWORKS[name]
        spec = {"name": "x", "dtype": dtype, "shape": ["batch", *sizes]}
        recipe["model"] |= {"module": f"networks.py:{maker}", "inputs": [spec]}
        recipe["trust"] = ["module"]
    if name in {"bert", "gpt2"}:
        recipe["shapes"] = {shape: {**sizes, "length": LENGTH} for shape, sizes in recipe["shapes"].items()}
    (project / "conf" / "base" / "parameters.yml").write_text(yaml.safe_dump({"hone": recipe}))
    return project


def track(project: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Put the splits of a project under DVC, where its catalog has them."""
    folder, place = project / "data" / "digits", 0
    (folder / "splits").mkdir(parents=True)
    for split, count in SPLITS.items():
        rows = {name: array[place : place + count] for name, array in arrays.items()}
        np.savez(folder / "splits" / f"{split}.npz", **rows)
        place += count
    author = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org")
    dvc = (sys.executable, "-m", "dvc")
    for command in (
        ("git", "init", "--quiet"),
        (*dvc, "init", "--quiet"),
        (*dvc, "add", "--quiet", *(f"splits/{split}.npz" for split in SPLITS)),
        ("git", "add", "--all"),
        ("git", *author, "commit", "--quiet", "--message", "Track the splits"),
        ("git", "tag", "v1"),
    ):
        subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    main()
