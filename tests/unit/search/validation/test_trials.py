"""Which rows a candidate is validated on, in which batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hone_runtime.values.artifact import Shape
from hone_runtime.values.samples import Reference
from kedro_hone.search.validation.trials import plan_trials

SHAPES = {"small": {"batch": 1, "length": 40}, "large": {"batch": 32, "length": 72}}


@pytest.mark.parametrize(("static", "batches"), [(True, [32]), (False, [1, 32, 7])])
def test_a_compiled_candidate_gets_uncut_rows_only_in_the_batches_of_shapes_that_do_not_cut_them(
    context, tmp_path, monkeypatch, static, batches
):
    monkeypatch.setattr(type(context.store), "locate_tree", lambda *_: tmp_path)
    monkeypatch.setattr(type(context), "locate", lambda *_: tmp_path / "whole.npz")
    context = replace(context, recipe=context.recipe.model_copy(update={"shapes": SHAPES}))
    splits = {"search": context.samples.splits["calibration"]}
    context = replace(context, samples=context.samples.model_copy(update={"splits": splits}))
    shapes = tuple(Shape(name=name, sizes=sizes) for name, sizes in SHAPES.items()) if static else ()
    artifact = context.source.model_copy(update={"static_shapes": shapes})
    reference = Reference(
        outputs="whole.npz", cropped={"small": "small.npz"}, digest="sha256:0", metric="m", value=1, kind="mean", n=1,
        cold_start_ms=1, peak_memory_bytes=1,
    )  # fmt: skip
    trials = plan_trials(artifact, reference, {"small": tmp_path / "cut.npz"}, context, folder=tmp_path)
    assert [trial.batch for trial in trials if trial.reference.name == reference.outputs] == batches
    assert [trial.batch for trial in trials if trial.reference.name == "small.npz"] == [1]
