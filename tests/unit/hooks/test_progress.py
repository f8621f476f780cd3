from __future__ import annotations

import io

from kedro.pipeline import Node, Pipeline
from rich.console import Console

from hone_runtime.values.measurement import Interval, RaceResult, Standing, Status
from kedro_hone.hooks.progress import ProgressHooks, name_best


def step(x):
    return x


def pipeline(package):
    step.__module__ = f"{package}.nodes.step"
    return Pipeline([Node(step, "a", "b", name="first"), Node(step, "b", "c", name="second")])


def run(console, package="kedro_hone"):
    hooks = ProgressHooks(console)
    nodes = pipeline(package)
    hooks.before_pipeline_run(nodes)
    for node in nodes.nodes:
        hooks.before_node_run(node)
        hooks.after_node_run({"race": race()})
    hooks.after_pipeline_run()


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


def test_a_terminal_shows_what_runs_and_the_best_so_far():
    stream = io.StringIO()
    run(Console(file=stream, force_terminal=True, width=120))

    assert "second" in stream.getvalue()
    assert "best so far 4.2x: onnx.fast" in stream.getvalue()


def test_elsewhere_nothing_is_shown():
    stream = io.StringIO()
    run(Console(file=stream, force_terminal=False))

    assert stream.getvalue() == ""


def test_another_packages_pipeline_is_not_shown():
    stream = io.StringIO()
    run(Console(file=stream, force_terminal=True, width=120), package="shop")

    assert stream.getvalue() == ""


def test_only_measurements_name_a_best():
    assert name_best(race()).startswith("best so far")
    assert name_best("evidence") == ""
