"""The results of each toolchain on three models: its time relative to ONNX Runtime in fp32, or why there is none.

The models are the demo's network with a dynamic batch, a network with the structure of ResNet-50 and a BERT with six
layers (``toolchains_models.py``). Each has a separate project, in which ``kedro run`` builds, validates and races every
candidate of the chosen toolchains (``budget: thorough``): ten rounds each, next to the source. Each candidate becomes a
cell of ``results.json`` in the folder. A table of each toolchain's fastest candidate is printed, as in
``docs/reference/figures.md``::

    python benchmarks/toolchains.py --folder DIR               # everything installed: hours, on a quiet machine
    python benchmarks/toolchains.py --folder DIR --models cnn --toolchains onnxruntime,openvino,iree
    python benchmarks/toolchains.py --folder DIR --collect     # only write the results of the last runs
    python benchmarks/toolchains.py --folder DIR --onnx        # begins at ONNX: without PyTorch's toolchain
    python benchmarks/toolchains.py --folder DIR --python torch_tensorrt=/opt/trt/bin/python

``--python`` names the interpreter in which a toolchain runs, for Torch-TensorRT, for which no environment is built
here, and on machines without access to an index. It can be given several times; a toolchain with one takes part unless
``--toolchains`` leaves it out.

The contents of the folder are used again: artifacts, validations and tuning records. The cells are those of the last
run of each model. Exit code 1: a cell without a figure does not name the operator, option, limit, licence or device
that is the reason. Or a model has no cells, since nothing was raced or the reference was not measured. The other models
have theirs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from by_hand_models import ROOT, make_project, track
from toolchains_cells import SAYS_LITTLE, NotMeasured, collect, summarize

from hone_runtime.contract.adaptor import Adaptor
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from kedro_hone.core.environments.environment import Environment
from kedro_hone.core.environments.store import EnvironmentStore

Json = dict[str, Any]

ROUNDS = 10
MODELS: dict[str, Json] = {
    "cnn": {
        "title": "digits CNN, trained, dynamic batch",
        "shapes": {"batch1": {"batch": 1}, "batch64": {"batch": 64}},
    },
    "resnet50": {
        "title": "ResNet-50, random weights, 3 x 224 x 224",
        "shapes": {"batch1": {"batch": 1}},
        "model": {
            "module": "resnet.py:ResNet50",
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3, 224, 224]}],
        },
    },
    "bert": {
        "title": "BERT, six layers of 384, random weights, 128 tokens",
        "shapes": {"batch1": {"batch": 1, "length": 128}},
    },
}
MACHINE = "machine.json"
"""The file in a project with the machine, the versions and the date of its last run."""
TUNES = ("tvm.cpu", "sparseml.tune")
"""The adaptors that tune for a given time."""
TRAINING = "\ntraining: {type: kedro_hone.datasets.DVCDataset, path: splits/training.npz, repo: data/digits, rev: v2}\n"
"""The entry of the catalog that SparseML needs to fine-tune."""


def main() -> None:
    """Run, collect and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the projects are, or are made")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--toolchains", default="", help="names, with commas; all whose environment is there by default"
    )
    parser.add_argument("--build", action="store_true", help="build the environments that are missing")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        type=read_interpreter,
        metavar="NAME=PATH",
        help="the interpreter of a toolchain, in place of its own environment; can be repeated",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--tuning-seconds", type=int, help="how long TVM and SparseML tune each model; as long as they do by default"
    )
    parser.add_argument("--onnx", action="store_true", help="begin at the models as ONNX")
    parser.add_argument("--collect", action="store_true", help="run nothing")
    parser.add_argument("--results", type=Path, help="the file to write; results.json in the folder by default")
    given = parser.parse_args()
    given.python = dict(given.python)
    toolchains = given.toolchains.split(",") if given.toolchains else list_toolchains(given)
    print(f"{read_host().cpu}: {', '.join(toolchains)}", flush=True)
    results, failed = given.results or given.folder / "results.json", 0
    for name in given.models:
        project = given.folder.resolve() / name
        if not given.collect:
            measure(name, project, toolchains=toolchains, given=given)
        said = write_cells(name, project, results)
        failed += len(said)
        for line in said:
            print(f"{name}: {line}", flush=True)
    if results.exists():
        print(summarize(json.loads(results.read_text())["models"]))
    sys.exit(1 if failed else 0)


def write_cells(name: str, project: Path, results: Path) -> list[str]:
    """Write the cells of a model's last race; return a line for each that is missing or unexplained."""
    if (left := find_race(project)) is None:
        return ["no run has raced yet"]
    race = json.loads(left.read_text())
    try:
        cells = collect(race)
    except NotMeasured as reason:
        return [str(reason)]
    write(results, name, race, cells=cells, machine=json.loads((project / MACHINE).read_text()))
    little = [cell for cell in cells if "times" not in cell and SAYS_LITTLE.match(cell["reason"])]
    return [f"says too little: {' ▸ '.join(cell['route'])}: {cell['reason']!r}" for cell in little]


def read_interpreter(text: str) -> tuple[str, Path]:
    """Return the toolchain and the absolute path of ``NAME=PATH``; a link is not resolved: it identifies a venv."""
    name, _, path = text.partition("=")
    if name not in read_catalogue().toolchains:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(read_catalogue().toolchains)}")
    python = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - neither raises, or follows links
    if shutil.which(python) is None:
        raise argparse.ArgumentTypeError(f"{path!r} is no program: write NAME=PATH, such as iree=/opt/iree/bin/python")
    return name, Path(python)


def list_toolchains(given: argparse.Namespace) -> list[str]:
    """Return the toolchains that have an environment or are given one, or all.

    Those that need a GPU always take part, since they report this as the reason.
    """
    store, found = EnvironmentStore(), []
    for name, toolchain in read_catalogue().toolchains.items():
        devices = {one.device for one in read_catalogue().adaptors.values() if one.toolchain.name == name}
        always = given.build or name in given.python or (devices and "cpu" not in devices)
        if always or isinstance(store.ensure(toolchain, build=False), Environment):
            found.append(name)
    return found


def measure(name: str, project: Path, *, toolchains: list[str], given: argparse.Namespace) -> None:
    """Race every candidate of a model in its project, which is made if it does not exist."""
    began, asked, threads = time.monotonic(), MODELS[name], given.threads
    if name == "cnn" and not given.onnx:
        made = make_project("digits", project.parent / f".{name}", threads=threads).project
        if not (made / "data" / "digits" / "splits" / "training.npz.dvc").exists():
            write_training(made)
        if not project.exists():
            project.symlink_to(made)
    elif not (project / "made").exists():
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(ROOT / "conf", project / "conf")
        (project / "conf" / "local").mkdir(exist_ok=True)
        script = Path(__file__).with_name("toolchains_models.py")
        form = ["--onnx"] if given.onnx else []
        subprocess.run([sys.executable, "-W", "ignore", str(script), name, str(project), *form], check=True)
        model = {"uri": "models/source", **({} if given.onnx else asked.get("model", {}))}
        trust = ["module"] if "module" in model else []
        recipe = {"model": model, "trust": trust, "program": {"name": "fidelity"}}
        (project / "conf" / "base" / "parameters.yml").write_text(yaml.safe_dump({"hone": recipe}))
        track_training(project)
        (project / "made").touch()
    adaptors = [one for one in read_catalogue().adaptors.values() if one.toolchain.name in toolchains]
    settings = {
        "threads": threads,
        "shapes": asked["shapes"],
        "toolchains": toolchains,
        "missing_toolchains": "build" if given.build else "skip",
        "environments": {name: {"python": str(python)} for name, python in given.python.items()},
        "adaptors": {one.name: section for one in adaptors if (section := choose_settings(one, given.tuning_seconds))},
        "budget": "thorough",
        "gates": {"drop": 0.9},  # losses are reported, and exclude no candidate
        "race": {"rounds": ROUNDS, "block": ROUNDS, "seconds": 3600},
        "confirm": {"finalists": 1},  # a heat retains only the best candidate of the one before
    }
    (project / "conf" / "local" / "parameters.yml").write_text(yaml.safe_dump({"hone": settings}))
    if (left := find_race(project)) is not None:
        left.unlink()  # earlier files are no result of a run that fails
    (project / MACHINE).write_text(json.dumps(describe_machine(toolchains, given)))
    command = [sys.executable, "-m", "kedro_hone", "run", "--to-nodes", "race"]
    variables = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    code = subprocess.run(command, cwd=project, env=variables, check=False).returncode
    print(f"{name}: {time.monotonic() - began:.0f} s, exit code {code}", flush=True)


def write_training(project: Path) -> None:
    """Write the training rows of the demo's network into its project under the name of its input, without labels."""
    splits = project / "data" / "digits" / "splits"
    with np.load(splits / "train.npz") as rows:
        np.savez(splits / "training.npz", x=rows["images"])
    track_training(project)


def track_training(project: Path) -> None:
    """Put the training split of a project under DVC, and add it to its catalog."""
    track(project / "data" / "digits", "training.npz", tag="v2")
    catalog = project / "conf" / "base" / "catalog.yml"
    catalog.write_text(catalog.read_text().replace(TRAINING, "") + TRAINING)


def choose_settings(adaptor: Adaptor, seconds: int | None) -> Json:
    """Return the recipe's section of an adaptor: all take part with their defaults, except for the tuning time."""
    options = {"options": {"seconds": seconds}} if seconds and adaptor.name in TUNES else {}
    return {**options, **({} if adaptor.default else {"enabled": True})}


def find_race(project: Path) -> Path | None:
    """Return the result of a project's last race: the one before any composites of several shapes."""
    places = [project / "data/hone/work" / name for name in ("raced.json", "race.json")]
    return next((path for path in places if path.exists()), None)


def write(path: Path, name: str, race: Json, *, cells: list[Json], machine: Json) -> None:
    """Write one model's cells into the file of results, next to those of the others."""
    known: Json = json.loads(path.read_text()) if path.exists() else {"models": {}}
    known["models"][name] = {
        "title": MODELS[name]["title"],
        "shapes": MODELS[name]["shapes"],
        **machine,
        "rounds": min(each["rounds"] for each in race["standings"] if each["rounds"]),
        "other_load": race["other_load"] and round(race["other_load"], 2),
        "source_ms": {each["shape"]: float(f"{each['p50_ms']:.4g}") for each in race["source_latency"]},
        "cells": cells,
    }
    known["models"] = {each: known["models"][each] for each in MODELS if each in known["models"]}
    path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")


def describe_machine(toolchains: list[str], given: argparse.Namespace) -> Json:
    """Return the machine and the versions of the measurement."""
    host = read_host()
    tuning = [read_catalogue().adaptors[name] for name in TUNES]
    seconds = {
        one.name: given.tuning_seconds or one.options.model_fields["seconds"].default
        for one in tuning
        if one.toolchain.name in toolchains
    }
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "cpu": host.cpu,
        "instructions": host.instructions,
        "flags": sorted(host.flags),
        "cores": host.cores,
        **({"gpu": host.gpu, "driver": host.driver} if host.gpu else {}),
        "threads": given.threads,
        "versions": list_versions(toolchains, given.python),
        **({"tuning_seconds": seconds} if seconds else {}),
    }


def list_versions(toolchains: list[str], interpreters: Mapping[str, Path]) -> dict[str, str]:
    """Return the version of the main package of each toolchain's environment."""
    store, found = EnvironmentStore(named=interpreters), {"kedro-hone": version("kedro-hone")}
    for name in toolchains:
        toolchain = read_catalogue().toolchains[name]
        environment = store.ensure(toolchain, build=False)
        wanted = re.search(r"^\w[\w.-]*", toolchain.requirements.read_text(), re.MULTILINE)
        if wanted and isinstance(environment, Environment) and wanted[0] in environment.versions:
            found[wanted[0]] = environment.versions[wanted[0]]
    return found


if __name__ == "__main__":
    main()
