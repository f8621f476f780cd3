"""The mistakes that a first-time user makes with ``kedro hone optimize``: each is explained, with the flag to use.

Each command has ``--dry-run``: a mistake must be found before anything is built.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import warnings
from pathlib import Path

import command_server
import numpy as np
import pytest

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]

ROWS = 200
TARGET = ("--target", "churned")
TABLE = ("clf", "--trust", "pickle", "--data")
ONE_CLASS = (
    *("--data", "calibration=rows.csv", "--data", "search=one-class.csv"),
    *("--data", "gate=one-class.csv"),
)
SPLITS = ("--data", "calibration=rows.csv", "--data", "search=rows.csv", "--data", "gate=rows.csv")

OWN = """
import numpy as np

OPTIONS = {"scale": 1.0}
METRIC, HIGHER_IS_BETTER = "accuracy", True


def prepare(data, job):
    return {"features": data["features"]}, {"target": data["label"].astype(np.int64)}


def decode(outputs, options):
    return outputs["logits"].argmax(axis=1)


def score(predictions, targets, options):
    return (predictions == targets["target"]).astype(float)


def metric(predictions, targets, options):
    return float(score(predictions, targets, options).mean())
"""
"""A program with options of its own."""


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Path:
    """A person's folder: an estimator with a signature, one without, two ONNX files, and the data."""
    folder = tmp_path_factory.mktemp("first-hour")
    with warnings.catch_warnings():  # of MLflow's, about type hints and pickles
        warnings.simplefilter("ignore")
        write_estimators(folder)
    write_foreign_pickles(folder)
    write_onnx(folder, "net.onnx", ["features"])
    write_onnx(folder, "two.onnx", ["left", "right"])
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(ROWS, 4)).astype(np.float32)
    np.savez(folder / "rows.npz", features=rows, label=draw.integers(0, 4, ROWS))
    np.savez(folder / "from-one.npz", features=rows, label=draw.integers(1, 5, ROWS))
    np.savez(folder / "text.npz", features=rows, label=draw.choice(["a", "b", "c", "d"], ROWS))
    np.save(folder / "x.npy", rows)
    (folder / "own.py").write_text(OWN)
    (folder / "empty").mkdir()
    (folder / "empty" / "README.txt").write_text("a model was here")
    return folder


def write_estimators(folder: Path) -> None:
    import joblib
    import mlflow
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(0)
    names = ["age", "income", "tenure"]
    inputs = pd.DataFrame(draw.normal(size=(ROWS, 3)).round(6), columns=names)
    churned = (inputs["age"] + inputs["income"] > 0).astype(int)
    settings = {"serialization_format": "cloudpickle", "pip_requirements": ["scikit-learn"]}
    signature = mlflow.models.infer_signature(inputs[:5], churned.to_numpy()[:5])
    fitted = LogisticRegression().fit(inputs, churned)
    mlflow.sklearn.save_model(fitted, folder / "clf", signature=signature, **settings)
    unnamed = LogisticRegression().fit(inputs.to_numpy(), churned)
    mlflow.sklearn.save_model(unnamed, folder / "unsigned", **settings)
    table = inputs.assign(churned=churned, customer_id=range(ROWS))
    table.to_csv(folder / "rows.csv", index=False)
    joblib.dump(fitted, folder / "clf.joblib")
    table.assign(churned=churned + 1).to_csv(folder / "after.csv", index=False)
    table[:12].to_csv(folder / "few.csv", index=False)
    table[table["churned"] == 1].to_csv(folder / "one-class.csv", index=False)
    table.drop(columns="age").to_csv(folder / "lacking.csv", index=False)
    table.assign(income=[f"{value:.2f} EUR" for value in table["income"]]).to_csv(folder / "euros.csv", index=False)
    table.assign(churned=table["income"] * 1.5).to_csv(folder / "prices.csv", index=False)
    foreign = table.assign(city="Málaga", since="2024-05-01")
    foreign.to_csv(folder / "foreign.csv", sep=";", decimal=",", encoding="latin-1")


def write_foreign_pickles(folder: Path) -> None:
    """Write the estimator as other versions would have: the names and numbers of versions in real pickles differ."""
    import joblib
    import mlflow
    import sklearn
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    here, old = sklearn.__version__.encode(), b"1.2.2"
    assert len(here) == len(old)
    for name, changes in {
        "older": {here: old},
        "moved": {here: old, b"linear_model._logistic": b"linear_model._logistix"},
    }.items():
        shutil.copytree(folder / "clf", folder / name)
        change_file(folder / name / "model.pkl", changes)
        change_file(folder / name / "MLmodel", {b"sklearn_version: " + here: b"sklearn_version: " + old})
    fitted = mlflow.sklearn.load_model(str(folder / "clf"))
    joblib.dump(fitted, folder / "alone.joblib")
    doubled = make_pipeline(FunctionTransformer(lambda rows: rows * 1.0), fitted)
    signature = mlflow.models.get_model_info(str(folder / "clf")).signature
    settings = {"serialization_format": "cloudpickle", "pip_requirements": ["scikit-learn"]}
    mlflow.sklearn.save_model(doubled, folder / "notebook", signature=signature, **settings)
    python = f"python_version: {platform.python_version()}".encode()
    change_file(folder / "notebook" / "MLmodel", {python: b"python_version: 3.99.1"})


def change_file(path: Path, changes: dict[bytes, bytes]) -> None:
    content = path.read_bytes()
    for old, new in changes.items():
        assert old in content
        content = content.replace(old, new)
    path.write_bytes(content)


def write_onnx(folder: Path, name: str, inputs: list[str]) -> None:
    import onnx
    from onnx import TensorProto, helper

    given = [helper.make_tensor_value_info(one, TensorProto.FLOAT, ["batch", 4]) for one in inputs]
    made = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4])
    node = helper.make_node("Sum", inputs, ["logits"])
    graph = helper.make_graph([node], "net", given, [made])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, folder / name)


@pytest.fixture
def optimize(here, environments, tmp_path):
    """Call the command in the person's folder; return its exit code and its output."""

    def call(*arguments: str, **variables: str) -> tuple[int, str]:
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(("KEDRO_", "PYTEST"))}
        store = {"HONE_HOME": str(environments.root), "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
        return command_server.find_server().call(
            *("kedro_hone", "hone", "optimize", *arguments, "--dry-run", "--folder", str(tmp_path / "run")),
            folder=here,
            variables=inherited | command_server.FIXED | store | variables,
            seconds=300,
        )

    return call


MISTAKES = {
    "a typo in the target": ((*TABLE, "rows.csv", "--target", "churnd"), "column-unknown", ("'churned'", "--target")),
    "an index as the target": (
        (*TABLE, "rows.csv", "--target", "customer_id"),
        "target-unusable",
        ("as an index has", "'churned'", "--target"),
    ),
    "no target": ((*TABLE, "rows.csv"), "task-unclear", ("--target churned",)),
    "an input as the target": (
        (*TABLE, "rows.csv", "--target", "age"),
        "target-unusable",
        ("also an input", "--target churned"),
    ),
    "labels from 1 for an estimator": (
        (*TABLE, "after.csv", *TARGET),
        "labels-mismatch",
        ("'2' is none of the 2 classes: '0', '1'", "Subtract 1"),
    ),
    "one class in named splits": (
        ("clf", "--trust", "pickle", *ONE_CLASS, *TARGET),
        "target-unusable",
        ("one-class.csv", "--target NAME"),
    ),
    "an estimator's own file": (
        ("clf.joblib", "--data", "rows.csv", *TARGET),
        "pickle-not-trusted",
        ("estimator (clf.joblib)", "--trust pickle", "mlflow.sklearn.save_model"),
    ),
    "labels of text": (("net.onnx", "--data", "text.npz"), "labels-mismatch", ("--classes a,b,c,d",)),
    "one class": ((*TABLE, "one-class.csv", *TARGET), "target-unusable", ("All", "--target NAME")),
    "twelve rows": ((*TABLE, "few.csv", *TARGET), "data-indivisible", ("12 rows", "need 80", "--data FILE")),
    "a typo in a scheme": (("model:/churn/1", "--data", "rows.csv"), "registry-unknown", ("the scheme models",)),
    "a typo in a path": (("clff", "--data", "rows.csv"), "model-unknown", ("'clf'",)),
    "a folder without a model": (("empty", "--data", "rows.csv"), "model-unsupported", ("README.txt", "model.onnx")),
    "a pickle": (("clf", "--data", "rows.csv", *TARGET), "pickle-not-trusted", ("add --trust pickle",)),
    "a pickle of another version of scikit-learn": (
        ("moved", *TABLE[1:], "rows.csv", *TARGET),
        "pickle-mismatch",
        ("scikit-learn 1.2.2 and Python", "saved it", "open it", "convert it to ONNX where it opens"),
    ),
    "code of another Python": (
        ("notebook", *TABLE[1:], "rows.csv", *TARGET),
        "pickle-mismatch",
        ("compiled by Python 3.99.1", f"Python {platform.python_version()} would misread it", "log the model again"),
    ),
    "a file of joblib": (
        ("alone.joblib", "--data", "rows.csv", *TARGET),
        "pickle-not-trusted",
        ("a pickle of an estimator", "--trust pickle", "mlflow.sklearn.save_model(model, 'folder'"),
    ),
    "no signature": (
        ("unsigned", "--trust", "pickle", "--data", "rows.csv", *TARGET),
        "data-unreadable",
        ("takes 3", "--option features=[A,B]"),
    ),
    "a missing column": (
        (*TABLE, "lacking.csv", *TARGET),
        "data-unreadable",
        ("'age' is missing", "--option features=[A,B]"),
    ),
    "numbers as text": ((*TABLE, "euros.csv", *TARGET), "data-unreadable", ("'income'", "EUR'", "euros.csv row ")),
    "numbers to predict for a classifier": (
        (*TABLE, "prices.csv", *TARGET),
        "target-unusable",
        ("the task has classes", "--target", "--task"),
    ),
    "labels from 1": (
        ("net.onnx", "--data", "from-one.npz"),
        "labels-mismatch",
        ("run from 1 to 4", "subtract 1", "--classes A,B"),
    ),
    "one array for two inputs": (("two.onnx", "--data", "x.npy"), "data-unreadable", ("'left'", "--input left=x")),
    "a typo in the task": (
        (*TABLE, "rows.csv", *TARGET, "--task", "tabular-clasification"),
        "program-unknown",
        ("'tabular-classification'", "--task NAME"),
    ),
    "a typo in a toolchain": (
        (*TABLE, "rows.csv", *TARGET, "--toolchains", "onxruntime"),
        "toolchain-unknown",
        ("'onnxruntime'", "--toolchains"),
    ),
    "an unknown dimension": (
        ("net.onnx", "--data", "rows.npz", "--shape", "batch=1,lenght=8"),
        "recipe-invalid",
        ("'lenght'", "by --shape"),
    ),
    "a budget in words": (
        (*TABLE, "rows.csv", *TARGET, "--budget", "quik"),
        "option-invalid",
        ("'quick'", "--budget 10m"),
    ),
    "one file for all splits": (
        ("clf", "--trust", "pickle", *SPLITS, *TARGET),
        "data-overlap",
        ("Remove the shared rows", "--data FILE"),
    ),
    "an address that does not exist": (
        ("net.onnx", "--data", "http://127.0.0.1:9/rows.npz"),
        "data-unreadable",
        ("URL of --data",),
    ),
    "a protocol without its package": (("net.onnx", "--data", "abc://x/rows.npz"), "data-unreadable", ("--data FILE",)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained_with_its_flag(optimize, mistake):
    arguments, slug, said = MISTAKES[mistake]
    code, output = optimize(*arguments)
    assert code == 3, output
    assert output.rstrip().endswith(f"hone explain {slug}"), output
    text = " ".join(output.split())
    assert not [one for one in said if one not in text], output
    advice = text.partition(" why: ")[2]
    assert "recipe" not in advice.replace("recipe-invalid", ""), output
    assert "hone." not in advice.replace("kedro_hone", ""), output


def test_an_older_pickle_that_opens_is_a_warning(optimize):
    code, output = optimize("older", *TABLE[1:], "rows.csv", *TARGET)
    assert code == 0, output
    text = " ".join(output.split())
    assert "from version 1.2.2 when using version" in text
    assert "what is measured is the model as it opens here" in text


def test_a_registry_that_does_not_respond(optimize):
    code, output = optimize("models:/churn/1", "--data", "rows.csv", MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert code == 3
    assert "hone explain registry-unreachable" in output
    assert "Check MLFLOW_TRACKING_URI" in output


def test_a_file_of_a_spreadsheet_is_read_and_each_decision_is_told(optimize):
    code, output = optimize(*TABLE, "foreign.csv", *TARGET)
    assert code == 0, output
    for said in (
        "foreign.csv has values between semicolons",
        "decimal commas were read as points",
        "Windows-1252 (Latin-1)",
        "it is an index, left out",
    ):
        assert said in output
    assert "contains dates" not in output  # of a column that the model does not take


def test_an_estimators_own_file_is_a_source_and_only_routes_that_fit_it_are_listed(optimize):
    code, output = optimize("clf.joblib", "--trust", "pickle", "--data", "rows.csv", *TARGET)
    assert code == 0, output
    assert "sklearn: X (batch, 3)" in output
    assert re.search(r"\b\d+ of \d+ routes fit this model", output), output
    assert "pytorch" not in output.partition("fit this model")[2]


def test_a_program_gets_only_the_options_that_it_declares(optimize):
    code, output = optimize("net.onnx", "--data", "rows.npz", "--task", "own.py")
    assert code == 0, output
    assert "arrays" not in output
