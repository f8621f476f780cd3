"""What ``kedro hone init`` would add to a folder."""

from __future__ import annotations

import pytest
import yaml

from hone_runtime.errors import HoneError
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.scaffold.changes import apply_changes
from kedro_hone.scaffold.project import Addition, find_package, plan_changes
from kedro_hone.scaffold.texts import MERGE, STAR

PYPROJECT = '[tool.kedro]\npackage_name = "shop"\nproject_name = "shop"\nkedro_init_version = "1.7.0"\n'
REGISTRY = "def register_pipelines():\n    return {}\n"


@pytest.fixture
def shop(tmp_path):
    """A Kedro project."""
    return fill(
        tmp_path, {"pyproject.toml": PYPROJECT, "src/shop/settings.py": "", "conf/base/catalog.yml": "# none\n"}
    )


def fill(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


def add(root, **options):
    """Apply the changes, and return them by path; a second time there is nothing to add."""
    changes = plan_changes(root, Addition(**options))
    apply_changes(changes)
    assert plan_changes(root, Addition(**options)) == []
    return {change.path.relative_to(root).as_posix(): change for change in changes}


def test_a_folder_becomes_a_project_of_three_files(tmp_path):
    added = add(tmp_path, source="models:/churn@new", data={"gate": "s3://bucket/gate.parquet"})
    assert {*added} == {"conf/base/parameters.yml", "conf/base/catalog.yml", "conf/local/.gitkeep"}
    recipe = read_recipe(yaml.safe_load((tmp_path / "conf/base/parameters.yml").read_text())["hone"])
    assert recipe.model.uri == "models:/churn@new"
    catalog = yaml.safe_load((tmp_path / "conf/base/catalog.yml").read_text())
    assert {name: entry["path"] for name, entry in catalog.items()} == {
        "calibration": "data/calibration.csv", "search": "data/search.csv", "gate": "s3://bucket/gate.parquet",
    }  # fmt: skip


@pytest.mark.parametrize("source", ["", "models/a b: #c", "hf://org/model", "./model.onnx", "no", "C:\\models"])
def test_any_source_is_the_recipes(tmp_path, source):
    add(tmp_path, source=source)
    found = yaml.safe_load((tmp_path / "conf/base/parameters.yml").read_text())["hone"]["model"]["uri"]
    assert found == (source or "models:/NAME/1")


def test_a_kedro_project_gets_one_line_of_settings_and_its_registry(shop):
    fill(shop, {"src/shop/pipeline_registry.py": REGISTRY, "conf/base/parameters.yml": "shop: 1"})
    added = add(shop)
    assert {*added} == {
        "conf/base/parameters.yml", "conf/base/catalog.yml", "src/shop/settings.py", "src/shop/pipeline_registry.py",
    }  # fmt: skip
    assert added["src/shop/settings.py"].added == STAR
    assert (shop / "conf/base/parameters.yml").read_text().startswith("shop: 1\n\n# What")
    assert (shop / "src/shop/pipeline_registry.py").read_text().startswith(REGISTRY)


def test_a_project_without_a_registry_gets_none(shop):
    assert "src/shop/pipeline_registry.py" not in add(shop)


@pytest.mark.parametrize(
    "text",
    [
        "HOOKS = (Mine(),)\n", "from shop.hooks import HOOKS\n", "from shop.common import *\n",
        "if True:\n    HOOKS: tuple = ()\n", 'DISABLE_HOOKS_FOR_PLUGINS = ("kedro-viz",)\n',
    ],
)  # fmt: skip
def test_hooks_of_its_own_are_merged(shop, text):
    fill(shop, {"src/shop/settings.py": text})
    assert add(shop)["src/shop/settings.py"].added.lstrip("\n") == MERGE


@pytest.mark.parametrize("text", ["# HOOKS = ()\n", 'CONFIG_LOADER_ARGS = {"base_env": "base"}\n', '"""Kedro."""\n'])
def test_other_settings_are_not(shop, text):
    fill(shop, {"src/shop/settings.py": text})
    assert add(shop)["src/shop/settings.py"].added.lstrip("\n") == STAR


@pytest.mark.parametrize("theirs", ["parameters_train.yml", "parameters/train.yml", "train/parameters.yml"])
def test_beside_parameters_of_their_own_the_recipe_has_a_file(shop, theirs):
    fill(shop, {f"conf/base/{theirs}": "shop: 1\n", "conf/base/catalog/shop.yml": "raw: {type: MemoryDataset}\n"})
    assert {"conf/base/parameters_hone.yml", "conf/base/catalog_hone.yml"} <= {*add(shop)}
    assert (shop / "conf/base" / theirs).read_text() == "shop: 1\n"


def test_what_is_there_stays_as_it_is(shop):
    fill(
        shop, {"conf/base/parameters/hone.yml": "hone:\n  model: {uri: m}\n", "conf/base/catalog.yml": "gate: {a: b}\n"}
    )
    added = add(shop, source="other")
    assert not any("parameters" in name for name in added)
    assert "gate:" not in added["conf/base/catalog.yml"].added


def test_line_ends_and_a_missing_last_one_are_the_files_own(shop):
    fill(shop, {"conf/base/parameters.yml": "shop: 1\r\nother: 2"})
    add(shop)
    text = (shop / "conf/base/parameters.yml").read_bytes()
    assert text.startswith(b"shop: 1\r\nother: 2\r\n\r\n# What")
    assert text.count(b"\n") == text.count(b"\r\n")


def test_a_workflow_and_rules_are_added_when_asked_for(tmp_path):
    added = add(tmp_path, github=True, listen=True)
    assert {".github/workflows/hone.yml", "conf/base/listen.yml"} <= {*added}
    for name in (".github/workflows/hone.yml", "conf/base/listen.yml"):
        assert yaml.safe_load((tmp_path / name).read_text())


def test_a_file_that_cannot_be_read_is_an_error_and_nothing_is_written(shop):
    for content in (b"x = (\n", b"\xff\xfe"):
        (shop / "src/shop/settings.py").write_bytes(content)
        with pytest.raises(HoneError) as caught:
            plan_changes(shop, Addition())
        assert caught.value.slug == "project-unreadable"


def test_a_file_that_changed_since_it_was_shown_is_not_written(shop):
    changes = plan_changes(shop, Addition())
    (shop / "conf/base/catalog.yml").write_text("mine: {type: MemoryDataset}\n")
    with pytest.raises(HoneError, match="was changed"):
        apply_changes(changes)
    assert (shop / "conf/base/catalog.yml").read_text() == "mine: {type: MemoryDataset}\n"


def test_a_folder_with_another_pyproject_is_no_kedro_project(tmp_path):
    fill(tmp_path, {"pyproject.toml": "[tool.ruff]\n"})
    assert find_package(tmp_path) is None
