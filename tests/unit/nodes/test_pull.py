from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes import pull
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.search.sources import jobs as source_jobs
from kedro_hone.search.sources import sealed_files

SAID = [{"name": "image", "dtype": "float32", "shape": ["batch", 4]}]


@pytest.mark.parametrize(("found", "named"), [([], "image"), ([{**SAID[0], "name": "pixels"}], "pixels")])
def test_inputs_of_the_recipe_fill_in_for_those_that_the_runtime_does_not_know(tmp_path, monkeypatch, found, named):
    (tmp_path / "model.onnx").write_bytes(b"model")
    monkeypatch.setattr(
        sealed_files, "_describe", lambda *_: {"inputs": found, "outputs": []}
    )  # as a runtime of others' may
    store = Store(tmp_path / "store")
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    model = {"uri": str(tmp_path / "model.onnx"), "inputs": SAID}
    recipe = read_recipe({"model": model, "program": {"name": "fidelity"}})
    artifact = pull.pull(recipe, store, run)[1]
    assert [spec.name for spec in artifact.inputs] == [named]


def test_a_range_that_does_not_fit_an_input_is_refused_at_the_pull(tmp_path, monkeypatch):
    (tmp_path / "model.onnx").write_bytes(b"model")
    monkeypatch.setattr(sealed_files, "_describe", lambda *_: {"inputs": SAID, "outputs": []})
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    model = {"uri": str(tmp_path / "model.onnx"), "ranges": {"image": (0, 1e39)}}
    with pytest.raises(HoneError, match="1e\\+39") as caught:
        pull.pull(read_recipe({"model": model}), Store(tmp_path / "store"), run)
    assert caught.value.slug == "recipe-invalid"


def test_a_source_whose_toolchain_cannot_be_built_says_so(tmp_path, monkeypatch):
    (tmp_path / "model.onnx").write_bytes(b"model")
    failed = Failed(by="onnxruntime", failure=FailureClass.INSTALL, reason="no network", log="install.log")
    monkeypatch.setattr(source_jobs, "find_environment", lambda *_: failed)
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    recipe = read_recipe({"model": {"uri": str(tmp_path / "model.onnx")}, "program": {"name": "fidelity"}})
    with pytest.raises(HoneError) as caught:
        pull.pull(recipe, Store(tmp_path / "store"), run)
    assert caught.value.slug == "toolchain-unbuildable"


@pytest.mark.parametrize(("toolchains", "warned"), [(["onnxruntime", "compress"], True), (["onnxruntime"], False)])
def test_a_named_toolchain_that_takes_part_in_no_route_is_a_warning(tmp_path, monkeypatch, caplog, toolchains, warned):
    (tmp_path / "model.onnx").write_bytes(b"model")
    monkeypatch.setattr(sealed_files, "_describe", lambda *_: {"inputs": SAID, "outputs": []})
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    recipe = read_recipe({"model": {"uri": str(tmp_path / "model.onnx")}, "toolchains": toolchains})
    with caplog.at_level("WARNING"):
        pull.pull(recipe, Store(tmp_path / "store"), run)
    assert ("The toolchain compress takes part in no route" in caplog.text) is warned
