"""The order of a search's nodes, and which wait for more promising ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kedro.io import DataCatalog, MemoryDataset

from hone_runtime.contract.hardware import read_host
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.measurement import Status, Validation
from hone_runtime.values.outcome import Candidate
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.recipe.plan import make_plan
from kedro_hone.recipe.prior import Usual
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.runner import schedule as module
from kedro_hone.runner.schedule import Schedule
from kedro_hone.runner.search import SearchRunner
from kedro_hone.search.plan.forecast import Forecast

FORECAST = Forecast(
    adaptors={
        "onnxruntime.session": Usual(seconds=1.0, validation=1.0, speed=1.0),
        "openvino.ir": Usual(seconds=1.0),
        "openvino.f32": Usual(seconds=1.0, validation=1.0, speed=0.8),
        "onnxruntime.int8-static": Usual(seconds=3.0, speed=2.0),
        "pytorch.aoti": Usual(seconds=30.0, validation=5.0, speed=0.2),
        "pytorch.torchscript": Usual(seconds=3.0, validation=3.0, speed=0.3),
    }
)
SESSION, F32 = "onnx.onnxruntime_session", "onnx.openvino_ir.openvino_f32"
INT8 = "onnx.onnxruntime_int8_static.onnxruntime_session"
SLOW = ("pytorch.pytorch_aoti", "pytorch.pytorch_torchscript")


def place(name, namespace, *tags):
    return SimpleNamespace(name=f"build.{namespace}.{name}", namespace=f"build.{namespace}", tags={*tags})


def compile_in(namespace):
    return place("compile", namespace, "build")


def validate(namespace):
    return place("validate", namespace, "validate")


@pytest.fixture
def run(tmp_path):
    return RunFolder(root=tmp_path, run_id="run", project=tmp_path)


@pytest.fixture
def make_schedule(monkeypatch, run):
    def make(*, host=None, nodes=None, forecast=FORECAST, source=None, **recipe):
        names = ["onnxruntime.session", "onnxruntime.int8-static", "openvino.ir", "openvino.f32", "pytorch.aoti"]
        names += ["pytorch.torchscript", "pytorch.onnx", "compress.prune-channels", "compress.qat"]
        chosen = read_recipe({"model": {"uri": "m"}, **recipe})
        plan = make_plan(chosen)
        steps = tuple(step for step in plan.routes.steps if {*step.route} <= {*names})
        monkeypatch.setattr(module, "read_plan", lambda: SimpleNamespace(routes=SimpleNamespace(steps=steps)))
        values = {"params:hone": chosen, "run": run, "forecast": forecast}
        values |= {"source": source, "store": SimpleNamespace(measure=lambda _: 1 << 30)}
        catalog = DataCatalog({name: MemoryDataset(value, copy_mode="assign") for name, value in values.items()})
        every = [validate(step.namespace) for step in steps if step.ends]
        return Schedule(SimpleNamespace(nodes=every if nodes is None else nodes), catalog, host), catalog

    return make


def judge(schedule, catalog, namespace, status=Status.MEASURED, **facts):
    """Let a candidate's validation end."""
    outcome = Artifact(format="toy", digest="sha256:0", inputs=(), outputs=())
    candidate = Candidate(id=namespace, route=("x",), outcome=outcome)
    catalog[f"{namespace}.validation"] = MemoryDataset(Validation(candidate=candidate, status=status, **facts))
    schedule.note_end(validate(namespace))


def list_names(nodes):
    return [node.namespace.removeprefix("build.") for node in nodes]


def test_what_is_cheap_and_promising_comes_first(make_schedule):
    schedule, _ = make_schedule()
    weights = {name: schedule.compute_priority(compile_in(name)) for name in (SESSION, F32, *SLOW)}
    assert weights[SESSION] == pytest.approx(1.0 / 2)
    assert weights[F32] == pytest.approx(0.8 / 2)
    assert weights[SLOW[0]] == pytest.approx(0.2 / 35)
    quantizing = schedule.compute_priority(place("compress", "onnx.onnxruntime_int8_static", "build"))
    assert quantizing == pytest.approx(2.0 / 5), "of the best of its candidates, with all seconds until then"


def test_what_is_built_is_validated_first(make_schedule):
    schedule, _ = make_schedule()
    assert schedule.compute_priority(validate(INT8)) == pytest.approx(2.0)
    assert list_names(schedule.sort([compile_in(SESSION), validate(F32)], idle=False)) == [F32, SESSION]


def test_nodes_of_no_route_come_before_all(make_schedule):
    schedule, _ = make_schedule()
    assert schedule.compute_priority(place("pull", None)) == float("inf")
    nodes = [compile_in(SESSION), place("convert", "pytorch")]
    assert list_names(schedule.sort(nodes, idle=False)) == ["pytorch", SESSION]


def test_what_is_far_slower_than_what_only_converts_waits(make_schedule):
    schedule, _ = make_schedule()
    ready = [compile_in(name) for name in (*SLOW, INT8, F32)]
    assert list_names(schedule.sort(ready, idle=False)) == [INT8, F32]
    assert schedule.sort([compile_in(SLOW[0])], idle=False) == []


def test_where_a_rival_is_valid_and_nothing_else_is_left_the_search_ends(make_schedule, run):
    schedule, catalog = make_schedule()
    for name in (SESSION, F32, INT8):
        judge(schedule, catalog, name)
    assert run.read_end() == ""
    assert list_names(schedule.sort([compile_in(name) for name in SLOW], idle=True)) == [*SLOW[::-1]]
    said = f"{SESSION} is valid and usually more than 2 times as fast as this one; `hone.budget: thorough` tries it"
    assert run.read_end() == said


@pytest.mark.parametrize(
    "lost",
    [
        {"status": Status.FAILED, "slug": "convert"},
        {"status": Status.DROPPED, "slug": "quality"},
        {"publishable": False},
        {"size_bytes": 3_000_000},
    ],
    ids=["failed", "dropped", "may not be published", "misses a gate"],
)
def test_where_what_only_converts_cannot_win_the_slower_ones_are_tried(make_schedule, run, lost):
    """Else a model that one converter cannot take would have no candidate at all."""
    schedule, catalog = make_schedule(gates={"size_mb": 2.0})
    for name in (SESSION, F32):
        judge(schedule, catalog, name, **lost)
    assert list_names(schedule.sort([compile_in(name) for name in SLOW], idle=True)) == [*SLOW[::-1]]
    assert run.read_end() == ""


def test_without_an_end_of_the_budget_nothing_waits(make_schedule):
    schedule, _ = make_schedule(budget="thorough")
    ready = [compile_in(name) for name in (*SLOW, F32)]
    assert list_names(schedule.sort(ready, idle=False)) == [F32, *SLOW[::-1]]


def test_what_the_recipe_names_does_not_wait(make_schedule):
    schedule, _ = make_schedule(adaptors={"pytorch.aoti": {"enabled": True}})
    assert list_names(schedule.sort([compile_in(name) for name in (*SLOW, F32)], idle=False)) == [F32, SLOW[0]]


def test_adaptors_of_toolchains_that_the_recipe_lists_do_not_wait(make_schedule):
    schedule, _ = make_schedule(toolchains=["onnxruntime", "openvino", "pytorch"])
    assert list_names(schedule.sort([compile_in(name) for name in (*SLOW, F32)], idle=False)) == [F32, *SLOW[::-1]]


def test_with_all_toolchains_the_slower_ones_wait(make_schedule):
    schedule, _ = make_schedule(toolchains="all")
    assert list_names(schedule.sort([compile_in(name) for name in (*SLOW, F32)], idle=False)) == [F32]


def test_who_is_not_in_the_pipeline_is_nobodys_rival(make_schedule):
    """A namespace that is run alone is asked for."""
    schedule, _ = make_schedule(nodes=[validate(SLOW[0])])
    assert list_names(schedule.sort([compile_in(SLOW[0])], idle=False)) == [SLOW[0]]


def forget(*names):
    """Return the forecast without the speeds of some adaptors."""
    known = {k: v.model_copy(update={"speed": None}) if k in names else v for k, v in FORECAST.adaptors.items()}
    return Forecast(adaptors=known)


def test_of_what_nothing_was_measured_does_not_wait(make_schedule):
    schedule, _ = make_schedule(forecast=forget("pytorch.aoti"))
    assert list_names(schedule.sort([compile_in(name) for name in SLOW], idle=False)) == [SLOW[0]]


def test_a_candidate_of_a_compressor_of_unknown_speed_does_not_wait(make_schedule):
    slow = {"onnxruntime.session": Usual(speed=0.2), "openvino.f32": Usual(speed=1.0)}
    schedule, _ = make_schedule(forecast=Forecast(adaptors=slow))
    ready = [compile_in(name) for name in (SESSION, INT8, F32)]
    assert sorted(list_names(schedule.sort(ready, idle=False))) == sorted([INT8, F32])


def test_a_rival_of_unknown_speed_lets_nobody_wait(make_schedule):
    schedule, _ = make_schedule(forecast=forget("onnxruntime.session", "openvino.f32"))
    ready = [compile_in(name) for name in SLOW]
    assert list_names(schedule.sort(ready, idle=False)) == [*SLOW[::-1]], "torchscript is the only rival that is known"


def test_the_rival_that_ends_the_search_is_one_of_known_speed(make_schedule, run):
    """The reason says how much faster it usually is."""
    schedule, catalog = make_schedule(forecast=forget("onnxruntime.session"))
    for name in (SESSION, F32, INT8):
        judge(schedule, catalog, name)
    schedule.sort([compile_in(name) for name in SLOW], idle=True)
    assert run.read_end().startswith(f"{F32} is valid and usually more than 2 times as fast")


@pytest.mark.parametrize(("gibibytes", "places"), [(24, 3), (14, 2), (13, 1), (4, 1)])
def test_no_more_run_at_once_than_there_is_memory_for(make_schedule, gibibytes, places):
    """At 1 GiB and six times the model for each."""
    schedule, _ = make_schedule(host=SimpleNamespace(memory_bytes=gibibytes << 30))
    assert schedule.count_places([compile_in(SESSION), place("prepare", None)]) == places


def test_before_there_is_a_model_only_the_cores_count(make_schedule):
    schedule, _ = make_schedule(host=read_host())
    assert schedule.count_places([place("pull", None)]) > 1000


def test_what_measures_starts_where_nothing_runs(make_schedule, monkeypatch):
    schedule, _ = make_schedule()
    monkeypatch.setattr(schedule, "count_places", lambda _: 2)
    alone, other = place("race", None, "needs.bench"), place("convert", "pytorch")
    runner = SearchRunner(max_workers=2)
    assert runner._choose([alone], [], schedule) == [alone]
    assert runner._choose([alone, other], [], schedule) == [other]
    assert runner._choose([other], [alone], schedule) == []
    assert runner._choose([alone], [other], schedule) == []


def test_what_trains_runs_alone_in_its_turn(make_schedule, monkeypatch):
    """The threads of a neighbour make a training ten times as slow."""
    schedule, _ = make_schedule()
    monkeypatch.setattr(schedule, "count_places", lambda _: 2)
    trains, other = place("compress", None, "build", "undisturbed"), place("validate", "pytorch")
    runner = SearchRunner(max_workers=2)
    assert runner._choose([trains, other], [], schedule) == [trains], "it is the first"
    assert runner._choose([trains, other], [other], schedule) == [], "it waits until nothing runs"
    assert runner._choose([other], [trains], schedule) == []
    schedule, _ = make_schedule()
    monkeypatch.setattr(schedule, "count_places", lambda _: 2)
    monkeypatch.setattr(schedule, "compute_priority", lambda node: float(node is other))
    assert runner._choose([trains, other], [], schedule) == [other]
    assert runner._choose([trains, other], [other], schedule) == [other]


@pytest.mark.parametrize("named", [True, False])
def test_a_training_that_the_recipe_names_is_the_first(make_schedule, named):
    """After all cheaper steps there was no time for a student."""
    toolchains = ["onnxruntime", "openvino", "pytorch", "compress"]
    schedule, _ = make_schedule(
        toolchains=toolchains, adaptors={"compress.prune-channels": {"options": {"ratio": 0.5}}} if named else {}
    )
    pruned = "pytorch.compress_prune_channels" + ("" if named else "+ratio=0-5")
    session = f"{pruned}.pytorch_onnx.onnxruntime_session"
    assert {pruned, session} <= schedule._steps.keys()
    trained, other = compile_in(pruned), compile_in(SESSION)
    assert schedule.sort([other, trained], idle=True) == ([trained, other] if named else [other, trained])
    retrained = compile_in(f"{pruned}.compress_qat")
    assert schedule.sort([other, retrained], idle=True) == [other, retrained], "the recipe does not name it"
    first = place("pull", None)
    assert schedule.sort([other, validate(session), first], idle=True)[0] is first


def test_of_equals_the_first_in_the_plan_is_the_first(make_schedule):
    """So values of an option are tried as they are listed."""
    schedule, _ = make_schedule(
        adaptors={"onnxruntime.int8-static": {"options": {"calibration": ["minmax", "entropy"]}}}
    )
    ready = [compile_in(f"onnx.onnxruntime_int8_static+calibration={name}") for name in ("entropy", "minmax")]
    assert schedule.sort(ready, idle=False) == ready[::-1]
