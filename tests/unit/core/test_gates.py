from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import pytest
from pydantic import Field

from hone_runtime.errors import HoneError
from hone_runtime.values.judgement import GateOutcome, Judgement
from kedro_hone.core import gates
from kedro_hone.core.gates import Gate, Measurements, read_gates, register_gate
from kedro_hone.search.ceilings import make_ceiling
from kedro_hone.search.gates import drop

MODULE = """
from pydantic import Field
from kedro_hone.core.gates import Gate

def judge(limit, candidate, source):
    return ()

GATE = Gate(name="{name}", takes=float | None, field=Field(default=None, description="One."), judge=judge)
"""


@pytest.fixture(autouse=True)
def _forget():
    gates.forget_gates()
    yield
    gates.forget_gates()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of modules and installed distributions; its modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in {name for name in set(sys.modules) - before if name.startswith("fake_")}:
        del sys.modules[name]


def install(site, text, *, target="fake_gate:GATE"):
    (site / "fake_gate.py").write_text(text)
    info = site / "fake_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kedro_hone.gates]\nmine = {target}\n")


def judge_nothing(limit, candidate, source):
    return ()


def judge_otherwise(limit, candidate, source):
    return ()


def make(name, judge=judge_nothing):
    return Gate(name=name, takes=float | None, field=Field(default=None, description="One."), judge=judge)


def list_names():
    return {gate.name for gate in read_gates()}


def test_a_package_brings_a_gate(site):
    install(site, MODULE.format(name="joules"))

    assert "joules" in list_names()


def test_a_project_registers_a_gate_as_often_as_it_likes():
    before = list_names()
    register_gate(make("joules"))
    register_gate(make("joules"))

    assert list_names() - before == {"joules"}


def test_two_gates_of_one_name_are_refused():
    register_gate(make("joules"))
    with pytest.raises(HoneError, match="Two gates are named 'joules'") as caught:
        register_gate(make("joules", judge=judge_otherwise))
    assert caught.value.slug == "gate-invalid"
    assert caught.value.why == (
        f"One comes from the project ({__name__}.judge_nothing), another from the project ({__name__}.judge_otherwise)."
    )

    register_gate(make("size_mb"))
    with pytest.raises(HoneError, match=r"kedro_hone\.search\.gates\.size:GATE\), another from the project"):
        read_gates()


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        (
            "import nothing_of_that_name\n",
            "fake_gate:GATE",
            "ModuleNotFoundError: No module named 'nothing_of_that_name'",
        ),
        ("", "fake_gate:GATE", "has no attribute 'GATE'"),
        ("GATE = 3\n", "fake_gate:GATE", "TypeError: 3 is of the type int, not Gate"),
        ("import sys; sys.exit(0)\n", "fake_gate:GATE", "SystemExit: 0"),
    ],
)
def test_a_gate_that_cannot_be_loaded_ends_the_run(site, text, target, words):
    install(site, text, target=target)
    with pytest.raises(HoneError) as caught:
        read_gates()

    assert caught.value.slug == "gate-invalid"
    assert f"the package fake-package ({target})" in caught.value.what
    assert words in caught.value.why
    assert "Write a gate in the documentation" in caught.value.hint


@pytest.mark.parametrize("changes", [{"name": "no identifier"}, {"field": Field(default=None)}, {"field": 1.0}])
def test_a_gate_needs_a_name_and_a_description(changes):
    given = {"name": "joules", "takes": float, "field": Field(default=1.0, description="One."), "judge": judge_nothing}
    with pytest.raises(ValueError, match="identifier"):
        Gate(**given | changes)


NUMBER = Field(default=None, description="One.")
SHAPES = Field(default_factory=dict, description="Some.")
BY_SHAPE = {"takes": dict[str, float], "field": SHAPES}
FAULTY = [
    ({"asks": "under {max}"}, "its asks has the place {max}, and there is {limit}"),
    ({"asks": "in {a set}"}, "its asks has the place {a set}"),
    ({"asks": "{} is"}, "its asks has the place {}"),
    ({"asks": "{limit"}, "its asks is not a template of a sentence: ValueError"),
    ({"asks": 3}, "its asks is not a template of a sentence: TypeError"),
    ({**BY_SHAPE, "asks": "{limit:g} ok"}, "its asks cannot be written with a limit of {'shape': 1.0}: TypeError"),
    ({"asks": "{limit.real.x} ok"}, "its asks cannot be written with a limit of 1.0: AttributeError"),
    ({"doubt": "{candidate} is odd"}, "its doubt has the place {candidate}, and there is {names} and {limit} and"),
    ({"doubt": "{limit:d} of {names}"}, "its doubt cannot be written with a limit of 1.0: ValueError"),
    ({"name": "_x"}, "its limit cannot be a key of the recipe: PydanticUserError: Fields must not use"),
    ({"takes": object()}, "its limit cannot be a key of the recipe: PydanticSchemaGenerationError"),
    ({"takes": "NoSuchType"}, "its limit cannot be a key of the recipe: "),
    ({"takes": float, "field": Field(default="x", description="d")}, "its limit cannot be a key of the recipe: Valid"),
    ({"takes": float, "field": Field(description="d")}, "its field has no default"),
    ({"field": Field(default=None, description="d", alias="other")}, "its field has an alias"),
    ({"per_shape": True}, "it is per_shape"),
    ({"takes": dict[str, float] | None, "field": NUMBER, "per_shape": True}, "it is per_shape"),
    ({"takes": list[float], "field": Field(default_factory=list, description="d"), "per_shape": True}, "it is per_"),
    ({"judge": 3}, "its judge is 3, which cannot be called"),
]


@pytest.mark.parametrize(("changes", "words"), FAULTY)
def test_a_gate_that_would_fail_later_is_refused_when_it_is_registered(changes, words):
    given = {"name": "joules", "takes": float | None, "field": NUMBER, "judge": judge_nothing, "relative": True}
    gate = Gate(**given | changes)

    with pytest.raises(HoneError) as caught:
        register_gate(gate)
    assert caught.value.slug == "gate-invalid"
    assert f"The gate '{gate.name}'" in caught.value.what
    assert caught.value.why.startswith(words)
    assert gate.name not in list_names()


def test_a_faulty_gate_of_a_package_is_named(site):
    install(site, MODULE.format(name="joules").replace("judge=judge)", "judge=judge, asks='under {max}')"))

    with pytest.raises(HoneError) as caught:
        read_gates()
    assert caught.value.why == "ValueError: the gate 'joules': its asks has the place {max}, and there is {limit}"


@pytest.mark.parametrize(
    "changes",
    [
        {"asks": "{limit:g} times as good", "doubt": "{launches} cannot tell {names} at {limit:.2f}"},
        {"takes": int, "field": Field(default=5, gt=3, lt=9, description="d"), "asks": "{limit:d} of them"},
        {**BY_SHAPE, "asks": "{limit[shape]} ok", "per_shape": True},
        {"takes": str | None, "asks": "{limit!r} or {{braces}}"},
    ],
)
def test_a_good_gate_is_taken(changes):
    gate = Gate(**{"name": "joules", "takes": float | None, "field": NUMBER, "judge": judge_nothing} | changes)
    register_gate(gate)

    assert gate in read_gates()


def test_a_judge_that_returns_nothing_has_not_decided():
    (judgement,) = make("joules").evaluate(1.0, Measurements(id="a"), Measurements(id="source"))

    assert judgement.judgement is GateOutcome.UNDECIDED
    assert judgement.reason == "the gate joules returned no judgement on a"


def judge_by(call, limit, candidate, source):
    return call()


def hold(**changes):
    return Judgement(**{"name": "joules", "candidate": "a", "judgement": GateOutcome.HOLDS} | changes)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: sys.exit(0), "SystemExit: 0"),
        (lambda: None, "NoneType"),
        (lambda: True, "bool"),
        (lambda: [True], "bool"),
        (lambda: (1 / 0 for _ in range(1)), "ZeroDivisionError"),
        (lambda: [hold(), hold(name="drop")], "drop"),
        (lambda: [hold(candidate="other")], "other"),
    ],
)
def test_a_judge_that_does_not_judge_ends_the_run(call, words):
    gate = make("joules", judge=partial(judge_by, call))
    with pytest.raises(HoneError) as caught:
        gate.evaluate(1.0, Measurements(id="a"), Measurements(id="source"))

    assert caught.value.slug == "gate-invalid"
    assert caught.value.what == "The gate joules cannot judge a."
    assert caught.value.why.startswith("functools.partial failed: ")
    assert words in caught.value.why
    assert "set no limit for it" in caught.value.hint


def test_a_judge_judges_each_shape():
    gate = make("joules", judge=partial(judge_by, lambda: (hold(shape=shape) for shape in ("one", "two"))))

    rows = gate.evaluate(1.0, Measurements(id="a"), Measurements(id="source"))

    assert [row.shape for row in rows] == ["one", "two"]


def test_a_gate_made_as_a_built_in_one_is_made_does_not_replace_it():
    mine = make_ceiling("size_mb", lambda _: 0.0, unit="MB", subject="{}", description="Mine.")
    register_gate(mine)

    with pytest.raises(HoneError, match="Two gates are named 'size_mb'"):
        read_gates()


def test_a_changed_copy_of_a_built_in_gate_does_not_replace_it():
    off = replace(drop.GATE, takes=float | None, field=Field(default=None, description="Off."))
    register_gate(off)

    with pytest.raises(HoneError, match="Two gates are named 'drop'"):
        read_gates()


def test_a_built_in_gate_that_is_registered_too_is_one_gate():
    register_gate(drop.GATE)

    assert [gate for gate in read_gates() if gate.name == "drop"] == [drop.GATE]


def test_a_gate_of_a_package_is_not_replaced_by_a_registered_one(site):
    install(site, MODULE.format(name="joules"))
    import fake_gate

    register_gate(replace(fake_gate.GATE))

    with pytest.raises(HoneError, match="the package fake-package"):
        read_gates()


def test_a_project_that_is_loaded_again_replaces_its_own_gate():
    register_gate(make("joules"))
    edited = make("joules")
    register_gate(edited)

    assert edited in read_gates()


def test_a_gate_of_the_machine_is_relative():
    gate = {"name": "g", "takes": float, "field": NUMBER, "judge": lambda *_: ()}
    assert Gate(**gate, of_machine=True, relative=True).of_machine
    with pytest.raises(ValueError, match="of_machine, and so it must be relative"):
        Gate(**gate, of_machine=True)
