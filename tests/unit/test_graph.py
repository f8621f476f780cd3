"""Which project a folder belongs to."""

from __future__ import annotations

from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project

from kedro_hone.derivation.project import write_project
from kedro_hone.graph import separate


def test_a_project_within_another_is_what_kedro_runs(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.kedro]\npackage_name = 'shop'\n")
    folder = tmp_path / "data" / "derived"
    write_project(folder, recipe={"budget": 1}, catalog={})
    assert find_kedro_project(folder) == tmp_path

    separate(folder)

    assert find_kedro_project(folder) == folder
    assert bootstrap_project(folder).package_name == "kedro_hone"


def test_a_project_by_itself_has_only_its_configuration(tmp_path):
    write_project(tmp_path / "derived", recipe={"budget": 1}, catalog={})

    separate(tmp_path / "derived")

    assert {path.name for path in (tmp_path / "derived").rglob("*.*")} == {"parameters.yml", "catalog.yml"}


def test_another_projects_own_file_is_not_touched(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.kedro]\npackage_name = 'shop'\n")

    separate(tmp_path)

    assert "shop" in (tmp_path / "pyproject.toml").read_text()
