from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.samples import Samples, Split, TrackedFile
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.prepare import cut_shapes, describe_free_sizes, divide
from kedro_hone.programs import call_program
from kedro_hone.recipe.schema import read_recipe

SPEC = TensorSpec(name="ids", dtype="int64", shape=("rows", "length"))
SOURCE = Artifact(format="onnx", digest="sha256:0", inputs=(SPEC,), outputs=())


def cut(folder, sizes):
    np.savez(folder / "feeds.npz", ids=np.arange(24).reshape(3, 8))
    recipe = read_recipe({"model": {"uri": "m"}, "program": {"name": "fidelity"}, "shapes": {"one": sizes}})
    cut_shapes(folder / "feeds.npz", SOURCE, recipe, folder)
    with np.load(folder / "shapes" / "one.npz") as found:
        return found["ids"]


def test_a_shape_is_the_first_rows_cut_to_its_sizes(tmp_path):
    assert cut(tmp_path, {"batch": 2, "length": 3}).tolist() == [[0, 1, 2], [8, 9, 10]]


def test_rows_are_repeated_where_they_do_not_suffice(tmp_path):
    assert cut(tmp_path, {"batch": 5})[:, 0].tolist() == [0, 8, 16, 0, 8]


def test_a_size_that_the_model_does_not_have_is_refused(tmp_path):
    with pytest.raises(HoneError) as caught:
        cut(tmp_path, {"batch": 1, "lenght": 3})
    assert caught.value.slug == "recipe-invalid"
    assert "'lenght'" in caught.value.what
    assert "length" in caught.value.why


def test_data_are_cut_and_never_stretched(tmp_path):
    with pytest.raises(HoneError) as caught:
        cut(tmp_path, {"batch": 1, "length": 9})
    assert caught.value.slug == "data-unreadable"


def test_a_batch_that_no_memory_holds_is_the_recipes_problem(tmp_path):
    np.savez(tmp_path / "feeds.npz", ids=np.zeros((1, 2**20), np.int64))
    spec = TensorSpec(name="ids", dtype="int64", shape=("rows", 2**20))
    source = SOURCE.model_copy(update={"inputs": (spec,)})
    recipe = read_recipe({"model": {"uri": "m"}, "shapes": {"one": {"batch": 2**22}}})  # 32 TiB
    with pytest.raises(HoneError, match="'one'") as caught:
        cut_shapes(tmp_path / "feeds.npz", source, recipe, tmp_path)
    assert caught.value.slug == "recipe-invalid"
    assert "batch of 4,194,304 rows" in caught.value.why


@pytest.mark.parametrize(
    ("shape", "sizes", "said"),
    [
        (("rows", "length"), {"batch": 1}, "`shapes: {one: {batch: 1, length: 8}}`"),
        (("rows", "length"), {"batch": 1, "length": 3}, None),
        (("rows", 8), {"batch": 1}, None),
    ],
)
def test_a_shape_that_leaves_sizes_free_is_named_with_what_to_write(tmp_path, shape, sizes, said):
    np.savez(tmp_path / "feeds.npz", ids=np.arange(24).reshape(3, 8))
    source = SOURCE.model_copy(update={"inputs": (SPEC.model_copy(update={"shape": shape}),)})
    recipe = read_recipe({"model": {"uri": "m"}, "program": {"name": "fidelity"}, "shapes": {"one": sizes}})

    warnings = describe_free_sizes(tmp_path / "feeds.npz", source, recipe)

    assert len(warnings) == (said is not None)
    assert all(said in warning and "'one' leaves length free" in warning for warning in warnings)
    texts = source.model_copy(update={"metadata": {"transformers": {}}})
    assert describe_free_sizes(tmp_path / "feeds.npz", texts, recipe) == []


def test_slices_have_a_key_of_their_own_and_are_divided_once(tmp_path, monkeypatch):
    """Another column changes nothing that was built: the digest of the samples stays."""
    np.savez(tmp_path / "gate.npz", ids=np.zeros((6, 2)), site=np.array(["a", "b", "b"] * 2), day=np.arange(6))
    gate = TrackedFile(path=str(tmp_path / "gate.npz"), source="gate.npz", sha256=f"sha256:{'0' * 64}")
    split = Split(name="gate", n=6, path="gate.npz", md5="0", rev="")
    samples = Samples(
        digest=f"sha256:{'1' * 64}", splits={"gate": split}, shapes={}, program="p", program_digest="sha256:0"
    )
    store, run = Store(tmp_path / "store"), RunFolder(root=tmp_path / "run", run_id="r", project=tmp_path)
    called = []

    def call(function, **given):
        called.append(given["job"]["by"])
        return call_program(function, **given)

    monkeypatch.setattr("kedro_hone.nodes.prepare.call_program", call)

    def divide_by(by):
        gates = {"slices": {"by": by, "drop": 0.9}} if by else {}
        recipe = read_recipe({"model": {"uri": "m"}, "program": {"name": "fidelity"}, "gates": gates})
        return divide(samples, recipe, store, run, gate=gate)

    assert divide_by(None) is samples
    first, again, other = divide_by("site"), divide_by("site"), divide_by("day")
    assert called == ["site", "day"]
    assert first == again
    assert first.identity == other.identity == samples.identity
    assert [(one.name, one.n) for one in first.slices.sizes] == [("a", 2), ("b", 4)]
    with np.load(store.locate_tree(first.slices.digest) / first.slices.codes) as found:
        assert found["codes"].tolist() == [0, 1, 1, 0, 1, 1]
