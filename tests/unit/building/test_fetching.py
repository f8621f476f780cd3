from __future__ import annotations

import pytest

from kedro_hone.building.fetching import fetch
from kedro_hone.core.contract.registry import UNASKED, VersionInfo
from kedro_hone.core.errors import HoneError
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.schema import read_recipe


class Holds:
    """A registry with one version, which holds no model that anything can read."""

    def __init__(self, *files, **tags):
        self.files, self.tags = files, tags

    def pull(self, uri, folder):
        for name in self.files:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("{}")
        return VersionInfo(uri=uri, name="digits", version="1", tags=self.tags)


def fail(registry, folder):
    recipe = read_recipe({"model": {"uri": "models:/digits/1"}})
    run = RunFolder(root=folder / "runs", run_id="one", project=folder)
    with pytest.raises(HoneError) as caught:
        fetch("models:/digits/1", registry, recipe, Store(folder / "store"), run)
    return caught.value.slug


@pytest.mark.parametrize(
    "registry", [Holds("evidence/evidence.json"), Holds("x", **{"hone.source": "models:/digits/0"})]
)
def test_an_event_optimizes_no_winner_again_and_a_person_may(registry, tmp_path, monkeypatch):
    assert fail(registry, tmp_path) != "model-optimized"
    monkeypatch.setenv(UNASKED, "1")
    assert fail(registry, tmp_path) == "model-optimized"
    assert fail(Holds("x"), tmp_path) != "model-optimized"
