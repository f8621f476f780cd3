"""What an adaptor's own functions raise or return in the process of the run is a failure of that adaptor alone."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from toolchains.toy import adaptor as toy

from hone_runtime.contract.toolchain import RunOptions
from hone_runtime.values.measurement import Status
from hone_runtime.values.outcome import Failed, FailureClass, Refused
from hone_runtime.values.samples import Reference
from kedro_hone.nodes.validate import validate
from kedro_hone.search.steps.step import transform


class Skipped(BaseException):
    """As pytest's: no ``Exception``."""


class RunsX(RunOptions):
    x: list[int] | None = None


def raise_(error):
    raise error


def returns(value):
    return lambda *_: value


def raises(error):
    return lambda *_: raise_(error)


def make_options(resolve):
    return type("Options", (toy.CompileOptions,), {"resolve": resolve})


REFERENCE = Reference(
    outputs="o", digest="sha256:0", metric="m", value=1, kind="mean", n=1, cold_start_ms=1, peak_memory_bytes=1
)
FAULTS = {
    "can_take raises": ({"can_take": raises(ValueError("no"))}, "can_take failed: ValueError: no"),
    "can_take exits": ({"can_take": raises(SystemExit(0))}, "can_take failed: SystemExit: 0"),
    "can_take skips": ({"can_take": raises(Skipped("it"))}, "can_take failed: Skipped: it"),
    "can_take returns a text": ({"can_take": returns("no")}, "can_take failed: TypeError: 'no' is of the type str"),
    "can_take returns False": ({"can_take": returns(False)}, "can_take failed: TypeError: False is of the type bool"),
    "resolve exits": ({"options": raises(SystemExit(0))}, "Options.resolve failed: SystemExit: 0"),
    "resolve returns nothing": ({"options": returns(None)}, "Options.resolve failed: TypeError: None is of the type"),
    "run_options raises": ({"run_options": raises(KeyError("x"))}, "run_options failed: KeyError: 'x'"),
    "run_options exits": ({"run_options": raises(SystemExit(0))}, "run_options failed: SystemExit: 0"),
    "run_options returns a list": ({"run_options": returns([])}, "run_options failed: TypeError: [] is of the type"),
    "run_options returns no JSON": ({"run_options": returns({"x": sys})}, "run_options failed: TypeError"),
    "run_options that its toolchain does not take": (
        {"run_options": returns({"CACHE_DIR": "x"})},
        "toy takes no run option 'CACHE_DIR'",
    ),
    "run_options returns NaN": ({"run_options": returns({"x": float("nan")})}, "run_options failed: ValueError"),
}


@pytest.mark.attack(
    what="an adaptor that raises, exits or returns nonsense in the host",
    who="worker",
    stopped_by="its answers are checked; it fails alone",
)
@pytest.mark.parametrize(("changes", "words"), FAULTS.values(), ids=FAULTS)
def test_it_is_that_adaptors_failure(context, changes, words):
    own = None
    if resolve := changes.get("options"):
        own = make_options(resolve)()
        changes = {}
    adaptor = replace(toy.COMPILE, **changes)

    outcome = transform(adaptor, own or adaptor.options(), context.source, context, reference=REFERENCE)

    assert isinstance(outcome, Failed), outcome
    assert (outcome.by, outcome.failure, outcome.steps) == ("toy.compile", FailureClass.COMPILE, ())
    assert outcome.reason.startswith(words)
    assert not list((context.run.folder / "steps").glob("*"))  # nothing was built in vain
    validation = validate(context=context, outcome=outcome, reference=REFERENCE, candidate="a", route=("toy.compile",))
    assert (validation.status, validation.slug) == (Status.FAILED, "compile")


def test_what_depends_on_the_machine_is_asked_of_the_defaults_too(context):
    """The recipe's options resolve, and the defaults do not."""

    def resolve(self, host):
        return self if self.wrong else raise_(SystemExit(0))

    options = make_options(resolve)
    adaptor = replace(toy.COMPILE, options=options)

    outcome = transform(adaptor, options(wrong=True), context.source, context, reference=REFERENCE)

    assert isinstance(outcome, Failed), outcome
    assert outcome.reason.startswith("Options.resolve failed: SystemExit: 0")


def test_a_persons_interruption_is_not_an_adaptors_failure(context):
    adaptor = replace(toy.COMPILE, can_take=raises(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        transform(adaptor, adaptor.options(), context.source, context, reference=REFERENCE)


def test_a_good_adaptor_is_built(context):
    taking = replace(toy.TOOLCHAIN, run_options=RunsX)
    adaptor = replace(toy.COMPILE, toolchain=taking, run_options=returns({"x": (1, 2)}))

    outcome = transform(adaptor, adaptor.options(), context.source, context, reference=REFERENCE)

    assert outcome.kind == "artifact", outcome
    assert outcome.run_options == {"x": [1, 2]}


@pytest.mark.parametrize(("adaptor", "kept"), [(toy.COMPILE, False), (toy.COMPRESS, True)])
def test_a_cache_of_keys_and_values_is_not_lost_in_another_format(context, adaptor, kept):
    cached = context.source.model_copy(update={"metadata": {"cache": {"layers": 2, "heads": 2, "head_size": 8}}})
    without = context.source.model_copy(update={"metadata": {"cache": {"absent": "it has none"}}})

    outcome, other = (
        transform(adaptor, adaptor.options(), parent, context, reference=REFERENCE) for parent in (cached, without)
    )

    assert other.kind == "artifact", other
    if kept:
        assert outcome.metadata["cache"] == {"layers": 2, "heads": 2, "head_size": 8}
    else:
        assert isinstance(outcome, Refused), outcome
        assert outcome.reason == "toy would lose the cache of keys and values that this toy-source has"


def test_a_toolchain_that_is_missing_is_left_out_where_the_recipe_says_skip(context, tmp_path):
    (tmp_path / "requirements.in").write_text("no-such-package\n")
    (tmp_path / "requirements.lock").write_text("no-such-package==1.0\n")
    adaptor = replace(toy.COMPILE, toolchain=replace(toy.TOOLCHAIN, folder=tmp_path))
    recipe = context.recipe.model_copy(update={"missing_toolchains": "skip"})

    skipping = replace(context, recipe=recipe)
    outcome = transform(adaptor, adaptor.options(), context.source, skipping, reference=REFERENCE)

    assert isinstance(outcome, Refused), outcome
    assert outcome.slug == "not-installed"
    assert "no-such-package is not installed" in outcome.reason
