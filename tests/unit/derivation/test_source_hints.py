"""What was probably meant by a SOURCE that names no model."""

from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.derivation import source_hints
from kedro_hone.derivation.source_hints import suggest_source


def fail(typed, folder, slug="model-unknown"):
    with pytest.raises(HoneError) as raised, suggest_source(typed, folder):
        raise HoneError(slug, "What.", why=["Why.", "Why else."], hint=["Do this.", "Or that."])
    return raised.value


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """The URIs that the registry has."""
    uris = {"models:/forecaster/latest", "models:/forecaster@prod"}
    monkeypatch.setattr(source_hints, "_is_known", uris.__contains__)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.mark.parametrize(
    ("typed", "slug", "near"),
    [
        ("my-ner/model.safetensors", "model-unsupported", "my-ner"),
        ("hf://my-ner", "registry-unknown", "./my-ner"),
        ("forecaster", "model-unknown", "models:/forecaster/latest"),
        ("forecaster@prod", "model-unknown", "models:/forecaster@prod"),
    ],
)
def test_the_nearest_thing_is_named(tmp_path, typed, slug, near):
    (tmp_path / "my-ner").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "my-ner" / name).write_text("{}")
    error = fail(typed, tmp_path, slug)
    assert error.hint == f"Did you mean {near}? Do this.\n        Or that."
    assert (error.slug, error.what, error.why) == (slug, "What.", "Why.\n        Why else.")


@pytest.mark.parametrize("typed", ["other", "hf://owner/name", "a/b", "models:/x/1", "state.safetensors", "hf://"])
def test_where_nothing_is_near_the_error_stays(tmp_path, typed):
    (tmp_path / "state.safetensors").write_bytes(b"x")
    assert fail(typed, tmp_path, "model-unsupported").hint == "Do this.\n        Or that."


def test_another_mistake_has_its_own_hint(tmp_path):
    assert fail("forecaster", tmp_path, "data-unreadable").hint.startswith("Do this.")


def test_a_registry_is_missing_where_the_command_was_typed(tmp_path, monkeypatch):
    here = tmp_path / "projects" / "here"
    here.mkdir(parents=True)
    error = fail("models:/churn/1", here, "registry-missing")
    assert error.what == f"There is no MLflow registry in {here}."
    assert "none of mlflow.db, data/mlflow.db, mlruns" in error.why
    (tmp_path / "projects" / "mlflow.db").touch()
    assert f"that of {tmp_path / 'projects'}?" in fail("models:/churn/1", here, "registry-missing").hint
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///x.db")
    assert fail("models:/churn/1", here, "registry-missing").what == "What."
