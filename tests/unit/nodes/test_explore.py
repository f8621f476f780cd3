from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from kedro_hone.comparing.setting import Setting
from kedro_hone.comparing.timings import Timings
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.measurement import Interval, Status, Validation
from kedro_hone.core.values.outcome import Candidate, Failed, FailureClass
from kedro_hone.nodes.explore import Search, find_contenders
from kedro_hone.recipe.schema import read_recipe


@pytest.fixture
def setting(tmp_path):
    run = RunFolder(root=tmp_path / "runs", run_id="one", project=tmp_path)
    recipe = read_recipe({"model": {"uri": "models:/x/1"}, "race": {"memory_mb": 1000}})
    store = Store(tmp_path / "store")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"0")
    source = store.seal(tmp_path / "model", parent=None, format="toy", inputs=(), outputs=(), runtime=None, metadata={})
    return Setting(source=source, samples=None, recipe=recipe, store=store, run=run)


def make(name):
    return Artifact(format="toy", digest=f"sha256:{name}", inputs=(), outputs=())


def validation(name, *, megabytes=1, publishable=True):
    candidate = Candidate(id=name, route=(name,), outcome=make(name))
    peak = megabytes << 20
    return Validation(candidate=candidate, status=Status.MEASURED, peak_memory_bytes=peak, publishable=publishable)


def test_one_that_does_not_fit_keeps_out_no_other(setting):
    validations = {"a": validation("a", megabytes=1200), "b": validation("b"), "c": validation("c", megabytes=999)}
    assert [*find_contenders(validations, setting)] == ["b", "c"]


def test_of_what_may_not_be_published_no_options_are_tried(setting):
    validations = {"a": validation("a", publishable=False), "b": validation("b")}
    assert [*find_contenders(validations, setting)] == ["b"]


@pytest.fixture
def start(setting, monkeypatch):
    """Return what makes a search with the speeds of its artifacts, in which the one named ``best`` fails."""

    def start(**speeds):
        search, probed = Search(setting, reference=None, plan=None, budget=None), []
        search._speeds, search._artifacts = speeds, {name: make(name) for name in speeds}

        def measure(artifacts):
            probed.append([*artifacts])
            timings = Timings()
            if "best" in artifacts:
                timings.failures["best"] = Failed(by="best", failure=FailureClass.CRASH, reason="gone")
            return timings

        monkeypatch.setattr(search, "_measure", measure)
        return search, probed

    def compare(name, rival, timings, recipe):
        ratio = Interval(estimate=2.0, low=1.9, high=2.1)
        return None if rival in timings.failures else SimpleNamespace(speed=ratio, hopeless=False)

    monkeypatch.setattr("kedro_hone.nodes.explore.compare", compare)
    return start


def test_a_best_that_fails_is_probed_against_no_more(start):
    search, probed = start(best=1.0, next=0.5)
    left, speed = search._probe("trial", make("trial"))
    assert (left, probed) == ({}, [["best", "trial"], ["next", "trial"]])
    assert speed == pytest.approx(0.5 + math.log(2.0))
    search._probe("other", make("other"))
    assert probed[2:] == [["trial", "other"]]


def test_the_last_one_that_fails_is_probed_against_no_more(start):
    search, probed = start(best=1.0)
    assert search._probe("one", make("one")) == ({}, None)
    search._probe("other", make("other"))
    assert probed == [["best", "one"], ["one", "other"]]
