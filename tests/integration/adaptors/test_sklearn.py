"""Estimators of scikit-learn, XGBoost and LightGBM, in an environment of their own: run, described and converted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import make_once

from hone_runtime.errors import HoneError
from kedro_hone.adaptors.onnxruntime import adaptor as onnxruntime
from kedro_hone.adaptors.sklearn import adaptor as module
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.files import write_files

pytestmark = [pytest.mark.toolchain, pytest.mark.large]

TESTS = Path(__file__).parents[2]
PICKLE = frozenset({"pickle"})
CONVERTED = (
    *("forest", "forest-skops", "logistic", "frame", "mixed", "histograms", "boosted", "lightgbm", "xgboost"),
    *("xgboost-json", "xgboost-regressor", "stopped", "empty"),
)
REFUSED = {
    "splines": "splinetransformer",
    "author": "halve",
    "booster": "bare booster",
    "indicators": "add_indicator) of the step 'simpleimputer'",
}


@pytest.fixture(scope="session")
def python(environments) -> Path:
    environment = environments.ensure(module.TOOLCHAIN)
    assert environment.versions["scikit-learn"].startswith("1.9."), environment
    return Path(environment.python)


@pytest.fixture(scope="session")
def models(shared, python) -> Path:
    """Every model of ``estimators.MODELS`` as MLflow writes it, with rows and what the author is told of them."""
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")

    def make(folder: Path) -> None:
        command = [sys.executable, "-W", "ignore", str(TESTS / "estimators.py"), str(packages), str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return make_once(shared / "estimators", make)


@pytest.fixture
def bench(make_bench, python):
    bench = make_bench(module)
    bench.python = python
    return bench


@pytest.fixture
def runtime(make_bench, tmp_path):
    bench = make_bench(onnxruntime)
    bench.scratch = tmp_path / "onnxruntime"
    return bench


@pytest.fixture
def seal(models, tmp_path):
    """Return a function that writes a model as the source artifact that it becomes, with what is known of it."""

    def seal(name: str, trust: frozenset[str] = PICKLE):
        flavor = read_flavor(models / name, trust=trust)
        folder = tmp_path / "sealed" / name
        write_files(flavor, models / name, folder)
        specs = [spec.model_dump(mode="json") for spec in flavor.inputs]
        return folder, {"inputs": specs, "outputs": []}

    return seal


def read(models: Path, name: str, specs) -> tuple[dict, dict]:
    """Return the rows of a model as its inputs, and what its author was told."""
    with np.load(models / f"{name}-rows.npz") as rows, np.load(models / f"{name}-told.npz", allow_pickle=True) as told:
        if len(specs) == 1:
            table = rows["X"] if "X" in rows else np.stack([rows[key] for key in rows.files], axis=1)
            feeds = {specs[0]["name"]: table.astype(specs[0]["dtype"])}
        else:
            feeds = {spec["name"]: rows[spec["name"]].reshape(-1, 1) for spec in specs}
        return feeds, dict(told)


def save_rows(folder: Path, feeds) -> Path:
    """Write calibration rows as the host hands them over, and return their file."""
    np.savez(folder / "calibration.npz", **feeds)
    return folder / "calibration.npz"


def run_onnx(path: Path, feeds):
    """Run ``model.onnx`` here: text comes as objects, which the bench does not write."""
    import onnxruntime as ort

    session = ort.InferenceSession(path / "model.onnx", providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds), strict=True))


def check(found, told) -> None:
    """Labels and numbers are equal, but for rounding to fp32: of a hundred rows, one may go another way in a tree."""
    for name, want in told.items():
        if name == "label":
            same = found["label"].astype(str) == want.astype(str)
        else:
            got, limit = found[name].reshape(want.shape), 1e-4 * float(np.abs(want).max())
            same = np.isclose(got, want, rtol=1e-4, atol=limit).reshape(len(want), -1).all(axis=1)
        assert np.mean(same) >= 0.99, (name, np.flatnonzero(~same))


@pytest.mark.parametrize("name", [*CONVERTED, "booster", "splines", "author"])
def test_an_estimator_runs_as_its_author_calls_it(bench, seal, models, name):
    folder, stated = seal(name)
    described, _ = bench.call("describe", folder, "sklearn", described=stated, trust=["pickle"])
    feeds, told = read(models, name, described["inputs"])
    (found,) = bench.run(folder, "sklearn", [feeds], described=described, trust=["pickle"])
    assert [spec["name"] for spec in described["outputs"]] == list(found)
    for spec in described["outputs"]:
        array = found[spec["name"]]
        assert ("str" if array.dtype.kind == "U" else array.dtype.name) == spec["dtype"]
        assert array.shape == tuple(len(array) if size == "batch" else size for size in spec["shape"])
    check(found, told)


@pytest.mark.parametrize("name", CONVERTED)
def test_the_converted_model_predicts_what_its_source_does(bench, runtime, seal, models, name):
    folder, stated = seal(name)
    described, _ = bench.call("describe", folder, "sklearn", described=stated, trust=["pickle"])
    feeds, told = read(models, name, described["inputs"])
    rows = save_rows(bench.scratch, feeds)
    notes, output = bench.transform(
        "sklearn.onnx", folder, described=described, trust=["pickle"], calibration=str(rows)
    )
    assert notes.keys() == {"metadata"}, notes
    written = runtime.describe(output, "onnx")
    assert {side: written[side] for side in ("inputs", "outputs")} == {
        side: described[side] for side in ("inputs", "outputs")
    }
    model = onnx.load(output / "model.onnx")
    domains = [entry.domain for entry in model.opset_import]
    assert len(domains) == len(set(domains))
    for size in (1, 7, None):
        found = run_onnx(output, {key: rows[:size] for key, rows in feeds.items()})
        check(found, {key: array[:size] for key, array in told.items()})


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_without_a_converter_is_named(bench, seal, name):
    folder, stated = seal(name)
    described, _ = bench.call("describe", folder, "sklearn", described=stated, trust=["pickle"])
    notes, _ = bench.transform("sklearn.onnx", folder, described=described, trust=["pickle"])
    assert REFUSED[name] in notes["refused"].lower(), notes


def test_the_opset_is_an_option(bench, seal, models):
    folder, stated = seal("logistic")
    described, _ = bench.call("describe", folder, "sklearn", described=stated)
    rows = save_rows(bench.scratch, read(models, "logistic", described["inputs"])[0])
    _, output = bench.transform(
        "sklearn.onnx", folder, described=described, options={"opset": 18}, calibration=str(rows)
    )
    versions = {entry.domain: entry.version for entry in onnx.load(output / "model.onnx").opset_import}
    assert versions[""] <= 18


@pytest.mark.parametrize("name", ["forest", "histograms", "boosted"])
def test_a_pickle_must_be_trusted(bench, seal, name):
    with pytest.raises(HoneError) as refused:
        seal(name, frozenset())
    assert refused.value.slug == "pickle-not-trusted"
    folder, stated = seal(name)
    told, _ = bench.call("describe", folder, "sklearn", described=stated)
    assert told["slug"] == "pickle-not-trusted"
    assert "trust: [pickle]" in told["refused"]


def test_a_skops_file_is_opened_without_trust_where_skops_knows_its_types(bench, seal):
    for name in ("logistic", "lightgbm", "mixed"):
        folder, stated = seal(name, frozenset())
        described, _ = bench.call("describe", folder, "sklearn", described=stated)
        assert described["sklearn"]["kind"] == "classifier"


def test_a_skops_file_is_opened_with_the_libraries_classes_that_were_logged_as_trusted(bench, seal):
    folder, stated = seal("forest-skops", frozenset())
    described, _ = bench.call("describe", folder, "sklearn", described=stated)
    assert described["sklearn"]["class"] == "Pipeline"
    path = folder / "estimator.json"
    reference = json.loads(path.read_text())
    for trusted in ([], ["sklearn.tree.export_text", "os.system", "sklearn.none.Tree"]):
        path.write_text(json.dumps(reference | {"trusted": trusted}))
        told, _ = bench.call("describe", folder, "sklearn", described=stated)
        assert told["slug"] == "pickle-not-trusted"
        assert "sklearn.tree._tree.Tree" in told["refused"]


def test_a_native_file_needs_no_trust(bench, seal):
    for name in ("xgboost", "booster"):
        folder, stated = seal(name, frozenset())
        described, _ = bench.call("describe", folder, "sklearn", described=stated)
        assert described["outputs"]


def test_what_the_learner_is_told(bench, seal):
    folder, stated = seal("mixed")
    described, _ = bench.call("describe", folder, "sklearn", described=stated)
    assert [(spec["name"], spec["dtype"]) for spec in described["inputs"]] == [
        ("color", "str"),
        ("1st size (€)", "float64"),
        ("how-many", "int64"),
    ]
    assert described["sklearn"]["split"]
    folder, stated = seal("logistic")
    about = bench.call("describe", folder, "sklearn", described=stated)[0]["sklearn"]
    assert about["classes"] == ["benign", "malignant", "unclear"]
    assert about["n_features_in"] == 4


def test_a_pickle_of_another_version_is_a_warning(bench, seal):
    folder, stated = seal("boosted")
    path = folder / "model.pkl"
    path.write_bytes(path.read_bytes().replace(b"1.9.1", b"1.9.0"))
    described, _ = bench.call("describe", folder, "sklearn", described=stated, trust=["pickle"])
    assert "1.9.0" in described["warnings"][0]


def test_the_method_that_mlflow_calls_is_told(bench, seal):
    folder, stated = seal("boosted")
    reference = json.loads((folder / "estimator.json").read_text())
    (folder / "estimator.json").write_text(json.dumps({**reference, "predict_fn": "predict_proba"}))
    described, _ = bench.call("describe", folder, "sklearn", described=stated, trust=["pickle"])
    assert described["sklearn"]["predict_fn"] == "predict_proba"


def test_a_file_that_cannot_be_opened_says_by_which_version_it_was_made(bench, seal):
    folder, stated = seal("boosted")
    (folder / "model.pkl").write_bytes(b"\x80\x04nothing")
    told, _ = bench.call("describe", folder, "sklearn", described=stated, trust=["pickle"], expect_error=True)
    assert "1.9.1, cannot be opened" in told["raised"]
    reference = json.loads((folder / "estimator.json").read_text())
    (folder / "estimator.json").write_text(json.dumps({**reference, "file": "../elsewhere"}))
    told, _ = bench.call("describe", folder, "sklearn", described=stated, trust=["pickle"], expect_error=True)
    assert "outside" in told["raised"]
