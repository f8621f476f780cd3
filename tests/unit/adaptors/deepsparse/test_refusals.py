"""What is told of an engine that cannot be made. On which models its compiler ends the process depends on the CPU."""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace

import pytest

from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.deepsparse import adaptor

JOB = {"input": {"path": "", "inputs": [], "static_shapes": [{"name": "one", "sizes": {"batch": 1}}]}, "threads": 1}


def end_at_an_assertion(*_, **__):
    os.write(2, b"Date: today\n\nAssertion at ./src/include/wand/engine/compute/planner.hpp:70\n\nBacktrace:\n")
    os._exit(1)


def end(*_, **__):
    os._exit(7)


def refuse(*_, **__):
    os.write(2, b"a banner\n")
    raise RuntimeError("it has no such operator\nand more")


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (end_at_an_assertion, "its compiler fails an assertion of its own, at planner.hpp:70"),
        (end, "it ended its process with exit code 7"),
        (lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL), "it ended its process with SIGKILL"),
        (refuse, "it has no such operator"),
        (lambda *_, **__: sys.exit(5), "5"),
        (lambda *_, **__: None, None),
    ],
)
def test_an_engine_that_ends_its_process_is_a_reason(engine, said, tmp_path, monkeypatch, capsys):
    (tmp_path / "model.onnx").touch()
    monkeypatch.setitem(sys.modules, "deepsparse", SimpleNamespace(Engine=engine))
    worker = load_file("deepsparse_worker", str(adaptor.TOOLCHAIN.worker))
    assert worker._explain_refusal({**JOB, "input": {**JOB["input"], "path": str(tmp_path)}}) == said
    assert ("Backtrace" in capsys.readouterr().out) == (engine is end_at_an_assertion)  # it stays in the step's log
