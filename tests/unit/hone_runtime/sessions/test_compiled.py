"""The part that toolchains share whose models are compiled for each shape."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.sessions import compiled

FREE = {"name": "x", "dtype": "float32", "shape": ["batch", 3]}
FIXED = {"name": "y", "dtype": "int64", "shape": [1, 4]}
ONE, MANY = {"name": "one", "sizes": {"batch": 1}}, {"name": "many", "sizes": {"batch": 8}}


def feed(*shapes):
    return dict(zip("xy", (SimpleNamespace(shape=shape) for shape in shapes), strict=False))


def open_named(opened):
    def open_one(shape, key):
        opened.append((shape["name"], key))
        return SimpleNamespace(run=lambda _: {"by": shape["name"]})

    return open_one


def test_a_file_of_a_shape_is_in_the_folder_of_its_model(tmp_path):
    path = compiled.find_file(tmp_path, ONE, ".so")
    assert path == tmp_path / "model-one.so"
    with pytest.raises(ValueError, match=r"^model-one\.so is missing$"):
        compiled.require_file(tmp_path, ONE, ".so")
    path.touch()
    assert compiled.require_file(tmp_path, ONE, ".so") == path


@pytest.mark.parametrize("name", ["../one", "a/b", "/one"])
def test_a_file_of_another_folder_is_none(tmp_path, name):
    with pytest.raises(ValueError, match="no file's name"):
        compiled.find_file(tmp_path, {"name": name}, ".so")


def test_an_index_has_the_specs_and_what_a_toolchain_keeps_of_each(tmp_path):
    said = {side: [{**FREE, "key": f"{side}_0", "other": 1}] for side in compiled.SIDES}
    compiled.write_index(tmp_path, {**said, "profiles": []})
    assert compiled.read_index(tmp_path) == {"inputs": [FREE], "outputs": [FREE]}
    assert compiled.read_index(tmp_path, "key")["outputs"] == [{**FREE, "key": "outputs_0"}]
    with pytest.raises(ValueError, match=r"index\.json cannot be read: KeyError: 'axis'"):
        compiled.read_index(tmp_path, "axis")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"inputs": 1, "outputs": []}', '{"inputs": [[]], "outputs": []}', "[" * 100_000]
)
def test_an_index_that_is_none_is_said(tmp_path, text):
    (tmp_path / compiled.INDEX).write_text(text)
    with pytest.raises(ValueError, match=r"index\.json cannot be read"):
        compiled.read_index(tmp_path)


def test_without_an_index_there_is_none(tmp_path):
    with pytest.raises(ValueError, match="FileNotFoundError"):
        compiled.read_index(tmp_path)


def test_the_key_of_a_shape_is_the_shapes_of_the_inputs():
    assert compiled.find_key([FREE, FIXED], MANY["sizes"]) == ((8, 3), (1, 4))
    assert compiled.find_key([FIXED], MANY["sizes"]) == ((1, 4),), "nothing is dynamic"
    with pytest.raises(ValueError, match="not a shape of the inputs"):
        compiled.find_key([FREE], {"length": 8})


@pytest.mark.parametrize(
    ("specs", "served"),
    [([FREE], True), ([FIXED], False), ([{**FIXED, "shape": [8]}], True), ([{**FREE, "shape": []}], True)],
)
def test_a_model_serves_the_rows_of_a_shape_where_it_is_fixed_to_them_or_free(specs, served):
    assert compiled.fits(specs, MANY["sizes"]) is served


def test_a_call_is_of_the_session_of_its_shapes():
    opened = []
    again = {"name": "again", "sizes": {"batch": 8}}
    session = compiled.open_shapes({"static_shapes": [ONE, MANY, again]}, [FREE], open_named(opened))
    assert opened == [("one", ((1, 3),)), ("many", ((8, 3),))], "a shape is opened once, by whichever name"
    assert session.run(feed((8, 3))) == {"by": "many"}
    assert session.run(feed((1, 3))) == {"by": "one"}
    with pytest.raises(
        ValueError, match=r"compiled for the shapes \[\(\(1, 3\),\), \(\(8, 3\),\)\] and fed \(\(2, 3\),\)"
    ):
        session.run(feed((2, 3)))


def test_a_model_without_shapes_is_none():
    with pytest.raises(ValueError, match="does not list the shapes"):
        compiled.open_shapes({"static_shapes": []}, [FREE], open_named([]))
