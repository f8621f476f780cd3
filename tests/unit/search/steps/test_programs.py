"""What a worker gets to measure outputs as the gates do, and when it measures again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from toolchains.toy import adaptor as toy

from hone_runtime.contract.adaptor import Need
from hone_runtime.errors import HoneError
from hone_runtime.values.samples import SEARCH, Reference
from kedro_hone.search.steps.programs import describe_program, digest_program

OWN = "measures/own.py:spread"
TUNES = replace(toy.COMPILE, needs=frozenset({Need.PROGRAM, Need.DROP_LIMIT}))
TRAINS = replace(toy.COMPILE, needs=frozenset({Need.PROGRAM}))


@pytest.fixture
def make(context):
    """Return a context whose recipe has a metric and limits of others."""
    path = context.run.project / "measures" / "own.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("def spread(given, wanted, options): return 0.0")

    def make(metric, **drops):
        recipe = context.recipe
        program = recipe.program.model_copy(update={"metric": metric})
        gates = recipe.gates.model_copy(
            update={"drops": {name.replace("own", OWN): one for name, one in drops.items()}}
        )
        search = SimpleNamespace(feeds="feeds.npz", targets="targets.npz")
        return SimpleNamespace(
            recipe=recipe.model_copy(update={"program": program, "gates": gates}),
            samples=SimpleNamespace(digest=context.samples.digest, splits={SEARCH: search}),
            run=context.run,
            source=context.source,
            program=context.run.project / "program.py",
            store=SimpleNamespace(locate_tree=lambda _: context.run.project),
            locate=lambda name: name,
        )

    make.path = path
    return make


@pytest.fixture
def reference(context):
    return Reference.model_construct(digest=context.source.digest, outputs="outputs.npz", training="training.npz")


def test_what_tunes_gets_every_metric_with_its_limit(make, reference):
    context = make("f1_macro", accuracy=0.02, own=0.1)
    row = describe_program(TUNES, context.source, context, reference)
    assert row["metric"] == "f1_macro"
    assert row["drops"] == {
        "accuracy": {"metric": "accuracy", "limit": 0.02},
        OWN: {"metric": f"{make.path}:spread", "limit": 0.1},
    }
    assert row["files"] == [str(make.path)], "the sandbox shows no other file of the project"
    assert describe_program(TRAINS, context.source, context, reference)["drops"] == {}


def test_it_measures_again_if_a_limit_changes(make, reference):
    """Another metric or another file is another reference."""
    first = make("accuracy", own=0.1)
    assert digest_program(TUNES, make("accuracy", own=0.2), reference) != digest_program(TUNES, first, reference)
    assert digest_program(TRAINS, first, reference) == digest_program(TRAINS, make("accuracy"), reference)
    assert digest_program(toy.COMPILE, first, reference) is None
    assert describe_program(toy.COMPILE, first.source, first, reference) is None


def test_a_metric_without_a_file_is_an_error(make, reference):
    context = make("measures/gone.py:spread")
    with pytest.raises(HoneError) as error:
        describe_program(TUNES, context.source, context, reference)
    assert error.value.slug == "metric-unknown"
