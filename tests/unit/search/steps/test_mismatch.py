"""Adaptors that train are only tried where labels judge their results, and what they make is noted as trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toolchains.toy import adaptor as toy

from hone_runtime.values.artifact import Stage
from hone_runtime.values.samples import Split
from kedro_hone.search.steps.mismatch import find_mismatch
from kedro_hone.search.steps.step import transform

TRAINING = replace(toy.COMPRESS, trains=True)


@pytest.mark.parametrize(
    ("adaptor", "labelled", "refused"), [(TRAINING, False, True), (TRAINING, True, False), (toy.COMPRESS, False, False)]
)
def test_without_labels_no_adaptor_trains(context, adaptor, labelled, refused):
    found = find_mismatch(adaptor, context.source, None, context.recipe, labelled=labelled)
    assert (found is not None) is refused
    if found is not None:
        assert found.slug == "labels"
        assert "fidelity only compares with the source's outputs" in found.reason
        assert "hone.program.name" in found.reason


def test_only_a_compressor_trains():
    with pytest.raises(ValueError, match="only a compressor trains"):
        replace(toy.COMPILE, trains=True)
    assert TRAINING.stage is Stage.COMPRESS


def store_targets(context, tmp_path, name):
    folder = tmp_path / "samples"
    (folder / "search").mkdir(parents=True)
    np.savez(folder / "search" / "targets.npz", **{name: np.zeros(3)})
    context.store.store_tree(context.samples.digest, folder)
    split = Split(name="search", n=3, path="p", md5="m", rev="r")
    splits = {**context.samples.splits, "search": split}
    return replace(context, samples=context.samples.model_copy(update={"splits": splits}))


def test_a_result_and_all_that_is_made_from_it_are_noted_as_trained(context, tmp_path):
    context = store_targets(context, tmp_path, "target")
    tuned = transform(TRAINING, toy.ToyOptions(), context.source, context, reference=None)
    compiled = transform(toy.COMPILE, toy.COMPILE.options(), tuned, context, reference=None)
    plain = transform(toy.COMPILE, toy.COMPILE.options(), context.source, context, reference=None)
    noted = {TRAINING.name: {}}
    assert [one.metadata.get("trained") for one in (tuned, compiled, plain)] == [noted, noted, None]


def test_it_is_refused_before_anything_is_built(context, tmp_path):
    context = store_targets(context, tmp_path, "unlabelled_x")
    refused = transform(TRAINING, toy.ToyOptions(), context.source, context, reference=None)
    assert (refused.kind, refused.slug) == ("refused", "labels")
    assert not context.run.folder.exists() or not list((context.run.folder / "steps").glob("*"))
