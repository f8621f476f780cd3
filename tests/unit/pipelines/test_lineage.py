"""What a value was made from, and that values of different models, recipes or runs are refused together."""

from __future__ import annotations

import os

import pytest

from hone_runtime.contract.registry import VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import RaceResult
from hone_runtime.values.samples import Reference
from kedro_hone.pipelines.binding import digest_recipe, trace
from kedro_hone.recipe.schema import read_recipe

VERSION = VersionInfo(uri="models:/x/1", name="x", version="1")


def digest(project, **recipe):
    given = {"model": {"uri": "m"}, "program": {"name": "fidelity", "metric": "mine.py:score"}, **recipe}
    return digest_recipe(read_recipe(given), project=project)


def find_changed(one, other):
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "mine.py").write_text("def score(): return 1")
    return tmp_path


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"publish": {"name": "elsewhere", "alias": "best"}}, set()),
        ({"model": {"uri": "n"}}, {"model", "model.uri"}),
        ({"gates": {"speedup": 1.5}}, {"gates", "gates.speedup"}),
        ({"gates": {"size_mb": 3.0}}, {"gates", "gates.size_mb"}),
        ({"budget": "thorough"}, {"budget"}),
        ({"shapes": {"batch1": {"batch": 2}}}, {"shapes"}),
        ({"calibration_rows": 7}, {"calibration_rows"}),
        (
            {"adaptors": {"onnxruntime.session": {"options": {"optimization": "basic"}}}},
            {"adaptors", "adaptors.onnxruntime.session"},
        ),
        (
            {"adaptors": {"onnxruntime.session": {"options": {"optimization": ["all", "basic"]}}}},
            {"adaptors", "adaptors.onnxruntime.session"},
        ),
    ],
    ids=["publish", "model", "gate", "ceiling", "thorough", "shapes", "rows", "options", "several options"],
)
def test_a_key_of_the_recipe_has_a_digest_of_its_own(project, change, changed):
    assert find_changed(digest(project), digest(project, **change)) == {f"hone.{key}" for key in changed}


def test_what_a_recipe_does_not_say_counts_too(project, monkeypatch):
    """The code of the user's metric, the machine's cores where no threads are named, and a default of an adaptor."""
    before = digest(project)
    (project / "mine.py").write_text("def score(): return 2")
    assert find_changed(before, digest(project)) == {"hone.program", "hone.program.metric"}
    before = digest(project)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    assert find_changed(before, digest(project)) == {"hone.threads"}


def make_source(content="sha256:0", **made_from):
    return Artifact(format="onnx", digest=content, inputs=(), outputs=(), made_from=made_from)


def make_race(seconds=1.0, **made_from):
    return RaceResult(
        validations=(), standings=(), source_latency=(), rounds=1, seconds=seconds, budget_ended=False, timings="",
        made_from=made_from,
    )  # fmt: skip


def refuse(values, recipe=None):
    with pytest.raises(HoneError) as caught:
        trace(values, recipe or {})
    assert caught.value.slug == "value-outdated"
    return caught.value


def test_a_result_is_made_from_its_inputs_and_all_that_they_were_made_from():
    source = make_source(**{"hone.model": "m", "version": VERSION.identity})
    recipe = {"hone.model": "m", "hone.gates": "g", "hone.race": "r"}
    made = trace({"source": source, "version": VERSION, "store": object()}, recipe, decided_by=["gates"])
    assert made == {"hone.model": "m", "hone.gates": "g", "version": VERSION.identity, "source": "sha256:0"}


def test_a_source_that_was_pulled_as_another_version_is_refused():
    source = make_source(version=VERSION.identity)
    other = VERSION.model_copy(update={"uri": "models:/other/1"})
    assert "'version'" in refuse({"source": source, "version": other}).what
    renamed = VERSION.model_copy(update={"name": "elsewhere"})
    refuse({"source": source, "version": renamed})
    tagged = VERSION.model_copy(update={"aliases": ("champion",), "tags": {"a": "b"}})
    trace({"source": source, "version": tagged}, {})


def test_a_value_that_was_made_from_another_value_is_refused():
    race = make_race(source="sha256:0")
    confirmation = make_race(race=race.identity)
    trace({"race": race, "confirmation": confirmation}, {})
    again = make_race(seconds=2.0, source="sha256:0")
    error = refuse({"race": again, "confirmation": confirmation})
    assert "'confirmation'" in error.what
    assert "'race'" in error.why


def test_values_that_were_made_from_different_values_are_refused_where_neither_is_given():
    error = refuse({"one": make_race(reference="a"), "other": make_race(reference="b")})
    assert "'reference'" in error.why


@pytest.mark.parametrize("recipe", [{"hone.model": "n"}, {}], ids=["changed", "gone"])
def test_a_value_of_another_recipe_is_refused(recipe):
    error = refuse({"source": make_source(**{"hone.model": "m"})}, recipe)
    assert "'hone.model'" in error.why


def test_a_value_that_names_nothing_is_refused():
    error = refuse({"source": make_source()})
    assert "'version of kedro-hone'" in error.why


def test_a_baseline_that_is_taken_again_is_the_same():
    reference = Reference(
        outputs="o", digest="sha256:5", metric="accuracy", value=0.9, kind="proportion", n=500, cold_start_ms=3.0,
        peak_memory_bytes=1000, run="1", since="1",
    )  # fmt: skip
    assert reference.model_copy(update={"since": "2", "run": "2"}).identity == reference.identity
    assert reference.model_copy(update={"value": 0.8}).identity != reference.identity
