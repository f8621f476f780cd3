"""What is said of the gate each time the baseline is taken, whether the reference is new or stored."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hone_runtime.errors import HoneError
from hone_runtime.values.samples import Reference, Score
from kedro_hone.nodes import baseline
from kedro_hone.recipe.schema import read_recipe

RMSE = Score(metric="root_mean_squared_error", value=3.0, kind="bootstrap", n=200, higher_is_better=False, span=40.0)


@pytest.fixture
def take(monkeypatch):
    """Return a function that takes a baseline of so many gate rows; the source is not run."""
    kept = {}
    store = SimpleNamespace(
        read_value=lambda key, read: read(kept[key]) if key in kept else None,
        write_value=kept.__setitem__,
        find_tree=lambda key: key in kept or None,
    )
    monkeypatch.setattr(baseline, "identify_runtime", lambda *_: ())

    def call(*, rows, drop, drops=None, **told):
        score = {"metric": "r2", "value": 0.9, "kind": "bootstrap", "n": 200, "span": 1.9, **told}
        others = (RMSE,) if drops else ()
        reference = Reference(
            outputs="outputs.npz", digest="d", cold_start_ms=1, peak_memory_bytes=1, others=others, **score
        )
        monkeypatch.setattr(baseline, "_make_reference", lambda *_: reference)
        recipe = read_recipe({"model": {"uri": "m"}, "gates": {"drop": drop, "drops": drops or {}}})
        split = SimpleNamespace(path="search.npz", n=rows)
        context = SimpleNamespace(
            source=SimpleNamespace(digest="s"),
            samples=SimpleNamespace(digest="r", splits={"search": split, "gate": split}),
            recipe=recipe,
            store=store,
            run=SimpleNamespace(run_id="run", project=None),
        )
        return baseline.take_baseline(context=context)

    call.kept = kept
    return call


def test_a_limit_that_probably_cannot_be_proved_is_warned_of_each_time(take, caplog):
    for _ in range(2):
        caplog.clear()
        take(rows=1800, drop=0.005)
        assert "1800 gate rows probably cannot prove a drop under 0.005" in caplog.text
    assert len(take.kept) == 1


def test_so_is_the_limit_of_another_metric(take, caplog):
    for _ in range(2):
        caplog.clear()
        take(rows=1800, drop=0.02, drops={"root_mean_squared_error": 0.1})
        assert "prove a drop under 0.1 of root_mean_squared_error" in caplog.text
        assert "hone.gates.drops.root_mean_squared_error above" in caplog.text


def test_what_cannot_be_proved_on_any_split_is_refused(take, caplog):
    with pytest.raises(HoneError, match="1800 gate rows cannot prove a drop"):
        take(rows=1800, drop=0.003)
    take(rows=1800, drop=0.02)
    assert not caplog.records


@pytest.mark.parametrize("kind", ["proportion", "bootstrap"])
def test_a_source_that_is_right_in_no_row_is_refused(take, kind):
    with pytest.raises(HoneError, match="The source's accuracy is 0 on the search split"):
        take(rows=1800, drop=0.02, metric="accuracy", value=0.0, kind=kind, span=None)
