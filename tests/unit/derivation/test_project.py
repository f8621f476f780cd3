"""The folder of a derived project."""

from __future__ import annotations

from kedro.framework.startup import bootstrap_project
from kedro.utils import find_kedro_project

from kedro_hone.derivation.project import write_project


def test_a_project_within_another_is_what_kedro_runs(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.kedro]\npackage_name = 'shop'\n")
    folder = tmp_path / "data" / "derived"

    write_project(folder, recipe={"budget": 1}, catalog={})

    assert find_kedro_project(folder) == folder
    assert bootstrap_project(folder).package_name == "kedro_hone"


def test_a_project_by_itself_has_only_its_configuration(tmp_path):
    write_project(tmp_path / "derived", recipe={"budget": 1}, catalog={})

    found = {path.name for path in (tmp_path / "derived").rglob("*.*")}
    assert found == {"parameters.yml", "catalog.yml"}
