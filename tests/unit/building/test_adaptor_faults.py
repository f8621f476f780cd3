"""What an adaptor's own functions raise or return in the process of the run is a failure of that adaptor alone."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from toolchains.toy import adaptor as toy
from toolchains.toy.model import make_model

from kedro_hone.building.steps import transform
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.catalogue import forget_registrations, register
from kedro_hone.core.contract.toolchain import RunOptions
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.costs import read_costs
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.core.values.measurement import Status
from kedro_hone.core.values.outcome import Failed, FailureClass, Refused
from kedro_hone.core.values.samples import Reference, Samples, Split
from kedro_hone.nodes.validate import validate
from kedro_hone.recipe.schema import read_recipe


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


@pytest.fixture
def setting(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    register(*toy.ADAPTORS)
    store, run = Store(tmp_path / "store"), RunFolder(root=tmp_path / "runs", run_id="run", project=tmp_path)
    model = make_model(tmp_path / "source")
    kept = {name: getattr(model, name) for name in ("format", "inputs", "outputs", "runtime")}
    split = Split(name="calibration", n=1, path="p", md5="m", rev="r")
    samples = Samples(
        digest="sha256:0", splits={"calibration": split}, shapes={}, program="p", program_digest="sha256:0"
    )
    recipe = read_recipe({"model": {"uri": "m"}, "program": {"name": "fidelity"}, "toolchains": ["toy"]})
    source = store.seal(tmp_path / "source", **kept)
    yield Setting(source=source, samples=samples, recipe=recipe, store=store, run=run)
    forget_registrations()


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
def test_it_is_that_adaptors_failure(setting, changes, words):
    own = None
    if resolve := changes.get("options"):
        own = make_options(resolve)()
        changes = {}
    adaptor = replace(toy.COMPILE, **changes)

    outcome = transform(adaptor, own or adaptor.options(), setting.source, setting, reference=REFERENCE)

    assert isinstance(outcome, Failed), outcome
    assert (outcome.by, outcome.failure, outcome.steps) == ("toy.compile", FailureClass.COMPILE, ())
    assert outcome.reason.startswith(words)
    assert not list((setting.run.folder / "steps").glob("*"))  # nothing was built in vain
    validation = validate(setting=setting, outcome=outcome, reference=REFERENCE, candidate="a", route=("toy.compile",))
    assert (validation.status, validation.slug) == (Status.FAILED, "compile")


def test_what_depends_on_the_machine_is_asked_of_the_defaults_too(setting):
    """The recipe's options resolve, and the defaults do not."""

    def resolve(self, host):
        return self if self.wrong else raise_(SystemExit(0))

    options = make_options(resolve)
    adaptor = replace(toy.COMPILE, options=options)

    outcome = transform(adaptor, options(wrong=True), setting.source, setting, reference=REFERENCE)

    assert isinstance(outcome, Failed), outcome
    assert outcome.reason.startswith("Options.resolve failed: SystemExit: 0")


def test_a_persons_interruption_is_not_an_adaptors_failure(setting):
    adaptor = replace(toy.COMPILE, can_take=raises(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        transform(adaptor, adaptor.options(), setting.source, setting, reference=REFERENCE)


def test_a_good_adaptor_is_built(setting):
    taking = replace(toy.TOOLCHAIN, run_options=RunsX)
    adaptor = replace(toy.COMPILE, toolchain=taking, run_options=returns({"x": (1, 2)}))

    outcome = transform(adaptor, adaptor.options(), setting.source, setting, reference=REFERENCE)

    assert outcome.kind == "artifact", outcome
    assert outcome.run_options == {"x": [1, 2]}


@pytest.mark.parametrize(("adaptor", "kept"), [(toy.COMPILE, False), (toy.COMPRESS, True)])
def test_a_cache_of_keys_and_values_is_not_lost_in_another_format(setting, adaptor, kept):
    cached = setting.source.model_copy(update={"metadata": {"cache": {"layers": 2, "heads": 2, "head_size": 8}}})
    without = setting.source.model_copy(update={"metadata": {"cache": {"absent": "it has none"}}})

    outcome, other = (
        transform(adaptor, adaptor.options(), parent, setting, reference=REFERENCE) for parent in (cached, without)
    )

    assert other.kind == "artifact", other
    if kept:
        assert outcome.metadata["cache"] == {"layers": 2, "heads": 2, "head_size": 8}
    else:
        assert isinstance(outcome, Refused), outcome
        assert outcome.reason == "toy would lose the cache of keys and values that this toy-source has"


def test_a_toolchain_that_is_missing_is_left_out_where_the_recipe_says_skip(setting, tmp_path):
    (tmp_path / "requirements.in").write_text("no-such-package\n")
    (tmp_path / "requirements.lock").write_text("no-such-package==1.0\n")
    adaptor = replace(toy.COMPILE, toolchain=replace(toy.TOOLCHAIN, folder=tmp_path))
    recipe = setting.recipe.model_copy(update={"missing_toolchains": "skip"})

    skipping = replace(setting, recipe=recipe)
    outcome = transform(adaptor, adaptor.options(), setting.source, skipping, reference=REFERENCE)

    assert isinstance(outcome, Refused), outcome
    assert outcome.slug == "not-installed"
    assert "no-such-package is not installed" in outcome.reason


OUT_OF_TIME = Failed(by="toy.compile", failure=FailureClass.TIME_OUT, reason="late")
RAN = [
    pytest.param(Failed(by="toy.compile", failure=FailureClass.COMPILE, reason="no"), 1e9, ["failed"], id="failed"),
    pytest.param(Failed(by="toy.compile", failure=FailureClass.DISK_FULL, reason="no"), 1e9, [], id="disk full"),
    pytest.param(Refused(by="toy.compile", reason="no"), 1e9, ["refused"], id="refused"),
    pytest.param(OUT_OF_TIME, 100.0, ["cut"], id="ended by the budget"),
]


@pytest.mark.parametrize(("outcome", "budget", "kept"), RAN)
def test_what_a_step_took_is_remembered_but_for_what_passes(setting, monkeypatch, outcome, budget, kept):
    recipe = setting.recipe.model_copy(update={"budget": budget})
    monkeypatch.setattr("kedro_hone.building.steps._Step._run", lambda *_: outcome)
    transform(toy.COMPILE, toy.COMPILE.options(), setting.source, replace(setting, recipe=recipe), reference=REFERENCE)
    assert [row.outcome for row in read_costs(setting.store.memory)] == kept


def test_a_memory_that_cannot_be_written_loses_no_build(setting, monkeypatch):
    (setting.store.memory / "costs.jsonl").mkdir(parents=True)
    for _ in range(2):
        outcome = transform(toy.COMPILE, toy.COMPILE.options(), setting.source, setting, reference=REFERENCE)
        assert outcome.kind == "artifact"
    assert len(list((setting.run.folder / "steps").glob("0*"))) == 1, "the second time it is taken from the store"
