"""The node of a run that measures the winner and the source through the wire."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from linear_winners import make_weights, write_linear

from hone_runtime.contract.registry import VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.manifest import Manifest
from hone_runtime.values.samples import Samples
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.wire import measure_wire
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.context import RunContext
from kedro_hone.serving.wire.comparison import Effort

pytestmark = pytest.mark.toolchain

FEW = Effort(clients=(1,), launches=2, seconds=0.2)
VERSION = VersionInfo(uri="models:/linear/1", name="linear", version="1", tags={})


def prepare(folder: Path, *, wrong: bool = False) -> tuple[RunContext, Decision]:
    """Return a run whose winner is its source, with recorded outputs that may be wrong."""
    winner, store = write_linear(folder / "linear"), Store(folder / "store")
    attributes = Manifest.read(winner / "artifact" / "artifact.json").attributes
    (winner / "artifact" / "artifact.json").unlink()
    sealed = store.seal(winner / "artifact", **attributes)
    golden = winner / "evidence" / "golden.json"
    if wrong:
        rows = json.loads(golden.read_text())
        rows["outputs"]["y"]["data"] = rows["inputs"]["x"]["data"][: len(rows["outputs"]["y"]["data"])]
        golden.write_text(json.dumps(rows))
    (winner / "evidence" / "evidence.json").unlink()
    store.store_tree("golden", winner / "evidence")
    run = RunFolder(root=folder / "runs", run_id="1", project=folder)
    recipe = read_recipe({"model": {"uri": VERSION.uri}, "serving": True})
    samples = Samples.model_construct()  # not looked at
    context = RunContext(recipe=recipe, source=sealed, samples=samples, store=store, run=run)
    return context, decide(sealed, "golden")


def seal_exported(context: RunContext, folder: Path) -> Artifact:
    """Return the same model as a program that PyTorch has exported, sealed in the store of a run."""
    import torch

    class Linear(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x @ torch.from_numpy(make_weights()))

    rows = torch.export.Dim("batch", min=1, max=4096)
    program = torch.export.export(Linear(), (torch.zeros(2, 4),), dynamic_shapes=({0: rows},))
    folder.mkdir()
    torch.export.save(program, folder / "model.pt2")
    known = context.source
    return context.store.seal(
        folder, format="pytorch", inputs=known.inputs, outputs=known.outputs, runtime="pytorch", metadata=known.metadata
    )


def decide(artifact: Artifact | None, golden: str | None) -> Decision:
    return Decision(
        verdict=Verdict.PASS, reasons=(), winner=artifact and "onnx.session", artifact=artifact, golden=golden
    )


def test_both_are_measured_from_the_store(server_environment, tmp_path: Path) -> None:
    context, decision = prepare(tmp_path)
    found = measure_wire(context=context, decision=decision, version=VERSION, effort=FEW)
    assert found.reason == ""
    assert found.comparison is not None
    assert (found.comparison.winner, found.comparison.baseline) == ("onnx.session", "models:/linear/1")
    assert [cell.clients for cell in found.comparison.cells] == [1]


def test_a_winner_with_wrong_answers_ends_the_run(server_environment, tmp_path: Path) -> None:
    context, decision = prepare(tmp_path, wrong=True)
    with pytest.raises(HoneError) as wrong:
        measure_wire(context=context, decision=decision, version=VERSION, effort=FEW)
    assert wrong.value.slug == "winner-differs"


@pytest.mark.parametrize(("artifact", "golden", "why"), [(False, False, "no winner"), (True, False, "no golden rows")])
def test_a_run_goes_on_where_there_is_nothing_to_serve(artifact: bool, golden: bool, why: str, tmp_path: Path) -> None:
    context, decision = prepare(tmp_path)
    decision = decide(decision.artifact if artifact else None, "golden" if golden else None)
    assert why in measure_wire(context=context, decision=decision, version=VERSION, effort=FEW).reason


def test_a_run_goes_on_when_the_measurement_fails(server_environment, tmp_path: Path) -> None:
    context, decision = prepare(tmp_path)
    once = replace(FEW, launches=1)  # which has no interval: an error that is not one of ours
    found = measure_wire(context=context, decision=decision, version=VERSION, effort=once)
    assert found.comparison is None
    assert "The measurement failed: ValueError" in found.reason


@pytest.mark.nightly
def test_a_source_of_pytorch_is_served_with_its_toolchains_packages(server_environment, tmp_path: Path) -> None:
    context, decision = prepare(tmp_path)
    context = replace(context, source=seal_exported(context, tmp_path / "exported"))
    refused = measure_wire(context=context, decision=decision, version=VERSION, effort=FEW)
    assert "is not trusted" in refused.reason
    trusting = context.recipe.model_copy(update={"trust": frozenset({"native"})})
    found = measure_wire(context=replace(context, recipe=trusting), decision=decision, version=VERSION, effort=FEW)
    assert found.comparison is not None, found.reason
    assert found.comparison.baseline_runs_in == "pytorch (pytorch)"
