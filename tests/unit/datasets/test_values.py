"""Values in JSON files."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
from kedro.io import DataCatalog, DatasetError

from hone_runtime.values.artifact import Artifact, TensorSpec
from hone_runtime.values.measurement import Interval
from hone_runtime.values.outcome import Failed, FailureClass, Refused
from kedro_hone.datasets import ValueDataset

OUTCOME = "hone_runtime.values.outcome:OUTCOME"
TENSOR = TensorSpec(name="x", dtype="float32", shape=("batch", 3))


@pytest.mark.parametrize(
    "outcome",
    [
        Artifact(format="onnx", digest="sha256:0", inputs=(TENSOR,), outputs=(TENSOR,)),
        Refused(by="a.b", reason="no weights à quantifier"),
        Failed(by="a.b", failure=FailureClass.TIME_OUT, reason="600 s"),
    ],
)
def test_an_outcome_comes_back_as_it_was(tmp_path, outcome):
    dataset = ValueDataset(filepath=str(tmp_path / "deep" / "outcome.json"), model=OUTCOME)
    assert not dataset.exists()
    dataset.save(outcome)
    assert dataset.exists()
    assert dataset.load() == outcome
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["outcome.json"]


def test_a_model_and_infinities(tmp_path):
    dataset = ValueDataset(filepath=str(tmp_path / "i.json"), model="hone_runtime.values.measurement:Interval")
    value = Interval(estimate=1.0, low=float("-inf"), high=float("inf"))
    dataset.save(value)
    assert dataset.load() == value


def test_a_missing_file(tmp_path):
    with pytest.raises(DatasetError, match="has not run yet"):
        ValueDataset(filepath=str(tmp_path / "none.json"), model=OUTCOME).load()


@pytest.mark.parametrize("text", ["", "{}", '{"kind": "refused"}', '{"kind": "other", "by": "a", "reason": "b"}'])
def test_a_file_with_something_else(tmp_path, text):
    (tmp_path / "v.json").write_text(text)
    with pytest.raises(DatasetError, match="does not contain"):
        ValueDataset(filepath=str(tmp_path / "v.json"), model=OUTCOME).load()


def test_something_else_is_not_saved_and_the_old_value_stays(tmp_path):
    dataset = ValueDataset(filepath=str(tmp_path / "v.json"), model=OUTCOME)
    refused = Refused(by="a.b", reason="r")
    dataset.save(refused)
    with pytest.raises(DatasetError, match="is not a"):
        dataset.save("text")
    assert dataset.load() == refused


@pytest.mark.parametrize("model", ["kedro_hone.nothing:X", "hone_runtime.values.base:NOTHING"])
def test_a_model_that_cannot_be_imported(tmp_path, model):
    (tmp_path / "v.json").write_text("{}")
    with pytest.raises(DatasetError, match="cannot be imported"):
        ValueDataset(filepath=str(tmp_path / "v.json"), model=model).load()


def test_it_travels_to_a_spawned_process(tmp_path):
    dataset = ValueDataset(filepath=str(tmp_path / "v.json"), model=OUTCOME)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(dataset.save, Refused(by="a.b", reason="r")).result()
    assert dataset.load() == Refused(by="a.b", reason="r")


def test_it_serves_as_a_pattern_of_the_catalog(tmp_path):
    catalog = DataCatalog.from_config(
        {
            "{name}.artifact": {
                "type": "kedro_hone.datasets.ValueDataset",
                "filepath": f"{tmp_path}/{{name}}.json",
                "model": OUTCOME,
            }
        }
    )
    catalog.save("route.artifact", Refused(by="a.b", reason="r"))
    assert catalog.load("route.artifact").reason == "r"
    assert (tmp_path / "route.json").exists()
