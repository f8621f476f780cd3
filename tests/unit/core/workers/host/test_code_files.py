from __future__ import annotations

import sys

import pytest

from kedro_hone.core.workers.host.code_files import find_code_file


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose ``__init__`` writes a file when it is imported, with a package inside that does the same."""
    for place in (tmp_path / "zebra_models", tmp_path / "zebra_models" / "vision"):
        place.mkdir()
        (place / "__init__.py").write_text(f"open({str(place / 'was-imported')!r}, 'w').close()\n")
    (tmp_path / "zebra_models" / "vision" / "net.py").write_text("class Net: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "zebra_models"


def test_no_package_on_the_way_is_imported(package, tmp_path):
    assert find_code_file("zebra_models.vision.net", project=tmp_path / "nowhere") == package / "vision" / "net.py"
    assert find_code_file("zebra_models", project=tmp_path / "nowhere") == package / "__init__.py"
    assert list(package.rglob("was-imported")) == []
    assert not [name for name in sys.modules if name.startswith("zebra_models")]


@pytest.mark.parametrize("below", ["", "src"])
def test_modules_of_the_project_need_no_path(tmp_path, below):
    place = tmp_path / below / "shop_of_mine"
    place.mkdir(parents=True)
    (place / "net.py").write_text("")  # a namespace package: it has no __init__
    assert find_code_file("shop_of_mine.net", project=tmp_path) == place / "net.py"


def test_packages_without_init_may_be_nested(tmp_path):
    place = tmp_path / "src" / "shop_of_mine" / "vision" / "nets"
    place.mkdir(parents=True)
    (place / "net.py").write_text("raise RuntimeError('imported')\n")
    assert find_code_file("shop_of_mine.vision.nets.net", project=tmp_path) == place / "net.py"
    assert find_code_file("shop_of_mine.vision.no", project=tmp_path) is None


def test_paths_start_at_the_project(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text("")
    assert find_code_file("models/net.py", project=tmp_path) == tmp_path / "models" / "net.py"
    assert find_code_file(str(tmp_path / "models" / "net.py"), project=tmp_path / "elsewhere") is not None


@pytest.mark.parametrize(
    "name", ["models/nte.py", "no_such_package.net", "json.no_such_module", "sys", "json.decoder.x", "", "json..x"]
)
def test_what_is_no_file_is_none(tmp_path, name):
    assert find_code_file(name, project=tmp_path) is None


def test_packages_that_an_import_hook_knows_are_found(tmp_path, monkeypatch):
    """Installations that can be edited may put a finder of their own into ``sys.meta_path``."""
    import importlib.util

    (tmp_path / "elsewhere").mkdir()
    for name in ("__init__.py", "net.py"):
        (tmp_path / "elsewhere" / name).write_text("raise RuntimeError('imported')\n")

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):  # noqa: ARG004 - the names of Python's contract
            if name != "hooked_package":
                return None
            return importlib.util.spec_from_file_location(
                name, tmp_path / "elsewhere" / "__init__.py", submodule_search_locations=[str(tmp_path / "elsewhere")]
            )

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert find_code_file("hooked_package.net", project=tmp_path) == tmp_path / "elsewhere" / "net.py"
