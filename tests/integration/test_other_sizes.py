"""A candidate is compared with the source at the sizes of the recipe's shapes, also where these cut the data.

The toolchain computes with numpy; the workers, the program and the store are real.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from digits_bench import track

from hone_runtime.contract.catalogue import forget_registrations, register
from hone_runtime.contract.toolchain import Licence, Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.measurement import Status, Validation
from hone_runtime.values.samples import Reference
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.baseline import take_baseline
from kedro_hone.nodes.prepare import prepare
from kedro_hone.nodes.validate import validate
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext

TOOLCHAIN = Toolchain(
    name="sized",
    folder=Path(__file__).with_name("other_sizes"),
    runs=frozenset({"sized"}),
    formats=MappingProxyType({"sized": ("model.json",)}),
)
LOSSY = "onnxruntime.int8-dynamic"
"""A route that does more than convert: only what a metric or a comparison finds drops a candidate of it."""
SHORT = {"short": {"batch": 8, "steps": 2}}
STEPS = 5


@dataclass(frozen=True)
class Bench:
    """A source, its baseline, and candidates that differ from it by their faults."""

    context: RunContext
    reference: Reference

    def seal(self, dtype: str = "float32", **faults: Any) -> Artifact:
        return seal(self.context.store, self.context.run.folder / "model", dtype, **faults)

    def validate(self, artifact: Artifact) -> Validation:
        return validate(
            context=self.context, outcome=artifact, reference=self.reference, candidate="one", route=(LOSSY,)
        )


def seal(store: Store, folder: Path, dtype: str, **faults: Any) -> Artifact:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps(faults))
    batch = faults.get("batch", "batch")
    return store.seal(
        folder,
        format="sized",
        inputs=(TensorSpec(name="x", dtype="float32", shape=(batch, "steps", 4)),),
        outputs=(TensorSpec(name="y", dtype=dtype, shape=(batch, 3)),),
        runtime="sized",
    )


@pytest.fixture
def make_bench(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    register(TOOLCHAIN)

    def make(*, labels: bool = False, batch: int | None = None, **recipe: Any) -> Bench:
        keys = {
            "model": {"uri": "models:/sized/1"},
            "budget": "thorough",
            "threads": 1,
            "gates": {"drop": 0.05, "other_load": 1},
            "shapes": SHORT,
        }
        program = {"name": "tabular-regression" if labels else "fidelity", "options": {"arrays": {"x": "x"}}}
        parsed = read_recipe({**keys, "program": program, **recipe})
        draw = np.random.default_rng(0)
        store, run = Store(tmp_path / "store"), RunFolder(root=tmp_path / "runs", run_id="run", project=tmp_path)
        files = {}
        for name in ("calibration", "search", "gate"):
            x = draw.normal(size=(200, STEPS, 4)).astype(np.float32)
            y = x.mean(axis=1) @ (np.arange(12, dtype=np.float32).reshape(4, 3) - 5)
            files[name] = track(tmp_path / f"{name}.npz", {"x": x, "target": y} if labels else {"x": x})
        source = seal(store, tmp_path / "source", "float32", **({"batch": batch} if batch else {}))
        samples = prepare(source=source, recipe=parsed, store=store, run=run, **files)
        context = RunContext(source=source, samples=samples, recipe=parsed, store=store, run=run)
        return Bench(context, take_baseline(context=context))

    yield make
    forget_registrations()


def test_a_candidate_that_is_wrong_at_the_sizes_of_a_shape_only_is_dropped(make_bench):
    bench = make_bench(labels=True)

    validation = bench.validate(bench.seal(short=-1))

    assert (validation.status, validation.slug) == (Status.DROPPED, "quality")
    assert validation.reason.startswith(
        "at short (steps 2), y is up to 2 times the source's largest value away from it, and 0.5 is allowed: "
    )
    assert validation.largest_error == pytest.approx(2)


def test_a_candidate_that_is_right_there_races(make_bench):
    bench = make_bench(labels=True)

    validation = bench.validate(bench.seal(short=1.2))

    assert validation.status is Status.MEASURED, validation.reason
    assert validation.largest_error == pytest.approx(0.2, abs=0.01)


def test_without_labels_the_score_counts_at_the_sizes_of_a_shape_too(make_bench):
    bench = make_bench()

    validation = bench.validate(bench.seal(short=0.6))

    assert (validation.status, validation.slug) == (Status.DROPPED, "quality")
    assert "cosine_similarity on the search split fell from 1.0000 to 0.88" in validation.reason
    assert "at short (steps 2)" in validation.reason


def test_outputs_that_are_not_finite_there_are_a_failure(make_bench):
    bench = make_bench(labels=True)

    validation = bench.validate(bench.seal(short=float("inf")))

    assert (validation.status, validation.slug) == (Status.FAILED, "numerics")
    assert validation.reason.startswith("output 'y' at short (steps 2): some values are not finite")
    assert "in 200 of 200 rows; first at [0, 0], where it is " in validation.reason


def test_sizes_that_are_those_of_the_data_cost_nothing_more_and_a_probe_tries_others(make_bench):
    bench = make_bench(shapes={"whole": {"batch": 8, "steps": STEPS}})

    assert bench.reference.cropped == {}
    found = bench.validate(bench.seal(short=-1))
    assert found.status is Status.DROPPED
    assert found.reason.startswith("on a probe, steps of 2: y differs by ")


@pytest.mark.parametrize("batch", [1, 16])
def test_a_source_of_a_fixed_batch_is_run_and_compared_at_that_alone(make_bench, batch):
    """No multiple of 16 is 200 rows: the last are filled up."""
    bench = make_bench(batch=batch, shapes={"whole": {"batch": batch}, "short": {"batch": batch, "steps": 2}})

    right = bench.validate(bench.seal(batch=batch))
    wrong = bench.validate(bench.seal(batch=batch, short=0.6))

    assert right.status is Status.MEASURED, right.reason
    assert right.quality.n == 200
    assert right.largest_error == 0
    assert (wrong.status, wrong.slug) == (Status.DROPPED, "quality")


def test_a_candidate_alone_may_not_fix_the_batch(make_bench):
    bench = make_bench(shapes={"whole": {"batch": 8}})

    validation = bench.validate(bench.seal(batch=8))

    assert (validation.status, validation.slug) == (Status.FAILED, "crash")
    assert "it takes 8 rows, and is fed 7" in validation.reason


def test_a_baseline_without_a_shapes_outputs_is_outdated(make_bench):
    bench = make_bench()
    old = Bench(bench.context, bench.reference.model_copy(update={"cropped": {}}))

    with pytest.raises(HoneError, match="'reference'") as caught:
        old.validate(bench.seal(short=-1))
    assert caught.value.slug == "value-outdated"


@pytest.mark.parametrize(("declared", "status"), [("float32", "failed"), ("float64", "measured")])
def test_another_type_than_the_sources_must_be_declared(make_bench, declared, status):
    bench = make_bench(shapes={"whole": {"batch": 8}})

    validation = bench.validate(bench.seal(declared, returned="float64"))

    assert validation.status == status


def test_a_licence_that_changed_is_asked_again_where_the_validation_is_kept(make_bench):
    bench = make_bench()
    before = bench.validate(bench.seal())
    forget_registrations()
    register(replace(TOOLCHAIN, licence=Licence.EVALUATION, note="For evaluation only."))

    after = bench.validate(bench.seal())

    assert (before.publishable, before.note) == (True, "")
    assert (after.publishable, after.note) == (False, "For evaluation only.")
    assert after.seconds == before.seconds  # it was found in the store
