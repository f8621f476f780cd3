"""The projects of ``compression.py``: a trained source, four splits that share no row, and a recipe that compresses.

As a script, ``python compression_models.py NAME PROJECT`` trains the source of a project, in a process of its own.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from by_hand_models import ROOT, make_project, track

Json = dict[str, Any]
Recipe = dict[str, Any]

FILES = "compression_networks.py"
"""The file with the classes, which is copied into the projects that name one of them."""
IMAGES = {"train": 800, "calibration": 200, "search": 347, "gate": 450}
"""The rows of scikit-learn's digits in each split: those of the demo."""
SIZE, EPOCHS, BATCH, SHIFT, COPIES = 64, 24, 64, 4, 2
"""Of the ResNet: its images, its training, by how many pixels an image is moved, and the copies of each in a split."""
TRAINING_ENTRY = (
    "training: {type: kedro_hone.datasets.DVCDataset, path: splits/training.jsonl, repo: data/minilm, rev: v2}\n"
)
SENTENCES = 1500
"""The training rows of MiniLM."""
NEVER = ("compile", "compile-exported", "aoti", "aoti-bf16", "torchscript")
"""Runtimes of PyTorch that take minutes to build and win nothing on a CPU where the others run: see Figures."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network with its project.

    Attributes:
        name: One of ``NETWORKS``.
        project: The folder of its project.
        env: Kedro's environment of its recipe.
    """

    name: str
    project: Path
    env: str = "base"


def make(name: str, folder: Path) -> Network:
    """Make the project of a network with its data and its trained source, unless it is there."""
    project = folder / name
    if name in {"demo", "minilm"}:
        made = make_project({"demo": "digits"}.get(name, name), folder / ".sources", threads=2).project
        if not project.exists():
            project.symlink_to(made)
        if name == "minilm" and not (made / "data/minilm/splits/training.jsonl").exists():
            _write_sentences(made)
    elif not (project / "made").exists():
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(ROOT / "conf", project / "conf")
        (project / "conf" / "local").mkdir(exist_ok=True)
        shutil.copyfile(Path(__file__).with_name(FILES), project / FILES)
        subprocess.run([sys.executable, "-W", "ignore", __file__, name, str(project)], check=True)
        (project / "made").touch()
    return Network(name=name, project=project, env="minilm" if name == "minilm" else "base")


def write_recipe(network: Network, *, budget: float, compressors: list[str]) -> None:
    """Write what is particular to a network into the recipe of its environment: with one, Kedro reads no ``local``.

    Args:
        network: The network.
        budget: Of the search, in seconds.
        compressors: The only ones that take part; all if empty.
    """
    from hone_runtime.contract.catalogue import read_catalogue  # noqa: PLC0415 - slow to import

    path = Path("conf", "local" if network.env == "base" else network.env, "parameters.yml")
    given = {} if network.env == "base" else yaml.safe_load((ROOT / path).read_text())["hone"]
    recipe = given | RECIPES[network.name]
    known = [name for name in read_catalogue().adaptors if name.startswith("compress.")]
    excluded = [name for name in known if compressors and name not in compressors]
    off = [*excluded, *(f"pytorch.{name}" for name in NEVER)]
    adaptors = given.get("adaptors", {}) | recipe.get("adaptors", {})
    recipe["adaptors"] = adaptors | {name: {"enabled": False} for name in off}
    recipe |= {"threads": 2, "budget": budget, "publish": {"enabled": False}, "confirm": {"looks": [7]}}
    recipe.setdefault("toolchains", ["pytorch", "onnxruntime", "openvino", "compress"])
    (network.project / path).write_text(yaml.safe_dump({"hone": recipe}))


def _write_catalog(project: Path, ending: str) -> None:
    """Write the entries of the splits in ``data/digits``, with another ending than ``npz``."""
    catalog = project / "conf" / "base" / "catalog.yml"
    catalog.write_text(catalog.read_text().replace(".npz", ending))


# --- the ResNet


def draw_images() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the images, enlarged, and the labels of each split."""
    import torch  # noqa: PLC0415 - slow to import
    from sklearn.datasets import load_digits  # noqa: PLC0415 - of this one only

    digits = load_digits()
    small = torch.from_numpy(digits.images / 16).float()[:, None]
    images = torch.nn.functional.interpolate(small, size=(SIZE, SIZE), mode="bilinear").numpy()
    order = np.random.default_rng(0).permutation(len(images))
    parts = np.split(order, np.cumsum([*IMAGES.values()])[:-1])
    return {name: (images[rows], digits.target[rows]) for name, rows in zip(IMAGES, parts, strict=True)}


def move(images: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return images that are moved by some pixels, each by others."""
    padded = np.pad(images, ((0, 0), (0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
    starts = draw.integers(0, 2 * SHIFT + 1, size=(len(images), 2))
    rows = (image[:, y : y + SIZE, x : x + SIZE] for image, (y, x) in zip(padded, starts, strict=True))
    return np.stack([*rows])


def make_resnet(project: Path) -> None:
    """Train the ResNet on moved images, and write it as an exported program with its splits and its recipe."""
    import torch  # noqa: PLC0415 - slow to import
    from compression_networks import ResNet  # noqa: PLC0415 - imports torch

    splits, draw = draw_images(), np.random.default_rng(0)
    images, labels = splits["train"]
    torch.manual_seed(0)
    network, targets = ResNet(), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.02)
    steps = EPOCHS * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        moved = torch.from_numpy(move(images, draw))
        for rows in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(moved[rows]), targets[rows]).backward()
            optimizer.step()
            schedule.step()
    network.eval()
    for name in ("search", "gate"):
        with torch.inference_mode():
            found = network(torch.from_numpy(splits[name][0])).argmax(1).numpy()
        print(f"resnet: accuracy {(found == splits[name][1]).mean():.4f} on the {name} split", flush=True)
    source = project / "models" / "source"
    source.mkdir(parents=True)
    example = torch.from_numpy(images[:2])
    program = torch.export.export(network, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, source / "model.pt2")
    folder = project / "data" / "digits"
    (folder / "splits").mkdir(parents=True)
    copies = np.concatenate([images, *(move(images, draw) for _ in range(COPIES - 1))])
    arrays = {name: {"image": pair[0], "label": pair[1]} for name, pair in splits.items()} | {
        "train": {"image": copies}
    }
    for name, each in arrays.items():
        np.savez(folder / "splits" / f"{name}.npz", allow_pickle=False, **each)
    track(folder, *(f"{name}.npz" for name in IMAGES), tag="v1")
    _write_base(
        project,
        model={
            "uri": "models/source",
            "module": f"{FILES}:ResNet",
            "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, SIZE, SIZE]}],
        },
        trust=["module"],
        program={"name": "image-classification"},
    )


def _write_base(project: Path, **recipe: Any) -> None:
    (project / "conf" / "base" / "parameters.yml").write_text(yaml.safe_dump({"hone": recipe}))


# --- the classifier of texts


def make_text(project: Path) -> None:
    """Train the classifier of texts, and write it with its splits and its recipe."""
    import compression_texts  # noqa: PLC0415 - imports torch

    source, folder = project / "models" / "source", project / "data" / "digits"
    source.mkdir(parents=True)
    compression_texts.write_splits(folder)
    compression_texts.train(source)
    track(folder, *(f"{name}.jsonl" for name in compression_texts.SPLITS), tag="v1")
    _write_catalog(project, ".jsonl")
    program = {"name": "text-classification", "options": {"length": compression_texts.LENGTH}}
    student = {"student": f"{FILES}:Student", "kwargs": {"words": len(compression_texts.list_words())}, "epochs": 20}
    adaptors = {"compress.distil": {"options": student}}
    _write_base(project, model={"uri": "models/source"}, trust=["module"], program=program, adaptors=adaptors)


# --- MiniLM


def _write_sentences(project: Path) -> None:
    """Write sentences of installed packages' docstrings as the training split; none of them is in another split."""
    folder = project / "data" / "minilm"
    splits = folder / "splits"
    used = {json.loads(line)["text"] for path in splits.glob("*.jsonl") for line in path.read_text().splitlines()}
    found = dict.fromkeys(text for text in _list_sentences() if text not in used)
    rows = [*found][:: max(1, len(found) // SENTENCES)][:SENTENCES]
    (splits / "training.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in rows))
    track(folder, "training.jsonl", tag="v2")
    catalog = project / "conf" / "minilm" / "catalog.yml"
    catalog.write_text(catalog.read_text() + TRAINING_ENTRY)


def _list_sentences() -> Iterator[str]:
    """Yield sentences of docstrings of NumPy, SciPy and scikit-learn."""
    packages = Path(site.getsitepackages()[0])
    for path in sorted(path for name in ("numpy", "scipy", "sklearn") for path in (packages / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                for part in (ast.get_docstring(node) or "").split("\n\n"):
                    for text in re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(part.split())):
                        if 30 <= len(text) <= 400 and text[0].isupper() and text[-1] == ".":
                            yield text


RECIPES: dict[str, Recipe] = {
    "demo": {"gates": {"drop": 0.02}},
    "resnet": {"shapes": {"batch1": {"batch": 1}, "batch64": {"batch": 64}}, "gates": {"speedup": 1.05, "drop": 0.02}},
    "text": {
        "shapes": {"batch1": {"batch": 1, "length": 16}, "batch64": {"batch": 64, "length": 16}},
        "gates": {"speedup": 1.05, "drop": 0.02},
    },
    "minilm": {
        "adaptors": {
            **{name: {"enabled": True} for name in ("onnxruntime.int8-tuned", "openvino.int8-tuned")},
            **{name: {"enabled": False} for name in ("onnxruntime.fused", "openvino.int8-weights")},  # never its winner
        },
    },
}
MAKERS = {"resnet": make_resnet, "text": make_text}
NETWORKS = (*RECIPES,)


def main() -> None:
    """Make one project."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MAKERS)
    parser.add_argument("project", type=Path)
    given = parser.parse_args()
    MAKERS[given.name](given.project)


if __name__ == "__main__":
    main()
