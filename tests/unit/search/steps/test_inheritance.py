from __future__ import annotations

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact
from kedro_hone.search.steps.inheritance import inherit_metadata

PARENT = Artifact(format="pytorch", digest="sha256:1", inputs=(), outputs=())


def inherit(name, parent=PARENT, noted=None, machine=None):
    return inherit_metadata(read_catalogue().find_adaptor(name), parent, noted or {}, machine=machine or {})


def test_what_was_trained_stays_trained_whatever_a_worker_notes():
    noted = {"training": {"epochs": 3}, "trained": {"nobody": {}}, "pruned": 1}
    made = inherit("compress.prune-channels", noted=noted)
    assert made == {"trained": {"compress.prune-channels": {"epochs": 3}}, "pruned": 1}
    parent = PARENT.model_copy(update={"metadata": {**made, "graph": "x"}})
    assert inherit("pytorch.onnx", parent, {"trained": {}}) == {"trained": made["trained"]}
    chained = inherit("compress.low-rank", parent, {"training": {"epochs": 1}})
    assert chained["trained"] == {**made["trained"], "compress.low-rank": {"epochs": 1}}


def test_one_that_notes_nothing_is_trained_all_the_same():
    assert inherit("compress.distil") == {"trained": {"compress.distil": {}}}


def test_options_of_the_machine_are_those_of_the_whole_route():
    first = inherit("onnxruntime.int8-static", machine={"reduce_range": True})
    parent = PARENT.model_copy(update={"metadata": first})
    assert inherit("onnxruntime.session", parent, machine={"x": 1})["machine_options"] == {
        "onnxruntime.int8-static": {"reduce_range": True},
        "onnxruntime.session": {"x": 1},
    }
