"""Tests of SIGINT, which ``test_interrupt.py`` runs in a process of their own."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kedro.io import DataCatalog, MemoryDataset
from kedro.pipeline import node, pipeline

from kedro_hone.core.store.runs import RunFolder
from kedro_hone.hooks.interrupt import InterruptHooks


def step() -> int:
    return 1


step.__module__ = "kedro_hone.nodes.step"
RACES = pipeline([node(step, None, "race", name="race")])
BUILDS = pipeline([node(step, None, "built", name="build")])
THEIRS = pipeline([node(lambda: 1, None, "race", name="race")])


class Printing(logging.Handler):
    """Prints under a lock that is not reentrant, and gives up waiting for it, where rich's display would not."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.printed, self.said = threading.Lock(), threading.Event(), list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        if not self.free.acquire(timeout=5):
            self.said.append("nothing: whoever printed was waiting for itself")
            return
        self.said.append(record.getMessage())
        self.free.release()
        self.printed.set()


@pytest.fixture
def printing() -> Iterator[Printing]:
    handler, logger = Printing(), logging.getLogger("kedro_hone.hooks.interrupt")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(root=tmp_path, run_id="run", project=tmp_path)


@pytest.fixture
def hooks() -> Iterator[InterruptHooks]:
    found = signal.signal(signal.SIGINT, signal.default_int_handler)
    made = InterruptHooks()
    yield made
    made.after_pipeline_run()
    signal.signal(signal.SIGINT, found)


def begin(hooks: InterruptHooks, run: RunFolder, **changes: object) -> None:
    values = {"run_params": {"runner": "SequentialRunner"}, "pipeline": RACES} | changes
    hooks.before_pipeline_run(**values, catalog=DataCatalog({"run": MemoryDataset(run)}))


TOLD = "interrupted: what was measured is confirmed and judged; Ctrl-C again ends the run"


def list_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "hone-interrupt"]


def wait_for_silence() -> None:
    for one in threading.enumerate():
        if one.name == "hone-interrupt":
            one.join(60)
    assert list_threads() == []


def test_ctrl_c_while_a_line_is_printed_is_told_when_that_is_done(hooks, run, printing):
    begin(hooks, run)
    run.begin_search()
    with printing.free:
        signal.raise_signal(signal.SIGINT)
        assert hooks.interrupted
        assert run.is_stopped()
        assert printing.said == []
    assert printing.printed.wait(60)
    assert printing.said == [TOLD]
    wait_for_silence()


def test_a_second_ctrl_c_ends_the_run(hooks, run):
    begin(hooks, run)
    run.begin_search()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    wait_for_silence()


def test_ctrl_c_before_the_search_ends_the_run_and_kedro_calls_no_hook(hooks, run, printing):
    begin(hooks, run)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    wait_for_silence()
    assert not hooks.interrupted
    assert not run.is_stopped()
    assert printing.said == []


def test_a_run_that_cannot_be_stopped_is_not_told_as_stopped(hooks, run, printing, monkeypatch):
    def fail(_):
        raise OSError("no space left on device")

    begin(hooks, run)
    run.begin_search()
    monkeypatch.setattr(RunFolder, "stop", fail)
    with pytest.raises(OSError, match="no space left"):
        signal.raise_signal(signal.SIGINT)
    hooks.on_pipeline_error()
    assert not hooks.interrupted
    assert printing.said == []


@pytest.mark.parametrize(
    "changes", [{"pipeline": BUILDS}, {"pipeline": THEIRS}, {"run_params": {"runner": "ParallelRunner"}}]
)
def test_what_does_not_race_or_has_many_processes_is_left_to_python(hooks, run, changes):
    begin(hooks, run, **changes)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert list_threads() == []


def test_after_the_run_ctrl_c_is_as_it_was_and_no_thread_is_left(hooks, run, printing):
    begin(hooks, run)
    assert list_threads() == ["hone-interrupt"]
    hooks.after_pipeline_run()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert list_threads() == []
    assert printing.said == []


def test_a_run_after_an_interrupted_one_is_not_told_as_interrupted(hooks, run, printing, tmp_path):
    begin(hooks, run)
    run.begin_search()
    signal.raise_signal(signal.SIGINT)
    hooks.after_pipeline_run()
    assert printing.said == [TOLD]

    later = run.model_copy(update={"run_id": "later"})
    begin(hooks, later)
    later.begin_search()
    hooks.after_pipeline_run()
    assert not hooks.interrupted
    assert printing.said == [TOLD]

    begin(hooks, later)
    signal.raise_signal(signal.SIGINT)
    hooks.after_pipeline_run()
    assert later.is_stopped()
    assert printing.said == [TOLD, TOLD]


def test_a_run_that_kedro_left_without_a_word_keeps_nothing_from_the_next(hooks, run, printing, tmp_path):
    begin(hooks, run)  # and another hook refuses the run

    later = run.model_copy(update={"run_id": "later"})
    begin(hooks, later)
    assert list_threads() == ["hone-interrupt"]
    later.begin_search()
    signal.raise_signal(signal.SIGINT)
    hooks.after_pipeline_run()
    assert later.is_stopped()
    assert not run.is_stopped()
    assert printing.said == [TOLD]


def test_it_takes_over_last_so_that_a_hook_that_refuses_the_run_comes_first():
    assert InterruptHooks.before_pipeline_run.kedro_impl["trylast"]
