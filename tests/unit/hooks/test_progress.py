"""What is shown of a run at work: a live block on a terminal, lines elsewhere, groups in GitHub's logs."""

from __future__ import annotations

import io
import logging
import threading
import time
from types import SimpleNamespace

import pytest
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline
from rich.console import Console

from hone_runtime.values.measurement import Interval, RaceResult, Standing, Status
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.hooks import display, tracker
from kedro_hone.hooks.display import Block, LineDisplay, Snapshot
from kedro_hone.hooks.lines import LineHandler
from kedro_hone.hooks.progress import ProgressHooks
from kedro_hone.hooks.tracker import Tracker, describe_best, find_phase
from kedro_hone.recipe.plan import TRAINS
from kedro_hone.search.plan.confirmation import Remaining

NAME = "onnx.onnxruntime_int8_static_per_channel.onnxruntime_session_with_a_name_that_is_longer_than_a_line"
LIMITS = "at most 11 min in all: 60 s to search, then 10 min to confirm"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def open_console(*, terminal: bool, width: int = 80) -> Console:
    return Console(file=Terminal() if terminal else io.StringIO(), width=width, force_terminal=terminal)


def node(name, inputs, output, namespace=None, *, package="kedro_hone"):
    def compute(*_):
        return 1

    compute.__module__ = f"{package}.nodes.{name}"
    return Node(compute, [inputs, "params:hone"], output, name=name, namespace=namespace)


def pipeline(package="kedro_hone"):
    return Pipeline(
        [
            node("pull", "a", "source", "pull", package=package),
            node("compile", "source", "b", "build.onnx.fast", package=package),
            node("validate", "b", "c", "build.onnx.fast", package=package),
            node("confirm", "c", "confirmation", package=package),
        ]
    )


def race():
    objective = Interval(estimate=4.2, low=4.0, high=4.4)
    standing = Standing(id="onnx.fast", status=Status.MEASURED, rounds=5, objective=objective)
    return RaceResult(
        validations=(),
        standings=(standing,),
        source_latency=(),
        rounds=5,
        seconds=1.0,
        budget_ended=False,
        timings="sha256:0",
    )


def run(console, *, before_each=lambda: None, package="kedro_hone"):
    hooks, nodes = ProgressHooks(console), pipeline(package)
    hooks.before_pipeline_run(nodes, DataCatalog())
    try:
        for one in nodes.nodes:
            before_each()
            hooks.before_node_run(one)
            hooks.after_node_run(one, {"race": race()})
    finally:
        hooks.after_pipeline_run()
    return console.file.getvalue()


def make_snapshot(**changes):
    shown = {
        "phase": "build", "done": 12, "total": 24, "seconds": 42.0, "rest": 80.0, "limits": LIMITS,
        "best": f"best so far 2.3× (2.1–2.5×): {NAME}", "running": ((f"{NAME}.compile", 12.0), ("b.validate", 1.0)),  # noqa: RUF001
        "events": ("raced 5 rounds, 3 left",),
    }  # fmt: skip
    return Snapshot(**shown | changes)


@pytest.mark.parametrize("width", [80, 160])
def test_the_block_fits_the_terminal(width):
    stream = io.StringIO()
    Console(file=stream, width=width).print(Block(make_snapshot))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "Build and validate, 12 of 24" in lines[0]
    assert "42 s, about 1 min 20 s left" in lines[0]
    assert lines[1].strip() == LIMITS
    assert lines[2].strip().startswith("best so far 2.3× (2.1–2.5×): onnx.")  # noqa: RUF001
    assert lines[-1].strip() == "raced 5 rounds, 3 left"
    together = any("compile" in line and "b.validate, 1 s" in line for line in lines)
    assert len(lines) == (5 if width == 160 else 6)
    assert together is (width == 160)


def test_a_training_that_runs_is_shown_with_its_last_epoch():
    stream = io.StringIO()
    epoch = "compress.prune-channels: epoch 2 of 30: error 0.1, accuracy 0.9 on the search split"
    Console(file=stream, width=160).print(Block(lambda: make_snapshot(training=epoch)))
    assert epoch in stream.getvalue()
    stream = io.StringIO()
    display = LineDisplay(Console(file=stream, width=300), lambda: make_snapshot(training="a\n::error::b"), seconds=0.0)
    display.show()
    display.close()
    assert "; a" in stream.getvalue()
    assert not any(line.startswith("::error") for line in stream.getvalue().splitlines())


def test_the_bar_grows_as_the_expected_time_passes():
    shares = [make_snapshot(seconds=at, rest=100.0 - at).share for at in (0.0, 50.0, 100.0)]
    assert shares == [0.0, 0.5, 1.0]
    assert make_snapshot(rest=None).share == 0.0


def test_what_a_registry_names_does_not_reach_the_terminal_as_a_command():
    stream = io.StringIO()
    Console(file=stream, width=80).print(Block(lambda: make_snapshot(best="\x1b]0;OWNED\x07", events=("\x1b[2J",))))
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_shows_the_phase_and_the_best_so_far_and_is_left_clean():
    text = run(open_console(terminal=True), before_each=lambda: time.sleep(0.25))
    assert "Build and validate" in text
    assert "best so far 4.2× (4.0–4.4×): onnx.fast" in text  # noqa: RUF001
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is shown again


def test_without_a_terminal_there_is_a_line_each_ten_seconds_at_most(monkeypatch):
    moments = iter(range(0, 1000, 4))  # each look at the clock is four seconds later
    monkeypatch.setattr(display.time, "monotonic", lambda: float(next(moments)))
    console = open_console(terminal=False)
    lines = LineDisplay(console, make_snapshot)
    for _ in range(9):
        lines.show()
    written = console.file.getvalue().splitlines()
    assert len(written) == 3
    assert all(f"12 of 24; 42 s, about 1 min 20 s left; best so far 2.3× (2.1–2.5×): {NAME}" in one for one in written)  # noqa: RUF001
    assert "\x1b" not in "".join(written)


def test_without_a_terminal_lines_appear_while_nothing_happens():
    """A step of minutes has no events: no hook and no message calls the display."""
    console, taken = open_console(terminal=False), threading.Event()
    calls = iter(range(1000))

    def take():
        if next(calls) == 2:
            taken.set()
        return make_snapshot()

    lines = LineDisplay(console, take, seconds=0.01)
    assert taken.wait(60)
    lines.close()
    written = console.file.getvalue()
    assert written.count("12 of 24; 42 s") >= 1
    lines.show()
    assert console.file.getvalue() == written  # it is closed


@pytest.mark.parametrize(
    ("rest", "most", "said"),
    [
        (60.0, 216.0, "about 1 min 00 s to 3 min 36 s left"),
        (0.0, 156.0, "up to 2 min 36 s left"),
        (0.4, 0.9, "nearly done"),
        (60.0, 60.0, "about 1 min 00 s left"),
    ],
)
def test_nothing_is_nearly_done_while_looks_remain(rest, most, said):
    assert make_snapshot(rest=rest, most=most).clock == f"42 s, {said}"


def test_the_rest_of_a_confirmation_comes_from_its_launches(log, monkeypatch):
    """A forecast of four seconds was "nearly done" for minutes, next to launches of twelve seconds each."""
    nodes = pipeline()
    tracked = Tracker(nodes, DataCatalog())
    tracked._expectation = SimpleNamespace(find_rest=lambda **_: 0.0)
    for one in nodes.nodes[:-1]:
        tracked.end(one, {})
    assert (tracked.take().phase, tracked.take().rest) == ("confirm", None)
    clock = iter([100.0, 110.0, 110.0])
    monkeypatch.setattr(tracker.time, "monotonic", lambda: next(clock))
    record = log.makeRecord(log.name, logging.INFO, __file__, 1, "launched  2 of 7 in 12 s", (), None)
    record.remaining = Remaining(least=60.0, most=216.0)
    tracked.note(record)
    shown = tracked.take()
    assert (shown.rest, shown.most) == (50.0, 206.0)


def test_a_short_run_without_a_terminal_shows_nothing():
    assert run(open_console(terminal=False)) == ""


def test_githubs_logs_are_folded_by_phase(monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    console = open_console(terminal=True)  # it is none there, whatever it says
    assert run(console).splitlines() == [
        "::group::Pull", "::endgroup::", "::group::Build and validate", "::endgroup::", "::group::Confirm",
        "::endgroup::",
    ]  # fmt: skip


def test_where_our_action_stopped_all_commands_none_is_written(monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("HONE_LOG_GROUPS", "off")
    assert run(open_console(terminal=False)) == ""


def test_a_pipeline_of_others_is_not_shown():
    hooks, console = ProgressHooks(open_console(terminal=True)), open_console(terminal=True)
    hooks = ProgressHooks(console)
    hooks.before_pipeline_run(Pipeline([Node(lambda x: x, "a", "b", name="pull")]), DataCatalog())
    hooks.after_pipeline_run()
    assert console.file.getvalue() == ""


def test_a_phase_ends_with_its_last_node():
    nodes, known = pipeline(), {one.name: one for one in pipeline().nodes}
    tracked = Tracker(nodes, DataCatalog())
    tracked.begin(known["build.onnx.fast.compile"])  # while the model is still pulled
    assert tracked.take().phase == "pull"
    tracked.end(known["pull.pull"], {})
    assert tracked.take().phase == "build"
    assert [name for name, _ in tracked.take().running] == ["onnx.fast.compile"]
    tracked.end(known["build.onnx.fast.compile"], {})
    assert tracked.take().title == "Build and validate, 1 of 2"


def test_the_epoch_is_shown_while_a_node_trains(tmp_path):
    run = RunFolder(root=tmp_path, run_id="one", project=tmp_path)
    (run.claim_step("compress.low-rank") / "log").write_text("epoch 1 of 9: error 0.5\n")
    nodes = pipeline()
    training = next(one for one in nodes.nodes if one.name.endswith("compile")).tag(TRAINS)
    tracked = Tracker(nodes, DataCatalog({"run": MemoryDataset(run, copy_mode="assign")}))
    tracked.begin(training)
    assert tracked.take().training == "compress.low-rank: epoch 1 of 9: error 0.5"
    tracked.end(training, {})
    assert tracked.take().training == ""


def test_the_phase_of_a_node_is_its_outermost_namespace():
    assert {one.name: find_phase(one) for one in pipeline().nodes}["build.onnx.fast.validate"] == "build"
    assert find_phase(Node(lambda x: x, "a", "b", name="theirs")) == ""


def test_another_packages_pipeline_is_not_shown():
    stream = io.StringIO()
    run(Console(file=stream, force_terminal=True, width=120), package="shop")

    assert stream.getvalue() == ""


def test_a_best_of_a_busy_machine_says_so():
    busy = race().model_copy(update={"other_load": 0.67})
    assert describe_best(busy) == "best so far 4.2× (4.0–4.4×), on a busy machine: onnx.fast"  # noqa: RUF001
    assert "busy" not in describe_best(race().model_copy(update={"other_load": 0.05}))


def test_only_measurements_name_a_best():
    assert describe_best(race()) == "best so far 4.2× (4.0–4.4×): onnx.fast"  # noqa: RUF001
    assert describe_best("evidence") == ""


@pytest.fixture
def log():
    """A logger of ours with the handler of the console at its root, as a run has it."""
    root, ours = logging.getLogger(), logging.getLogger("kedro_hone")
    known, level = root.handlers[:], ours.level
    yield ours
    root.handlers[:] = known
    ours.setLevel(level)


def test_the_log_without_a_terminal_is_neither_wrapped_nor_padded(log):
    console = open_console(terminal=False)
    logging.getLogger().handlers[:] = [LineHandler(console=console, markup=False)]
    log.setLevel(logging.INFO)
    log.info("dropped   %s after 5 rounds\n::error::[red]x[/red]\x1b[2J", NAME * 3)
    (line,) = console.file.getvalue().splitlines()
    assert line[9:] == f"dropped   {NAME * 3} after 5 rounds | ::error::[red]x[/red]\ufffd[2J"


def test_a_live_block_shows_passing_events_and_the_log_above_it_has_the_others(log):
    console = open_console(terminal=True)
    logging.getLogger().handlers[:] = [LineHandler(console=console, markup=False, show_path=False, show_level=False)]
    log.setLevel(logging.INFO)
    tracked = Tracker(pipeline(), DataCatalog())
    shown = SimpleNamespace(shows_events=True, show=lambda: None)
    listener = tracker.Listener(tracked, shown)
    listener.attach()
    try:
        log.info("raced     5 rounds, 3 left", extra={"best": "best so far 2.0×: a"})  # noqa: RUF001
        log.info("dropped   b after 5 rounds")
    finally:
        listener.detach()
    assert "raced" not in console.file.getvalue()
    assert "dropped   b" in console.file.getvalue()
    assert tracked.take().events == ("raced 5 rounds, 3 left",)
    assert tracked.take().best == "best so far 2.0×: a"  # noqa: RUF001
    log.info("raced     10 rounds, 1 left")
    assert "raced" in console.file.getvalue()
