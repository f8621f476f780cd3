from __future__ import annotations

from pathlib import Path

import kedro
import pytest

from kedro_hone.hooks.logs import DEFAULT, choose_logging

ROOT = Path(__file__).parents[3]
TEMPLATE = (
    Path(kedro.__file__).parent / "templates" / "project" / "{{ cookiecutter.repo_name }}" / "conf" / "logging.yml"
)


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.delenv("KEDRO_LOGGING_CONFIG", raising=False)


def test_this_project_logs_as_a_project_without_a_configuration():
    assert DEFAULT.read_text() == (ROOT / "conf" / "logging.yml").read_text()


def test_without_a_file_ours_is_used(tmp_path):
    assert choose_logging(tmp_path / "conf", "shop") == DEFAULT


def test_what_kedro_new_wrote_is_no_choice(tmp_path):
    (tmp_path / "logging.yml").write_text(TEMPLATE.read_text().replace("{{ cookiecutter.python_package }}", "shop"))
    assert choose_logging(tmp_path, "shop") == DEFAULT
    assert choose_logging(tmp_path, "other") is None


@pytest.mark.parametrize("name", ["logging.yml", "logging.yaml", "logging.json"])
def test_a_file_of_ones_own_is_used(tmp_path, name):
    (tmp_path / name).write_text("{}")
    assert choose_logging(tmp_path, "shop") is None


def test_the_variable_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("KEDRO_LOGGING_CONFIG", "somewhere.yml")
    assert choose_logging(tmp_path, "shop") is None
