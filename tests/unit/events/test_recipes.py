from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.events.recipes import Recipes


@pytest.fixture
def conf(tmp_path):
    (tmp_path / "base").mkdir()
    return tmp_path


def test_a_recipe_that_was_edited_is_another_one_at_once(conf):
    path, read = conf / "base" / "parameters.yml", []
    path.write_text("1")

    def digest():
        read.append(path.read_text())
        return {"digits": read[-1]}

    recipes = Recipes(digest, folder=conf)
    assert [recipes.read(), recipes.read()] == [{"digits": "1"}] * 2
    assert read == ["1"]
    path.write_text("12")
    assert recipes.read() == {"digits": "12"}
    (conf / "base" / "listen.yml").write_text("x")
    assert recipes.read() == {"digits": "12"}
    assert read == ["1", "12", "12"]


BROKEN = HoneError("recipe-invalid", "It is broken.", why="It is.", hint="Mend it.")


@pytest.mark.parametrize("error", [BROKEN, FileNotFoundError("gone"), ZeroDivisionError("a resolver of the project's")])
def test_what_cannot_be_read_leaves_the_last_recipe(conf, lines, error):
    path = conf / "base" / "parameters.yml"
    path.write_text("1")

    def digest():
        if path.read_text() == "broken":
            raise error
        return {"digits": path.read_text()}

    recipes = Recipes(digest, folder=conf)
    path.write_text("broken")
    assert [recipes.read(), recipes.read()] == [{"digits": "1"}] * 2
    assert lines() == ["recipe-invalid"]  # once
    path.write_text("123")
    assert recipes.read() == {"digits": "123"}
