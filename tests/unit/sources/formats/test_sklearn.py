"""Estimators are recognised by their MLmodel alone."""

from __future__ import annotations

import json

import pytest
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.sources.detection import read_flavor

NOTHING: frozenset[str] = frozenset()
SKOPS = {"pickled_model": "model.skops", "sklearn_version": "1.9.1", "serialization_format": "skops"}


def write(folder, flavors, *files, columns=None):
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    signature = {"signature": {"inputs": json.dumps(columns)}} if columns else {}
    (folder / "MLmodel").write_text(yaml.safe_dump({"flavors": flavors, **signature}))
    return folder


def column(name, kind):
    return {"type": kind, "name": name, "required": True}


def test_a_skops_file_needs_no_trust(tmp_path):
    flavor = read_flavor(write(tmp_path, {"sklearn": SKOPS}, "model.skops"), trust=NOTHING)
    assert (flavor.format, flavor.interface, flavor.source) == ("sklearn", "sklearn", "sklearn")
    assert flavor.files == (("model.skops", "model.skops"),)
    ((name, text),) = flavor.texts
    assert (name, json.loads(text)["serialization"], json.loads(text)["version"]) == (
        "estimator.json",
        "skops",
        "1.9.1",
    )


@pytest.mark.parametrize(("said", "kept"), [("predict_proba", "predict_proba"), ("predict", None), ([1], None)])
def test_the_method_that_mlflow_calls_is_kept_where_it_is_not_predict(tmp_path, said, kept):
    flavors = {"sklearn": SKOPS, "python_function": {"predict_fn": said}}
    flavor = read_flavor(write(tmp_path, flavors, "model.skops"), trust=NOTHING)
    assert json.loads(flavor.texts[0][1]).get("predict_fn") == kept


@pytest.mark.attack(what="an estimator that is a pickle", who="registry", stopped_by="nothing is unpickled")
@pytest.mark.parametrize(
    ("flavor", "entry"),
    [
        ("sklearn", {"pickled_model": "model.pkl"}),
        ("sklearn", {"pickled_model": "model.pkl", "serialization_format": "cloudpickle"}),
        ("lightgbm", {"data": "model.pkl", "model_class": "lightgbm.sklearn.LGBMClassifier"}),
    ],
)
def test_a_pickle_must_be_trusted(tmp_path, flavor, entry):
    folder = write(tmp_path, {flavor: {**entry, "code": "code"}}, "model.pkl", "code/step.py")
    with pytest.raises(HoneError) as refused:
        read_flavor(folder, trust=NOTHING)
    assert refused.value.slug == "pickle-not-trusted"
    taken = read_flavor(folder, trust=frozenset({"pickle"}))
    assert taken.files == (("model.pkl", "model.pkl"), ("code/step.py", "code/step.py"))


@pytest.mark.parametrize(
    ("flavor", "entry", "kind"),
    [
        ("xgboost", {"data": "model.ubj", "model_class": "xgboost.sklearn.XGBClassifier"}, "xgboost"),
        ("xgboost", {"data": "model.ubj"}, "xgboost"),
        ("lightgbm", {"data": "model.ubj", "model_class": "lightgbm.basic.Booster"}, "lightgbm"),
        ("lightgbm", {"data": "model.ubj"}, "lightgbm"),
    ],
)
def test_native_files_need_no_trust(tmp_path, flavor, entry, kind):
    found = read_flavor(write(tmp_path, {flavor: entry}, "model.ubj"), trust=NOTHING)
    assert json.loads(found.texts[0][1])["serialization"] == kind


@pytest.mark.parametrize(
    ("kinds", "specs"),
    [
        (["double", "long"], [("X", "float64", ("batch", 2))]),
        (["float", "float"], [("X", "float32", ("batch", 2))]),
        (["string", "integer"], [("c0", "str", ("batch", 1)), ("c1", "int64", ("batch", 1))]),
    ],
)
def test_columns_are_a_matrix_or_inputs_of_their_own(tmp_path, kinds, specs):
    columns = [column(f"c{index}", kind) for index, kind in enumerate(kinds)]
    flavor = read_flavor(write(tmp_path, {"sklearn": SKOPS}, "model.skops", columns=columns), trust=NOTHING)
    assert [(spec.name, spec.dtype, spec.shape) for spec in flavor.inputs] == specs


@pytest.mark.parametrize(
    ("entry", "columns", "slug"),
    [
        (SKOPS, [column("when", "datetime")], "model-unsupported"),
        ({**SKOPS, "serialization_format": "onions"}, None, "model-corrupt"),
        ({**SKOPS, "pickled_model": "../model.skops"}, None, "model-corrupt"),
        ({**SKOPS, "pickled_model": "folder"}, None, "model-corrupt"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, entry, columns, slug):
    folder = write(tmp_path, {"sklearn": entry}, "model.skops", "folder/model.skops", columns=columns)
    with pytest.raises(HoneError) as refused:
        read_flavor(folder, trust=NOTHING)
    assert refused.value.slug == slug


def test_the_names_of_the_columns_are_kept(tmp_path):
    columns = [column("width", "double"), column("1st size (€)", "long")]
    flavor = read_flavor(write(tmp_path, {"sklearn": SKOPS}, "model.skops", columns=columns), trust=NOTHING)
    assert flavor.metadata["sklearn"]["columns"] == ["width", "1st size (€)"]


def test_the_signature_is_kept_for_the_winner(tmp_path):
    columns = [column("age", "double"), {"type": "long", "name": "children", "required": False}]
    flavor = read_flavor(write(tmp_path, {"sklearn": SKOPS}, "model.skops", columns=columns), trust=NOTHING)
    assert flavor.metadata["sklearn"]["columns"] == ["age", "children"]
    assert json.loads(flavor.metadata["sklearn"]["signature"]["inputs"]) == columns


def test_a_whole_number_that_may_be_missing_is_one_with_nan(tmp_path):
    columns = [{"type": "long", "name": "children", "required": False}, column("deck", "string"), column("n", "long")]
    flavor = read_flavor(write(tmp_path, {"sklearn": SKOPS}, "model.skops", columns=columns), trust=NOTHING)
    assert [spec.dtype for spec in flavor.inputs] == ["float64", "str", "int64"]


def test_a_column_of_dates_is_refused_by_its_name(tmp_path):
    columns = [column("age", "double"), column("since", "datetime")]
    with pytest.raises(HoneError, match="column 'since'") as refused:
        read_flavor(write(tmp_path, {"sklearn": SKOPS}, "model.skops", columns=columns), trust=NOTHING)
    assert refused.value.slug == "model-unsupported"
    assert "datetime" in refused.value.why
