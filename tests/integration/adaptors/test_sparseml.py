"""SparseML in its own environment: the digits net pruned, trained, judged, and run by DeepSparse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from digits_bench import Bench, make_bench, read_splits, read_training
from onnx import numpy_helper

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status
from hone_runtime.values.outcome import Outcome, Refused
from kedro_hone.search.steps.step import transform

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

SHAPES = {"batch1": {"batch": 1}, "batch64": {"batch": 64}}


@pytest.fixture(autouse=True)
def home(environments, monkeypatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(environments.root))


def open_bench(digits_models: Path, folder: Path, training: dict[str, np.ndarray]) -> Bench:
    program, splits = digits_models / "exported" / "model.pt2", {**read_splits(digits_models), "training": training}
    return make_bench(folder, program, splits, form="pytorch", runtime="pytorch", shapes=SHAPES)


def run(bench: Bench, artifact: Artifact, name: str, **options: object) -> Outcome:
    adaptor = read_catalogue().find_adaptor(name)
    asked = adaptor.options.model_validate(options)
    return transform(adaptor, asked, artifact, bench.context, reference=bench.reference)


def build(bench: Bench, *route: str) -> Artifact:
    artifact = bench.context.source
    for name in route:
        outcome = run(bench, artifact, name)
        assert isinstance(outcome, Artifact), outcome
        artifact = outcome
    return artifact


def test_four_of_five_blocks_of_weights_are_zero_and_the_accuracy_holds(digits_models, tmp_path):
    bench = open_bench(digits_models, tmp_path, read_training())
    pruned = build(bench, "sparseml.tune", "pytorch.onnx")

    graph = onnx.load(bench.context.store.locate(pruned) / "model.onnx").graph
    weights = [numpy_helper.to_array(one) for one in graph.initializer if len(one.dims) >= 2]
    blocks = [np.moveaxis(one, 1, -1).reshape(-1, 4) for one in weights if one.shape[1] % 4 == 0]
    zero = np.concatenate([(block == 0).sum(axis=1) for block in blocks])
    assert (zero == 4).mean() == pytest.approx(0.8, abs=0.01)
    assert ((zero == 0) | (zero == 4)).mean() > 0.999

    for runtime in ("deepsparse.engine", "onnxruntime.session"):
        outcome = run(bench, pruned, runtime)
        assert isinstance(outcome, Artifact), outcome
        validation = bench.validate(outcome)
        assert validation.status is Status.MEASURED, validation


def test_two_of_each_four_weights_are_zero_in_one_step(digits_models, tmp_path):
    bench = open_bench(digits_models, tmp_path, read_training())
    pruned = run(bench, bench.context.source, "sparseml.prune", pattern="2:4", sparsity=0.5)
    assert isinstance(pruned, Artifact), pruned
    found = pruned.metadata["pruned"]
    assert found["pattern"] == "2:4"
    assert all(sparsity == pytest.approx(0.5, abs=0.01) for sparsity in found["sparsity"].values())


def test_training_rows_that_are_not_finite_are_refused(digits_models, tmp_path):
    training = read_training()
    training["image"][3, 0, 0, 0] = np.nan
    bench = open_bench(digits_models, tmp_path, training)
    refused = run(bench, bench.context.source, "sparseml.tune")
    assert isinstance(refused, Refused), refused
    assert "not finite" in refused.reason


def test_a_training_that_ends_before_all_is_pruned_is_refused(digits_models, tmp_path):
    bench = open_bench(digits_models, tmp_path, read_training())
    refused = run(bench, bench.context.source, "sparseml.tune", seconds=0.001)
    assert isinstance(refused, Refused), refused
    assert "before all was pruned" in refused.reason


def test_a_training_that_diverges_is_told_as_such(digits_models, tmp_path):
    bench = open_bench(digits_models, tmp_path, read_training())
    refused = run(bench, bench.context.source, "sparseml.tune", learning_rate=1e30, epochs=4)
    assert isinstance(refused, Refused), refused
    assert "diverged" in refused.reason


def test_training_rows_of_the_gate_end_the_run(digits_models, tmp_path):
    with pytest.raises(HoneError, match="gate and training splits share 312 row") as caught:
        open_bench(digits_models, tmp_path, read_splits(digits_models)["gate"])
    assert caught.value.slug == "data-overlap"
