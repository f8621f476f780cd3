"""Winners that do not compute here what they computed where they were measured: real ONNX models in ONNX Runtime."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
from mlflow_store import make_winner, onnx_model
from proof import reseal

import kedro_hone
from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.host import Host
from hone_runtime.errors import HoneError
from hone_runtime.learner.golden import Golden, make_golden
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.learner.pyfunc import _load_pyfunc
from hone_runtime.values.artifact import Artifact
from kedro_hone.sources.openers import write_source

__all__ = ["make_winner", "onnx_model"]
pytestmark = pytest.mark.toolchain

X = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
Y = X @ WEIGHTS
SOURCE = Artifact(format="onnx", digest="", inputs=(), outputs=())
ELSEWHERE = Host(
    flags=frozenset({"mmx", "hal9000"}), cores=2, gpu=None, compilers=frozenset(), fingerprint="sha256:e", cpu="HAL"
)


@pytest.fixture
def publish(tmp_path, onnx_model, make_winner):
    """Return a function that publishes a winner with golden outputs; its source has other weights, to be told apart."""
    import onnx
    from onnx import numpy_helper

    def publish(outputs=Y, *, host=None, source="source", digest=None, rows=1, **sealed):
        winner = make_winner(**sealed)
        place = tmp_path / "version"
        shutil.copytree(tmp_path / "sealed", place / "artifact")
        write_manifest(place / "artifact", winner)
        twice = onnx.ModelProto.FromString(onnx_model.SerializeToString())
        twice.graph.initializer[0].CopyFrom(numpy_helper.from_array(2 * WEIGHTS, "w"))
        (tmp_path / "source").mkdir()
        onnx.save(twice, tmp_path / "source" / "model.onnx")
        sealed_source = winner.model_copy(update={"metadata": {"threads": 1, "source": "onnx"}})
        due = digest or write_source(tmp_path / "source", tmp_path / "files", sealed_source.manifest()).digest
        (place / "evidence").mkdir()
        claim = {"source": {"uri": str(tmp_path / source), "digest": due}}
        (place / "evidence" / "evidence.json").write_text(json.dumps(claim))
        golden = make_golden(
            {"x": X}, {"y": outputs}, rows=rows, largest_error=1e-4, source=sealed_source, host=host or read_host()
        )
        (place / "evidence" / "golden.json").write_text(golden.model_dump_json())
        return place

    return publish


@pytest.mark.parametrize("host", [None, ELSEWHERE])
def test_outputs_that_agree_are_silent_on_any_machine(publish, host):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = kedro_hone.load(publish(host=host, rows=3))
    np.testing.assert_allclose(learner(X), Y, rtol=1e-5)
    assert (learner.fallback_reason, learner.source_uri) == (None, None)


def test_where_they_differ_the_source_takes_the_winners_place_and_says_why(publish, tmp_path):
    place = publish(Y + 1, host=ELSEWHERE)
    with pytest.warns(RuntimeWarning, match="its source is loaded") as caught:
        learner = kedro_hone.load(place)
    np.testing.assert_allclose(learner(X), 2 * Y, rtol=1e-5)
    np.testing.assert_allclose(learner({"x": X})["y"], 2 * Y, rtol=1e-5)
    said = str(caught[0].message)
    assert "Its output y differs by" in said
    assert "0.001 is allowed" in said
    assert f"It was measured on another machine: HAL, and this is {read_host().cpu}" in said
    assert caught[0].filename == __file__
    assert learner.source_uri == str(tmp_path / "source")
    assert "differs by" in learner.fallback_reason
    files = learner.files
    assert files.is_dir()
    del learner
    assert not files.exists()


def test_tensors_go_in_and_out_of_the_source_too(publish):
    torch = pytest.importorskip("torch")
    with pytest.warns(RuntimeWarning, match="differs by"):
        learner = kedro_hone.load(publish(Y + 1), interface="pytorch")
    np.testing.assert_allclose(learner(torch.from_numpy(X)).numpy(), 2 * Y, rtol=1e-5)


@pytest.mark.parametrize(
    "asked", [{"interface": "bogus"}, {"interface": "sklearn"}, {"threads": 0}, {"threads": "2"}, {"skip_padding": "x"}]
)
def test_an_argument_that_does_not_fit_says_nothing_about_the_winner(publish, asked):
    with pytest.raises(ValueError, match=r"interface|threads|skip_padding") as caught:
        kedro_hone.load(publish(), **asked)
    assert not isinstance(caught.value, HoneError)


def test_a_warning_is_enough_where_it_is_asked_for(publish):
    with pytest.warns(RuntimeWarning, match="Its output y differs by"):
        learner = kedro_hone.load(publish(Y + 1), on_mismatch="warn")
    np.testing.assert_allclose(learner(X), Y, rtol=1e-5)
    assert learner.fallback_reason is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"on_mismatch": "refuse"}, "Its output y differs by"),
        ({}, "Its source cannot take its place: HoneError: .*is not there|Its source cannot take its place: .*nowhere"),
    ],
)
def test_an_error_says_why_there_is_no_model(publish, options, why):
    place = publish(Y + 1, **({} if options else {"source": "nowhere"}))
    with pytest.raises(HoneError, match=why) as caught:
        kedro_hone.load(place, **options)
    assert caught.value.slug == "winner-differs"


def test_a_source_that_a_run_merged_cannot_take_the_winners_place_and_is_named(publish):
    place = publish(Y + 1)
    path = place / "evidence" / "evidence.json"
    claim = json.loads(path.read_text())
    claim["source"]["base"] = "models:/base/3"
    path.write_text(json.dumps(claim))
    with pytest.raises(HoneError, match="adapter that only a run merges into models:/base/3") as caught:
        kedro_hone.load(place)
    assert caught.value.slug == "winner-differs"
    with pytest.warns(RuntimeWarning, match="differs by"):
        kedro_hone.load(place, on_mismatch="warn")


def test_a_source_that_becomes_code_takes_the_winners_place_only_where_it_may_run(publish, tmp_path):
    torch = pytest.importorskip("torch")
    place = publish(Y + 1)
    twice = torch.nn.Linear(4, 3, bias=False)
    twice.weight.data = torch.from_numpy(2 * WEIGHTS.T.copy())
    shutil.rmtree(tmp_path / "source")
    (tmp_path / "source").mkdir()
    dynamic = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(twice, (torch.ones(2, 4),), dynamic_shapes=dynamic)
    torch.export.save(program, tmp_path / "source" / "model.pt2")
    golden = json.loads((place / "evidence" / "golden.json").read_text())
    golden["source"] |= {"format": "pytorch", "runtime": "pytorch", "metadata": {"threads": 1, "source": "pytorch"}}
    made = write_source(tmp_path / "source", tmp_path / "again", golden["source"])
    (place / "evidence" / "golden.json").write_text(json.dumps(golden))
    claim = {"source": {"uri": str(tmp_path / "source"), "digest": made.digest}}
    (place / "evidence" / "evidence.json").write_text(json.dumps(claim))
    with pytest.raises(HoneError, match=r"cannot take its place: .*The model is code \(pytorch\)") as caught:
        kedro_hone.load(place)
    assert caught.value.slug == "winner-differs"
    with pytest.warns(RuntimeWarning, match="its source is loaded"):
        learner = kedro_hone.load(place, trust=["native"])
    np.testing.assert_allclose(learner.run({"x": X})["y"], 2 * Y, rtol=1e-5)


def test_a_source_that_was_changed_since_takes_no_place(publish):
    with pytest.raises(HoneError, match="is not what was optimized: its digest is sha256:") as caught:
        kedro_hone.load(publish(Y + 1, digest="sha256:0"))
    assert caught.value.slug == "winner-differs"


def test_a_winner_that_does_not_run_here_is_one_that_differs(publish):
    place = publish()
    (place / "artifact" / "model.onnx").write_bytes(b"damaged on purpose, and sealed again")
    reseal(place / "artifact")
    with pytest.warns(RuntimeWarning, match="It does not run here: .*model.onnx cannot be read"):
        learner = kedro_hone.load(place)
    np.testing.assert_allclose(learner(X), 2 * Y, rtol=1e-5)


def test_a_version_without_golden_rows_loads_as_ever(publish):
    place = publish(Y + 1)
    (place / "evidence" / "golden.json").unlink()
    np.testing.assert_allclose(kedro_hone.load(place)(X), Y, rtol=1e-5)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"inputs": {"x": {"dtype": "O", "shape": [1], "data": ""}}}'])
def test_golden_rows_that_cannot_be_read_are_an_error(publish, text):
    place = publish()
    (place / "evidence" / "golden.json").write_text(text)
    with pytest.raises(HoneError, match="golden rows of version cannot be read") as caught:
        kedro_hone.load(place)
    assert caught.value.slug == "model-corrupt"


def test_an_answer_to_a_mismatch_is_one_of_three(publish):
    with pytest.raises(ValueError, match="on_mismatch is fallback, warn or refuse, and not 'ask'"):
        kedro_hone.load(publish(), on_mismatch="ask")


def test_it_is_checked_in_mlflows_pyfunc_too(publish):
    place = publish(Y + 1)
    with pytest.warns(RuntimeWarning, match="its source is loaded"):
        model = _load_pyfunc(str(place / "artifact"))
    np.testing.assert_allclose(model.predict({"x": X}), 2 * Y, rtol=1e-5)


TEXT = np.array([["a", "bc"], ["d", "e"]])
PAIRS = [
    (np.array([[1.0, -2.0]], np.float32), np.array([[1.0, -2.001]], np.float32), ""),
    (np.array([[1.0, -2.0]], np.float32), np.array([[1.0, -2.1]], np.float32), "differs by 0.05 of"),
    (np.array([[np.nan, np.inf]]), np.array([[np.nan, np.inf]]), ""),
    (np.array([[1.0, 2.0]]), np.array([[np.nan, 2.0]]), "has different numbers that are not finite"),
    (np.array([[1, 2]]), np.array([[1, 2]]), ""),
    (np.array([[1, 2]]), np.array([[1, 3]]), "has a different whole number"),
    (np.array([20240101]), np.array([20240102]), "has a different whole number"),  # two classes, with one step between
    (np.array([[200, 255]], np.uint8), np.array([[199, 255]], np.uint8), ""),  # as pixels may
    (np.array([[200, 255]], np.uint8), np.array([[198, 255]], np.uint8), "differs by 0.0078 of"),
    (np.array([[-1e9, 1.0, -2.0]]), np.array([[-1e9, -1.0, 2.0]]), "differs by 2 of"),
    (np.array([[-1e9, 1.0, -2.0]]), np.array([[-1e9, 1.0, -2.0]]), ""),
    (np.array([[-1e9, 1.0, -2.0]]), np.array([[-2.0, 1.0, -2.0]]), "differs by"),
    (np.array([[True]]), np.array([[False]]), "differs by 1 of"),
    (TEXT[:1], TEXT[:1].astype(object), ""),
    (TEXT[:1], TEXT[1:], "is a different text"),
    (np.zeros((1, 2)), np.zeros((1, 3)), "has the shape (1, 3) instead of (1, 2)"),
]


@pytest.mark.parametrize(("due", "found", "difference"), PAIRS)
def test_outputs_are_compared_relative_to_the_largest(due, found, difference):
    golden = make_golden({"x": X[:1]}, {"y": due}, rows=1, largest_error=0.0, source=SOURCE, host=ELSEWHERE)
    golden = Golden.model_validate_json(golden.model_dump_json())
    said = golden.find_difference(
        lambda feeds: {"y": found} if np.array_equal(feeds["x"], X[:1]) else {}, host=read_host()
    )
    assert said.startswith("its output y ") == bool(difference)
    if difference:
        assert difference in said


def test_few_rows_are_kept_and_none_of_what_is_too_large():
    many = np.zeros((10, 1 << 18), np.float32)  # a mebibyte each
    kept = make_golden(
        {"x": many},
        {"y": many[:, :2], "table": np.zeros((3, 3))},
        rows=9,
        largest_error=0.1,
        source=SOURCE,
        host=ELSEWHERE,
    )
    assert (kept.inputs["x"].shape, kept.outputs["y"].shape) == ((3, 1 << 18), (3, 2))
    assert kept.outputs.keys() == {"y"}
    assert kept.tolerance == 0.2
    few = {"rows": 0, "largest_error": 0.1, "source": SOURCE, "host": ELSEWHERE}
    assert make_golden({"x": X}, {"y": Y}, **few) is None
    assert make_golden({"x": X}, {"y": Y.astype(complex)}, **few | {"rows": 2}) is None
    assert make_golden({"x": np.tile(many, (1, 5))}, {"y": Y}, **few | {"rows": 2}) is None


@pytest.mark.parametrize("lost", [0.0, 0.5])
def test_scores_that_are_constant_next_to_boxes_are_found_however_lossy_the_winner_is(lost):
    """Their largest difference is 1 of 320: within the bound for another machine, and all scores are gone."""
    random = np.random.default_rng(0)
    due = np.concatenate([random.uniform(0, 320, (1, 4, 50)), random.uniform(0, 1, (1, 3, 50))], axis=1)
    golden = make_golden({"x": X[:1]}, {"y": due}, rows=1, largest_error=0.2, source=SOURCE, host=ELSEWHERE)
    assert golden.find_difference(lambda _: {"y": due * 1.01}, host=read_host()) == ""
    found = due.copy()
    found[:, 4:] = lost
    said = golden.find_difference(lambda _: {"y": found}, host=read_host())
    assert said.startswith("its output y differs at [:, 4] by ")
