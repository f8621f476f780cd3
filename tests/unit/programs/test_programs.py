"""Programs are found without being imported, and the files keep to the rules for what workers get."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.digest import digest_file
from kedro_hone import programs

FILES = sorted(programs.LIBRARY.glob("*/*.py"))
BUILT_IN = programs.list_programs()
LOWER = {"causal-language-modeling", "speech-recognition"}


def load(name):
    return programs.load_program(name, project=Path.cwd())


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_programs(name, tmp_path):
    found = programs.find_program(name, project=tmp_path)
    assert found == programs.find_program(name.replace("-", "_"), project=tmp_path).model_copy(update={"name": name})
    assert Path(found.path).parent.parent == programs.LIBRARY
    module = load(name)
    assert module.HIGHER_IS_BETTER is (name not in LOWER)
    for function in ("prepare", "decode", "score", "metric"):
        assert inspect.getdoc(getattr(module, function))


def test_each_folder_is_a_program_but_the_two_that_programs_need():
    folders = {path.parent.name for path in programs.LIBRARY.glob("*/__init__.py")}
    assert folders == {name.replace("-", "_") for name in BUILT_IN} | {"shared", "worker"}
    assert {"fidelity", "image-classification", "tabular-classification", "text-classification"} <= {*BUILT_IN}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(programs.LIBRARY).as_posix())
def test_what_workers_get_imports_nothing_of_ours(path):
    outside = {"numpy"}
    if path.parent.name == "worker":  # runs where kedro-hone is installed
        outside |= {"hone_runtime", "pandas", "pyarrow"}
    tree = ast.parse(path.read_text())
    if path.name == "pretrained.py":  # which only prepare calls, where kedro-hone is installed
        assert not any(
            "transformers" in ast.dump(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)
        )
        outside |= {"transformers", "PIL"}
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in names:
            assert name.partition(".")[0] in sys.stdlib_module_names | outside | {"__future__"}


def test_no_function_stands_twice():
    """What two programs share is in ``shared/``; their own functions of one name have different bodies."""
    seen = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and len(node.body) > 1:
                body = ast.dump(ast.Module(node.body, []))
                assert body not in seen, f"{path}: {node.name} is also in {seen[body]}"
                seen[body] = path


def test_a_path_and_a_module_are_found_without_an_import(tmp_path):
    package = tmp_path / "src" / "hone_finds" / "inner"
    package.mkdir(parents=True)
    bomb = "raise SystemExit('imported')\n"
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text(bomb)
    (package / "program.py").write_text(bomb)
    (tmp_path / "flat.py").write_text(bomb)
    assert programs.find_program("hone_finds.inner.program", project=tmp_path).path == str(package / "program.py")
    assert programs.find_program("src/hone_finds/inner/program.py", project=tmp_path).path == str(
        package / "program.py"
    )
    assert programs.find_program("flat", project=tmp_path).path == str(tmp_path / "flat.py")
    assert programs.digest_metric("flat.py:loss", project=tmp_path) == digest_file(tmp_path / "flat.py")
    assert not any(name.startswith("hone_finds") for name in sys.modules)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("image-clasification", "image-classification"),
        ("nothing.here", "Built in"),
        ("nothing.py", "Built in"),
        ("nothing/here", "Built in"),
        (".", "Built in"),  # a folder without __init__.py
        ("shared", "Built in"),  # two folders next to the programs that are none
        ("worker", "Built in"),
        ("sys", "Built in"),
    ],
)
def test_an_unknown_program(tmp_path, name, near):
    with pytest.raises(HoneError) as caught:
        programs.find_program(name, project=tmp_path)
    assert caught.value.slug == "program-unknown"
    assert near in caught.value.hint


@pytest.mark.parametrize("name", [None, "accuracy"])
def test_metrics_by_name_have_no_file(tmp_path, name):
    assert programs.digest_metric(name, project=tmp_path) is None


def test_an_unknown_file_of_a_metric(tmp_path):
    with pytest.raises(HoneError) as caught:
        programs.digest_metric("nothing.py:f", project=tmp_path)
    assert caught.value.slug == "metric-unknown"


def make_job(program, *inputs, **options):
    """What a worker hands to a program: its options are whole."""
    whole = {"options": {**load(program).OPTIONS, **options}}
    return {"input": {"inputs": list(inputs), "outputs": []}, "program": whole}


def images_job(shape, **options):
    return make_job("image-classification", {"name": "x", "shape": shape}, **options)


@pytest.mark.parametrize(
    ("data", "wanted", "options", "shape"),
    [
        ((2, 4, 5), ["batch", 1, 4, 5], {}, (2, 1, 4, 5)),
        ((2, 4, 5), ["batch", 4, 5, 1], {}, (2, 4, 5, 1)),
        ((2, 4, 5, 3), ["batch", 3, 4, 5], {"channels": "last"}, (2, 3, 4, 5)),
        ((2, 3, 4, 5), ["batch", 4, 5, 3], {"channels": "first"}, (2, 4, 5, 3)),
    ],
)
def test_the_channels_go_where_the_model_wants_them(data, wanted, options, shape):
    feeds, targets = load("image-classification").prepare({"image": np.zeros(data)}, images_job(wanted, **options))
    assert (feeds["x"].shape, targets) == (shape, {})


@pytest.mark.parametrize("channels", ["last", None])
def test_mean_and_std_are_for_each_channel(channels, random):
    images = random.integers(0, 255, (2, 4, 4, 3), dtype=np.uint8)
    job = images_job(["batch", 4, 4, 3], channels=channels, scale=1 / 255, mean=[0.1, 0.2, 0.3], std=[1, 2, 4])
    feeds, _ = load("image-classification").prepare({"image": images}, job)
    expected = (images / 255 - [0.1, 0.2, 0.3]) / [1, 2, 4]
    given = np.moveaxis(feeds["x"], 1, -1) if channels == "last" else feeds["x"]
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-6)


def test_mean_of_other_channels_is_refused():
    job = images_job(["batch", 3, 4, 5], mean=[1, 2])
    with pytest.raises(ValueError, match="other channels"):
        load("image-classification").prepare({"image": np.zeros((2, 3, 4, 5))}, job)


def test_columns_of_several_inputs():
    specs = [{"name": "age", "shape": ["batch", 1]}, {"name": "size", "shape": ["batch"]}]
    job = make_job("tabular-classification", *specs)
    data = {"size": np.ones(3), "age": np.arange(3), "y": np.zeros(3, int)}
    feeds, targets = load("tabular-classification").prepare(data, job)
    assert {name: array.shape for name, array in feeds.items()} == {"age": (3, 1), "size": (3,)}
    assert targets["target"].shape == (3,)


def test_features_are_chosen_and_ordered():
    table = {"name": "x", "shape": ["batch", 2]}
    job = make_job("tabular-regression", table, features=["b", "a"])
    data = {"a": np.arange(3), "b": np.arange(3) * 10, "c": np.array(["u", "v", "w"]), "y": np.zeros(3)}
    feeds, _ = load("tabular-regression").prepare(data, job)
    np.testing.assert_array_equal(feeds["x"], [[0, 0], [10, 1], [20, 2]])
    job = make_job("tabular-regression", table)
    with pytest.raises(ValueError, match="column 'c'"):
        load("tabular-regression").prepare(data, job)
