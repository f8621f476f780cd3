from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from toolchains.toy.model import make_model

from kedro_hone.building import hopeless
from kedro_hone.building import memory as module
from kedro_hone.building.hopeless import explain_hopeless
from kedro_hone.building.memory import SHIPPED, UNKNOWN, Memory
from kedro_hone.core.contract.catalogue import read_catalogue
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.costs import Cost, read_costs
from kedro_hone.core.values.artifact import StepFacts, TensorSpec
from kedro_hone.core.values.measurement import Interval, Standing, Status, Validation
from kedro_hone.core.values.outcome import Candidate, Failed, FailureClass
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.schema import read_recipe

DEEPSPARSE = read_catalogue().adaptors["deepsparse.engine"].options
RECIPE = read_recipe({"model": {"uri": "m"}})
USUAL = {"session": ("pytorch.onnx", "onnxruntime.session"), "engine": ("pytorch.onnx", "deepsparse.engine")}
FAST, SLOW = ("x.fast",), ("x.quantize", "x.slow")


@pytest.fixture
def make_memory(tmp_path):
    model = make_model(tmp_path / "source")
    kept = {name: getattr(model, name) for name in ("format", "inputs", "outputs", "runtime")}
    store = Store(tmp_path / "store")
    source = store.seal(tmp_path / "source", **kept)
    return lambda recipe=None: Memory(store, source, read_host(), recipe)


def keep_race(memory, ratios=None, **speedups):
    routes = {"fast": FAST, "slow": SLOW, "other": ("x.other",), "third": ("x.third",)} | USUAL
    validations = {
        name: Validation(
            candidate=Candidate(id=name, route=routes[name], outcome=memory.source), status=Status.MEASURED, seconds=2.0
        )
        for name in speedups
    }
    memory.keep_race(
        validations,
        [
            Standing(
                id=name,
                status=Status.MEASURED,
                rounds=5,
                objective=Interval(estimate=it, low=it, high=it),
                ratios=(ratios or {}).get(name, {}),
            )
            for name, it in speedups.items()
        ],
    )


def test_of_the_same_model_the_newest_rows_count(make_memory):
    for speed in (1.0,) * 6 + (4.0,) * 5:  # a newer version of the toolchain is as fast as the best
        keep_race(make_memory(), fast=4.0, slow=speed)
    assert make_memory().find_share(SLOW).share == pytest.approx(1.0)


def test_a_share_is_remembered_at_each_batch_size(make_memory):
    recipe = read_recipe({"model": {"uri": "m"}, "shapes": {"one": {"batch": 1}, "many": {"batch": 32}}})
    ratios = {"fast": {"one": 4.0, "many": 1.0}, "slow": {"one": 2.0, "many": 2.0}}
    keep_race(make_memory(recipe), ratios, fast=2.5, slow=2.0)
    memory = make_memory(recipe)
    assert [memory.find_share(FAST, batch).share for batch in (1, 32, None)] == pytest.approx([1.0, 0.5, 1.0])
    assert [memory.find_share(SLOW, batch).share for batch in (1, 32)] == pytest.approx([0.5, 1.0])
    assert [memory.find_share(FAST, batch).share for batch in (2, 64)] == pytest.approx([1.0, 0.5]), "the nearest"


def test_a_batch_size_of_which_two_shapes_have_their_own_fastest_tells_no_ratio(make_memory):
    sizes = {"short": {"batch": 1, "length": 8}, "long": {"batch": 1, "length": 512}}
    recipe = read_recipe({"model": {"uri": "m"}, "shapes": sizes})
    ratios = {"fast": {"short": 3.0, "long": 10.0}, "slow": {"short": 8.0, "long": 5.0}}
    for _ in range(5):
        keep_race(make_memory(recipe), ratios, fast=3.0, slow=5.0)
    memory = make_memory(recipe)
    assert memory.find_share(SLOW, 1).share == pytest.approx(1.0), "that at the shape where it is largest"
    assert explain_hopeless(memory, [SLOW], [FAST], recipe=recipe) is None


def test_where_two_shapes_have_one_batch_size_nothing_is_left_out(make_memory):
    one = read_recipe({"model": {"uri": "m"}, "shapes": {"x": {"batch": 1}}})
    two = read_recipe({"model": {"uri": "m"}, "shapes": {"x": {"batch": 1}, "y": {"batch": 1, "length": 9}}})
    for _ in range(5):
        keep_race(make_memory(one), {"fast": {"x": 4.0}, "slow": {"x": 1.0}}, fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(one), [SLOW], [FAST], recipe=one)
    assert explain_hopeless(make_memory(two), [SLOW], [FAST], recipe=two) is None


@pytest.mark.parametrize(
    ("told", "held", "named"),
    [
        ({}, {"fast", "slow"}, {"slow"}),
        ({}, {"slow"}, set()),
        ({"publishable": False}, {"fast", "slow"}, set()),
        ({"status": Status.DROPPED}, {"fast", "slow"}, set()),
    ],
    ids=["all held", "the fast one failed", "may not be published", "not valid"],
)
def test_who_need_not_race_next_to_those_that_held(make_memory, monkeypatch, told, held, named):
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    memory = make_memory()
    fast, slow = (
        Validation(candidate=Candidate(id=name, route=route, outcome=memory.source), status=Status.MEASURED)
        for name, route in {"fast": FAST, "slow": SLOW}.items()
    )
    recipe = read_recipe({"model": {"uri": "m"}, "budget": 100.0})
    monkeypatch.setattr(hopeless, "start_budget", lambda _: SimpleNamespace(ends=True))
    setting = SimpleNamespace(recipe=recipe)
    found = hopeless.list_hopeless([fast.model_copy(update=told), slow], memory, setting, held)
    assert found.keys() == named


def test_a_far_batch_size_leaves_nothing_out(make_memory):
    recipe, large = (read_recipe({"model": {"uri": "m"}, "shapes": {"x": {"batch": n}}}) for n in (1, 256))
    for _ in range(5):
        keep_race(make_memory(recipe), {"fast": {"x": 4.0}, "slow": {"x": 1.0}}, fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(recipe), [SLOW], [FAST], recipe=recipe)
    assert explain_hopeless(make_memory(large), [SLOW], [FAST], recipe=large) is None


def test_what_was_measured_with_far_more_threads_leaves_nothing_out(make_memory):
    one, many = (read_recipe({"model": {"uri": "m"}, "threads": n}) for n in (1, 64))
    for _ in range(5):
        keep_race(make_memory(many), fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(many), [SLOW], [FAST], recipe=many)
    assert explain_hopeless(make_memory(one), [SLOW], [FAST], recipe=one) is None


def test_what_was_measured_with_other_versions_leaves_nothing_out(make_memory, monkeypatch):
    recipe, versions = read_recipe({"model": {"uri": "m"}}), {"name": "before"}
    monkeypatch.setattr("kedro_hone.building.memory.digest_versions", lambda _: versions["name"])
    for _ in range(5):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(), [SLOW], [FAST], recipe=recipe)
    versions["name"] = "after"
    assert explain_hopeless(make_memory(), [SLOW], [FAST], recipe=recipe) is None


def test_where_no_batch_size_was_remembered_the_largest_share_counts(make_memory):
    keep_race(make_memory(), fast=4.0, slow=1.0)
    assert make_memory().find_share(SLOW, 64).share == pytest.approx(0.25)


def test_who_failed_in_the_race_is_not_remembered(make_memory):
    memory = make_memory()
    validation = Validation(
        candidate=Candidate(id="fast", route=FAST, outcome=memory.source), status=Status.MEASURED, seconds=2.0
    )
    failed = Standing(id="fast", status=Status.FAILED, rounds=3, objective=Interval(estimate=9.0, low=9.0, high=9.0))
    memory.keep_race({"fast": validation}, [failed])
    assert make_memory().find_share(FAST) is None


def test_what_a_search_asks_at_each_turn_is_worked_out_once_from_the_rows_that_there_were(make_memory, monkeypatch):
    """With fourteen toolchains the turns of a search took minutes."""
    memory, asked = make_memory(), []
    monkeypatch.setattr(module, "guess_seconds", lambda _, like, **_least: asked.append(like.what))
    for _ in range(3):
        assert memory.guess_step("x.fast", "toy") is None
        assert memory.guess_route(FAST) is None
    assert asked == ["x.fast", "x.fast", ">".join(FAST)]  # a step with its options, and with the defaults
    assert memory.is_current()
    facts = StepFacts(key="k", adaptor="x.fast", run="r", folder="f", seconds=4.0, outcome="artifact")
    memory.keep_step(facts, "toy")
    assert not memory.is_current()
    assert make_memory().is_current()


def test_of_two_candidates_with_one_route_the_faster_one_is_remembered(make_memory):
    """Such as those that ``pytorch.torchscript`` makes of the source, and of a conversion of it."""
    memory = make_memory()
    one, other = (
        Validation(candidate=Candidate(id=name, route=SLOW, outcome=memory.source), status=Status.MEASURED)
        for name in ("a", "b")
    )
    standings = [
        Standing(id=name, status=Status.MEASURED, rounds=5, objective=Interval(estimate=it, low=it, high=it))
        for name, it in {"a": 4.0, "b": 1.0}.items()
    ]
    memory.keep_race({"a": one, "b": other}, standings)
    assert make_memory().find_share(SLOW).share == pytest.approx(1.0)


def test_what_was_measured_with_short_rows_leaves_nothing_out_of_long_ones(make_memory, tmp_path):
    short, long = (read_recipe({"model": {"uri": "m"}, "shapes": {"x": {"batch": 1, "length": n}}}) for n in (8, 4096))
    spec = TensorSpec(name="ids", dtype="int64", shape=("batch", "length"))
    source = make_memory().source.model_copy(update={"inputs": (spec,)})
    make = partial(Memory, Store(tmp_path / "store"), source, read_host())
    for _ in range(5):
        keep_race(make(short), {"fast": {"x": 4.0}, "slow": {"x": 1.0}}, fast=4.0, slow=1.0)
    assert explain_hopeless(make(short), [SLOW], [FAST], recipe=short)
    assert explain_hopeless(make(long), [SLOW], [FAST], recipe=long) is None


def test_one_slow_build_leaves_nothing_out(make_memory):
    facts = StepFacts(key="k", adaptor="x.slow", run="r", folder="f", seconds=60.0, outcome="artifact")
    make_memory().keep_step(facts, "onnx")
    assert make_memory().guess_step("x.slow", "onnx", least=2) is None
    assert make_memory().guess_step("x.slow", "onnx") == pytest.approx(60.0)
    make_memory().keep_step(facts, "onnx", cut=True)
    assert make_memory().guess_step("x.slow", "onnx", least=2) == pytest.approx(60.0)


def test_with_options_of_which_too_little_is_known_a_build_takes_what_it_takes_by_default(make_memory):
    facts = StepFacts(key="k", adaptor="iree.cpu", run="r", folder="f", seconds=60.0, outcome="artifact")
    options = read_catalogue().adaptors["iree.cpu"].options(stack_bytes=65536)
    for _ in range(2):
        make_memory().keep_step(facts, "toy")
    assert make_memory().guess_step("iree.cpu", "toy", options, least=2) == pytest.approx(60.0)
    for _ in range(2):
        make_memory().keep_step(facts.model_copy(update={"seconds": 5.0}), "toy", options)
    assert make_memory().guess_step("iree.cpu", "toy", options, least=2) == pytest.approx(5.0)


def test_a_memory_that_cannot_be_written_is_a_warning(make_memory, caplog, monkeypatch):
    def fail(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(module, "write_cost", fail)
    with caplog.at_level("WARNING"):
        keep_race(make_memory(), fast=4.0)
    assert caplog.messages == ["memory    keeps nothing of x.fast: [Errno 1] Operation not permitted"]


def keep_fruitless(memory, *, seconds=2.0, status=Status.FAILED, run="", since="", slug="", step=""):
    outcome = memory.source if status is Status.DROPPED else Failed(by="x", failure=FailureClass.CRASH, reason="gone")
    if step:
        facts = StepFacts(key="k", adaptor="x.quantize", run="", folder="f", seconds=60.0, outcome=step)
        outcome = outcome.model_copy(update={"steps": (facts,)})
    candidate = Candidate(id="slow", route=SLOW, outcome=outcome)
    one = Validation(candidate=candidate, status=status, seconds=seconds, run=run, since=since, slug=slug)
    memory.keep_fruitless([one])


@pytest.mark.parametrize("status", [Status.FAILED, Status.DROPPED])
def test_what_came_to_nothing_is_less_likely_to_race(make_memory, status):
    assert make_memory().find_chance(SLOW) == 1.0
    keep_fruitless(make_memory(), status=status)
    assert make_memory().find_chance(SLOW) == pytest.approx(1 / 2)
    keep_race(make_memory(), fast=4.0, slow=2.0)
    assert make_memory().find_chance(SLOW) == pytest.approx(2 / 3)
    assert make_memory().find_chance(FAST) == 1.0
    assert make_memory().find_share(SLOW).share == pytest.approx(0.5), "what did not race has no share"
    assert make_memory().guess_route(SLOW) == pytest.approx(2.0)


def test_a_step_that_failed_after_a_while_counts(make_memory):
    keep_fruitless(make_memory(), seconds=0.0, step="failed")
    assert make_memory().find_chance(SLOW) == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    "told",
    [
        {"seconds": 0.5},
        {"status": Status.NOT_TRIED},
        {"run": "20260101", "since": "20260102"},
        {"slug": FailureClass.KILLED},
        {"seconds": 0.5, "step": "artifact"},
    ],
    ids=["at once", "not tried", "earlier", "killed", "what it shares with others"],
)
def test_what_cost_nothing_or_is_of_an_earlier_run_leaves_no_row(make_memory, told):
    keep_fruitless(make_memory(), **told)
    assert make_memory().find_chance(SLOW) == 1.0


def test_a_step_takes_what_it_took(make_memory):
    assert make_memory().guess_step("x.fast", "toy") is None
    facts = StepFacts(key="k", adaptor="x.fast", run="r", folder="f", seconds=4.0, outcome="artifact")
    make_memory().keep_step(facts, "toy")
    assert make_memory().guess_step("x.fast", "toy") == 4.0
    assert make_memory().guess_step("x.fast", "onnx") is None


def test_a_route_has_the_share_that_it_had(make_memory):
    keep_race(make_memory(), fast=4.0, slow=1.0)
    assert [make_memory().guess_route(one) for one in (FAST, SLOW, ("x.other",))] == [2.0, 2.0, None]
    assert make_memory().find_share(FAST).share == 1.0
    assert make_memory().find_share(SLOW).share == pytest.approx(0.25)
    assert make_memory().find_share(("x.other",)) is None


def test_who_is_fast_at_one_shape_only_has_the_share_of_that_shape(make_memory):
    ratios = {"fast": {"one": 5.0, "many": 4.0}, "slow": {"one": 4.5, "many": 1.0}}
    keep_race(make_memory(), ratios, fast=4.0, slow=1.0)
    assert make_memory().find_share(SLOW).share == pytest.approx(0.9)


def test_what_was_measured_with_options_of_a_recipe_says_nothing_of_the_defaults(make_memory):
    own = read_recipe({"model": {"uri": "m"}, "adaptors": {"x.slow": {"options": {"bits": 2}}}})
    keep_race(make_memory(own), fast=4.0, slow=1.0)
    assert make_memory().find_share(SLOW) is None
    assert make_memory().find_share(FAST).share == 1.0
    assert make_memory(own).find_share(SLOW).share == pytest.approx(0.25)


def test_one_race_of_the_rival_is_not_enough_either(make_memory):
    keep_race(make_memory(), fast=4.0, slow=1.0)
    keep_race(make_memory(), slow=1.0, other=4.0)
    assert explain_hopeless(make_memory(), [SLOW], [FAST], recipe=RECIPE) is None


def test_one_race_is_not_enough_to_leave_a_route_out(make_memory):
    keep_race(make_memory(), fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(), [SLOW], [FAST], recipe=RECIPE) is None


def test_what_was_far_behind_twice_is_left_out(make_memory):
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    said = explain_hopeless(make_memory(), [SLOW], [FAST], recipe=RECIPE)
    assert said.startswith(
        "on similar models it was 0.25 times as fast as x.fast, and it is expected to gain less than 2% over that"
    )
    assert explain_hopeless(make_memory(), [FAST], [FAST], recipe=RECIPE) is None


@pytest.mark.parametrize(("speed", "tried"), [(3.1, True), (2.9, False)])
def test_what_would_gain_less_than_the_noise_is_left_out_though_it_may_win(make_memory, speed, tried):
    """At 0.775 times the speed of the fastest it gains 2.6 %, at 0.725 times 1.6 %; its chances are 18 % and 13 %."""
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=speed)
    assert (explain_hopeless(make_memory(), [SLOW], [FAST], recipe=RECIPE) is None) is tried


SHAPES = read_recipe({"model": {"uri": "m"}, "shapes": {"one": {"batch": 1}, "many": {"batch": 32}}})


@pytest.mark.parametrize(("races", "tried"), [(2, True), (3, False)])
def test_what_was_behind_in_the_same_races_each_time_is_left_out_sooner(make_memory, races, tried):
    """At 0.9 times the speed: two shares could be 0.28 apart in their logarithms, a ratio of three races 0.1."""
    ratios = {"fast": {"one": 4.0, "many": 2.0}, "slow": {"one": 3.6, "many": 1.8}}
    for _ in range(races):
        keep_race(make_memory(SHAPES), ratios, fast=4.0, slow=3.6)
    assert (explain_hopeless(make_memory(SHAPES), [SLOW], [FAST], recipe=SHAPES) is None) is tried


SPEEDS = {"fast": 4.0, "slow": 1.0, "other": 40.0, "third": 3.0}


def keep_shaped_race(make_memory, *names):
    ratios = {name: {"one": SPEEDS[name], "many": SPEEDS[name]} for name in names}
    keep_race(make_memory(SHAPES), ratios, **{name: SPEEDS[name] for name in names})


@pytest.mark.parametrize("other", [(), ("other",)])
def test_in_a_race_with_faster_ones_the_same_two_differ_by_as_much(make_memory, other):
    """A share is of the best of its race: with more toolchains in it, all others have a smaller one."""
    keep_shaped_race(make_memory, "fast", "slow")
    keep_shaped_race(make_memory, "fast", "slow", *other)
    said = explain_hopeless(make_memory(SHAPES), [SLOW], [FAST], recipe=SHAPES)
    assert said.startswith("on similar models it was 0.25 times as fast as x.fast")


def test_a_share_is_of_the_best_of_the_default_toolchains(make_memory):
    keep_race(make_memory(), session=2.0, engine=6.0)
    keep_race(make_memory(), session=2.0)
    assert make_memory().find_share(USUAL["session"]).share == pytest.approx(1.0)
    assert make_memory().find_share(USUAL["session"]).deviation == 0.2
    assert make_memory().find_share(USUAL["engine"]).share == pytest.approx(3.0)


def test_an_option_that_a_recipe_sets_to_its_default_is_none(make_memory):
    spelled = {"deepsparse.engine": {"options": DEEPSPARSE().model_dump(mode="json")}}
    keep_race(make_memory(), session=2.0, engine=6.0)
    assert make_memory(read_recipe({"model": {"uri": "m"}, "adaptors": spelled})).find_share(USUAL["engine"])


def test_a_step_takes_what_it_took_with_the_options_of_the_recipe(make_memory):
    own = read_recipe({"model": {"uri": "m"}, "adaptors": {"iree.cpu": {"options": {"im2col": False}}}})
    for options, seconds in (({}, 4.0), ({"im2col": False}, 40.0)):
        facts = StepFacts(key="k", adaptor="iree.cpu", run="r", folder="f", seconds=seconds, outcome="artifact")
        make_memory().keep_step(facts, "toy", read_catalogue().adaptors["iree.cpu"].options(**options))
    assert make_memory().guess_step("iree.cpu", "toy") == 4.0
    assert make_memory(own).guess_step("iree.cpu", "toy") == 40.0


def test_a_race_that_is_written_twice_counts_once(make_memory):
    memory = make_memory()
    keep_race(memory, fast=4.0, slow=1.0)
    (path,) = memory._root.glob("costs.jsonl")
    path.write_text(path.read_text() * 3)
    assert make_memory().find_share(SLOW).rows == 1


def test_the_best_is_who_was_faster_in_the_races_of_both(make_memory):
    """Of three races of the third one, two had others that were faster; of the slow one, one."""
    keep_shaped_race(make_memory, "slow")
    for _ in range(2):
        keep_shaped_race(make_memory, "other", "third", "slow")
    memory = make_memory(SHAPES)
    assert memory.find_share(SLOW, 1).share > memory.find_share(("x.third",), 1).share
    assert memory.find_best([SLOW, ("x.third",)], 1) == ("x.third",)
    assert explain_hopeless(memory, [("x.third",)], [SLOW], recipe=SHAPES) is None


def test_who_is_a_little_faster_at_one_shape_is_tried(make_memory):
    ratios = {"fast": {"one": 4.0, "many": 2.0}, "slow": {"one": 1.0, "many": 2.02}}
    for _ in range(5):
        keep_race(make_memory(SHAPES), ratios, fast=4.0, slow=1.0)
    memory = make_memory(SHAPES)
    assert explain_hopeless(memory, [SLOW], [FAST], recipe=SHAPES) is None
    assert memory.find_gain(SLOW, FAST, 1) < 1e-6
    assert memory.find_gain(SLOW, FAST, 32) == pytest.approx(0.045, rel=0.1)


def test_without_a_rival_the_gain_is_all_that_is_expected(make_memory):
    keep_race(
        make_memory(SHAPES), {"fast": {"one": 4.0, "many": 2.0}, "slow": {"one": 2.0, "many": 2.0}}, fast=3, slow=2
    )
    memory = make_memory(SHAPES)
    assert memory.find_gain(SLOW, None, 1) == pytest.approx(memory.find_share(SLOW, 1).mean)
    assert memory.find_gain(("x.unknown",), None, 1) == pytest.approx(UNKNOWN.mean)
    assert memory.find_best([SLOW, FAST, ("x.unknown",)], 1) == FAST
    assert memory.find_best([SLOW, FAST], 1, least=2) is None


@pytest.mark.parametrize("rivals", [[], [SLOW], [("x.unknown",)]])
def test_who_has_no_faster_rival_that_holds_is_tried(make_memory, rivals):
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(), [SLOW], rivals, recipe=RECIPE) is None


@pytest.mark.parametrize("others", [[FAST], [("x.unknown",)]])
def test_a_step_that_also_leads_elsewhere_is_tried(make_memory, others):
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(), [SLOW, *others], [FAST], recipe=RECIPE) is None


@pytest.mark.parametrize("named", [{"adaptors": {"x.slow": {"enabled": True}}}, {"routes": [["x.quantize", "x.slow"]]}])
def test_what_the_recipe_names_is_tried(make_memory, named):
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(), [SLOW], [FAST], recipe=read_recipe({"model": {"uri": "m"}, **named})) is None


@pytest.mark.parametrize("gates", [{"size_mb": 1.0}, {"memory_mb": 500.0}, {"latency_ms": {"x": 1.0}}])
def test_nothing_is_left_out_where_the_fastest_may_miss_a_gate_later(make_memory, gates):
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    recipe = read_recipe({"model": {"uri": "m"}, "gates": gates, "shapes": {"x": {"batch": 1}}})
    assert explain_hopeless(make_memory(), [SLOW], [FAST], recipe=recipe) is None


def lossy(monkeypatch, *routes):
    monkeypatch.setattr(hopeless, "only_converts", lambda route: tuple(route) not in routes)
    return partial(explain_hopeless, recipe=RECIPE)


def test_what_only_converts_is_compared_with_what_only_converts(make_memory, monkeypatch):
    """The fastest may lose too much of the quality for the gate, which nobody knows before it."""
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0, other=3.0)
    find = lossy(monkeypatch, FAST)
    assert find(make_memory(), [SLOW], [FAST]) is None
    assert " as fast as x.other" in find(make_memory(), [SLOW], [FAST, ("x.other",)])


def test_what_does_more_is_left_out_for_one_that_only_converts(make_memory, monkeypatch):
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    assert lossy(monkeypatch, SLOW)(make_memory(), [SLOW], [FAST])


def test_what_does_more_is_left_out_for_as_many_of_its_kind_as_are_confirmed(make_memory, monkeypatch):
    """Each of them may lose too much on the gate split, though not on the search split."""
    other, third = ("x.other",), ("x.third",)
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0, other=3.0, third=2.5)
    find = lossy(monkeypatch, FAST, SLOW, other, third)
    assert find(make_memory(), [SLOW], [FAST, other]) is None
    said = find(make_memory(), [SLOW], [FAST, other, third])
    assert said.startswith("on similar models it was 0.40 times as fast as x.third, and")
    one = read_recipe({"model": {"uri": "m"}, "confirm": {"finalists": 1}})
    assert explain_hopeless(make_memory(), [SLOW], [FAST], recipe=one)


def test_a_build_says_nothing_of_the_validation_of_a_route_with_its_name(make_memory):
    memory = make_memory()
    for _ in range(2):
        facts = StepFacts(key="k", adaptor="x.fast", run="r", folder="f", seconds=100.0, outcome="artifact")
        memory.keep_step(facts, memory.source.format)
    assert memory.guess_validation(("x.fast",)) is None
    assert make_memory().guess_validation(("x.fast",)) is None
    keep_race(make_memory(), fast=4.0)
    assert make_memory().guess_validation(FAST) is None
    keep_race(make_memory(), fast=4.0)
    assert make_memory().guess_validation(FAST) == 2.0
    assert make_memory().guess_step("x.fast", memory.source.format) == 100.0


def test_what_leads_to_no_candidate_by_itself_is_tried(make_memory):
    for _ in range(2):
        keep_race(make_memory(), fast=4.0, slow=1.0)
    assert explain_hopeless(make_memory(), [], [FAST], recipe=RECIPE) is None


def test_a_race_without_times_leaves_nothing(make_memory):
    make_memory().keep_race({}, [Standing(id="a", status=Status.FAILED, rounds=0)])
    assert make_memory().guess_route(FAST) is None
    assert make_memory().find_share(FAST) is None


def test_the_rows_that_are_shipped_can_all_be_read():
    lines = SHIPPED.read_text().splitlines()
    assert lines
    assert len(read_costs(SHIPPED)) == len(lines)
    assert all(isinstance(row, Cost) and row.size for row in read_costs(SHIPPED))


COMPILED = {"pytorch.compile", "pytorch.compile-exported", "pytorch.pt2e-int8>pytorch.compile-exported"}
BEHIND_WITH_AVX2 = COMPILED | {"pytorch.torchscript"}
BEHIND_WITH_VNNI = COMPILED | {
    "onnxruntime.int4-weights>onnxruntime.session",
    "onnxruntime.int4-weights>openvino.ir>openvino.f32",
    "onnxruntime.int8-dynamic>openvino.ir>openvino.bf16",
    "onnxruntime.int8-dynamic>openvino.ir>openvino.f32",
    "openvino.ir>openvino.int8-weights>openvino.f32",
    "pytorch.pt2e-int8>pytorch.aoti",
}
FLAGS = {"AVX2 only": {"avx2"}, "AVX-512, VNNI, BF16": {"avx2", "avx512f", "avx512_vnni", "avx512_bf16"}}


@pytest.mark.parametrize(
    ("instructions", "behind"),
    [("AVX2 only", BEHIND_WITH_AVX2), ("AVX-512, VNNI, BF16", BEHIND_WITH_VNNI)],
)
def test_of_the_demo_network_the_shipped_rows_leave_out_these(tmp_path, instructions, behind):
    """Rows of races of other toolchains once made its search try half a minute more of what cannot win."""
    digits = next(row for row in read_costs(SHIPPED) if "MaxPool2d" in row.operators)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "weights.bin").write_bytes(bytes(digits.size))
    store, spec = Store(tmp_path / "store"), TensorSpec(name="images", dtype="float32", shape=("batch", 1, 8, 8))
    kept = {"format": digits.format, "inputs": (spec,), "outputs": (spec,), "runtime": "torch"}
    source = store.seal(tmp_path / "source", **kept, metadata={"operators": list(digits.operators)})
    host = replace(read_host(), flags=frozenset(FLAGS[instructions]))
    assert host.instructions == instructions
    recipe = read_recipe({"model": {"uri": "m"}, "shapes": {"batch1": {"batch": 1}, "batch64": {"batch": 64}}})
    memory, known = Memory(store, source, host, recipe), make_plan(recipe).options.keys()
    routes = {tuple(row.what.split(">")) for row in read_costs(SHIPPED) if row.outcome == "raced" and not row.options}
    taking_part = sorted(route for route in routes if known >= set(route))
    left_out = {">".join(one) for one in taking_part if explain_hopeless(memory, [one], taking_part, recipe=recipe)}
    assert left_out == behind
