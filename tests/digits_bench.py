"""A real source model with real samples, as the nodes before ``validate`` leave them: scikit-learn's digits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.digest import digest_file
from hone_runtime.values.measurement import Quality, Validation
from hone_runtime.values.samples import GATE, Predicted, Reference, TrackedFile
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.validate import validate
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext
from kedro_hone.search.scores import predict, score_predictions

ROWS = {"calibration": 256, "search": 200, "gate": 312}

Splits = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Bench:
    """One source model, ready for candidates."""

    context: RunContext
    reference: Reference

    @property
    def common(self) -> dict[str, Any]:
        """What every measuring node is given."""
        return {"context": self.context}

    def validate(self, artifact: Artifact, *route: str) -> Validation:
        """Check what a route produced."""
        return validate(outcome=artifact, reference=self.reference, candidate="candidate", route=route, **self.common)


def read_splits(folder: Path) -> Splits:
    """Return the rows that the net was not trained on, from the fixture ``digits_models``."""
    with np.load(folder / "search.npz") as rows:
        cut = ROWS["search"]
        search, gate = ({"image": rows["x"][part], "label": rows["y"][part]} for part in (slice(cut), slice(cut, None)))
    with np.load(folder / "calibration.npz") as rows:
        return {"calibration": {"image": rows["image"]}, "search": search, "gate": gate}


def read_training() -> dict[str, np.ndarray]:
    """Return the rows that the nets were trained on, which no other split has; see ``digits_models.py``."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rest = np.random.default_rng(0).permutation(len(images))[768:]
    return {"image": (images[rest] / 16).astype(np.float32).reshape(-1, 1, 8, 8), "label": labels[rest]}


def make_bench(folder: Path, model: Path, splits: Splits, *, form: str, runtime: str, **recipe: Any) -> Bench:
    """Seal a model file as the source, prepare real samples for it, and predict them.

    Args:
        folder: An empty directory.
        model: The model's file.
        splits: The rows.
        form: Its format.
        runtime: The toolchain that runs it.
        **recipe: Keys of the recipe in addition to those that are the same for all.
    """
    keys = {
        "model": {"uri": "models:/digits/1"},
        "program": {"name": "image-classification"},
        "budget": "thorough",
        "threads": 1,
        "gates": {"drop": 0.02, "other_load": 1},  # tests run at the same time
        **recipe,
    }
    parsed = read_recipe(keys)
    store = Store(folder / "hone" / "store")
    run = RunFolder(root=folder / "hone" / "runs", run_id="run", project=folder)
    source = _seal(folder / "source", model, store, form=form, runtime=runtime, image=splits["gate"]["image"])
    files = {name: track(folder / f"{name}.npz", arrays) for name, arrays in splits.items()}
    samples = prepare(source=source, recipe=parsed, store=store, run=run, **files)
    assert {name: samples.splits[name].n for name in ROWS} == ROWS
    context = RunContext(source=source, samples=samples, recipe=parsed, store=store, run=run)
    reference = take_baseline(context=context)
    assert reference.value > 0.9
    return Bench(context, reference)


def _seal(folder: Path, model: Path, store: Store, *, form: str, runtime: str, image: np.ndarray) -> Artifact:
    folder.mkdir()
    (folder / model.name).write_bytes(model.read_bytes())
    return store.seal(
        folder,
        format=form,
        inputs=(TensorSpec(name="image", dtype="float32", shape=("batch", *image.shape[1:])),),
        outputs=(TensorSpec(name="logits", dtype="float32", shape=("batch", 10)),),
        runtime=runtime,
    )


def track(path: Path, arrays: dict[str, np.ndarray]) -> TrackedFile:
    """Write arrays as if DVC had brought them."""
    np.savez(path, **arrays)
    return TrackedFile(
        path=str(path),
        source=path.name,
        repo=".",
        rev="main",
        resolved_rev="0" * 40,
        md5=digest_file(path),
    )


def measure_gate(bench: Bench, artifact: Artifact, folder: Path, *, batch: int = 64) -> Quality:
    """Score an artifact on the gate split, as the gate does with a finalist."""
    split, outputs = bench.context.samples.splits[GATE], []
    for name, model in (("source", bench.context.source), ("candidate", artifact)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        outputs.append(folder / name / "outputs.npz")
        runs = [(bench.context.locate(split.feeds), outputs[-1], batch)]
        predicted = predict(model, name=name, runs=runs, context=bench.context)
        assert isinstance(predicted, Predicted), predicted
    reference, candidate = outputs
    found = score_predictions({"it": candidate}, reference=reference, split=split, context=bench.context)["it"]
    assert isinstance(found, Quality), found
    return found
