from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import yaml
from kedro.io import DataCatalog

from hone_runtime.values.artifact import Artifact
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.hardware import Hardware
from hone_runtime.values.measurement import (
    BUDGET,
    ConfirmationResult,
    Finalist,
    RaceResult,
    Standing,
    Status,
    Validation,
)
from hone_runtime.values.outcome import Candidate, Refused
from kedro_hone.cli.routes import UNKNOWN, LastRun, _print_rows, format_route_count, group_unfit
from kedro_hone.datasets.defaults import DEFAULTS

BUILT = Artifact(format="toy", digest="sha256:0", inputs=(), outputs=())
CLOSED = Refused(by="shop.closed", reason="it is closed on Mondays")
UNREACHABLE = Refused(by="onnx", slug="no-converter", reason="no adaptor converts toy to onnx")
SLOW = "dropped after 5 rounds: 0.50x, when the leader stood at 3.00x"


def validation(name, outcome, status=Status.MEASURED, reason=""):
    return Validation(candidate=Candidate(id=name, route=(name,), outcome=outcome), status=status, reason=reason)


@pytest.fixture
def work(tmp_path):
    """What a whole run leaves behind."""
    outcomes = {"fast": BUILT, "good": BUILT, "slow": BUILT, "wrong": BUILT, "closed": CLOSED, "broken": BUILT}
    for name, outcome in outcomes.items():
        (tmp_path / f"{name}.outcome.json").write_text(outcome.model_dump_json())
    standings = [
        Standing(id=name, status=status, rounds=5, reason=reason)
        for name, status, reason in (
            ("fast", Status.MEASURED, ""), ("good", Status.MEASURED, ""), ("slow", Status.DROPPED, SLOW),
            ("broken", Status.MEASURED, ""),
        )
    ]  # fmt: skip
    race = RaceResult(
        validations=(
            *(validation(name, BUILT) for name in ("fast", "good", "slow", "broken")),
            validation("wrong", BUILT, Status.DROPPED, "accuracy fell"),
            validation("closed", CLOSED, Status.REFUSED, "shop.closed: it is closed on Mondays"),
        ),
        standings=tuple(standings), source_latency=(), rounds=5, seconds=1, budget_ended=False, timings="k",
    )  # fmt: skip
    finalists = tuple(
        Finalist(id=name, speedups=(), latency=(), launches=7, reason=reason)
        for name, reason in (("fast", ""), ("broken", "it crashed"))
    )
    hardware = Hardware(cpu="a CPU", cores=2, os="Linux")
    confirmation = ConfirmationResult(
        finalists=finalists, source_latency=(), control=(), launches=7, looks=1, seconds=1, timings="k",
        hardware=hardware, ended=dt.datetime.now(dt.UTC),
    )  # fmt: skip
    values = {"race": race, "confirmation": confirmation}
    values["decision"] = Decision(verdict=Verdict.PASS, reasons=(), winner="fast")
    for name, value in values.items():
        (tmp_path / f"{name}.json").write_text(value.model_dump_json())
    return tmp_path


def read_last(work) -> LastRun:
    """Read it through the default entries of the catalog, with another folder."""
    entries = yaml.safe_load(DEFAULTS.read_text().replace("data/hone/work", str(work)))
    return LastRun(DataCatalog.from_config(entries))


def test_after_a_run_it_says_how_far_each_came(work):
    last = read_last(work)
    assert {name: last.describe(name) for name in ("fast", "good", "broken", "slow", "wrong", "closed", "new")} == {
        "fast": "won",
        "good": "raced",
        "broken": "confirmed, but failed: it crashed",
        "slow": SLOW,
        "wrong": "dropped: accuracy fell",
        "closed": "refused: shop.closed: it is closed on Mondays",
        "new": "not run yet",
    }


def test_what_the_run_made_of_the_routes_is_listed_too(work):
    ends = [SimpleNamespace(namespace=name) for name in ("fast", "good", "slow", "wrong", "closed")]
    plan = SimpleNamespace(routes=SimpleNamespace(ends=ends))
    assert read_last(work).describe_others(plan) == [("broken", "confirmed, but failed: it crashed")]
    (work / "race.json").unlink()
    assert read_last(work).describe_others(plan) == []


def test_a_finalist_that_did_not_win_was_confirmed(work):
    decision = Decision(verdict=Verdict.KEEP, reasons=())
    (work / "decision.json").write_text(decision.model_dump_json())
    assert read_last(work).describe("fast") == "confirmed"


def test_what_is_newer_than_the_race_is_only_built(work):
    later = time.time() + 10
    os.utime(work / "fast.outcome.json", (later, later))
    assert read_last(work).describe("fast") == "built"
    os.utime(work / "race.json", (later + 10, later + 10))
    assert read_last(work).describe("fast") == "raced"  # the confirmation is of an earlier race


def test_values_of_another_version_are_no_news(work):
    (work / "race.json").write_text('{"schema": 0}')
    assert read_last(work).describe("fast") == "built"


def test_routes_that_do_not_fit_are_grouped_by_their_reason(work):
    for name in ("onnx.a", "onnx.b"):
        (work / f"{name}.outcome.json").write_text(UNREACHABLE.model_dump_json())
    late = Refused(by="shop.late", slug=BUDGET, reason="no time was left")
    (work / "late.outcome.json").write_text(late.model_dump_json())
    last = read_last(work)
    names = ("fast", "closed", "onnx.a", "onnx.b", "late")
    unfit = {name: reason for name in names if (reason := last.find_obstacle(name))}
    rows = [{"id": name, "route": [name.partition(".")[0], name]} for name in names]
    assert group_unfit(rows, unfit) == {
        "onnx: no adaptor converts toy to onnx": ["onnx ▸ onnx.a", "onnx ▸ onnx.b"],
        "shop.closed: it is closed on Mondays": ["closed ▸ closed"],
    }
    assert next(iter(group_unfit(rows, unfit))).startswith("onnx")  # the most frequent reason first


def test_the_format_of_the_source_is_that_of_the_recipes_model(work):
    assert read_last(work).find_format("sha256:m") is None  # nothing was pulled yet
    source = Artifact(format="onnx", digest="sha256:0", inputs=(), outputs=(), made_from={"hone.model": "sha256:m"})
    (work / "source.json").write_text(source.model_dump_json())
    assert read_last(work).find_format("sha256:m") == "onnx"
    assert read_last(work).find_format("sha256:other") is None  # it is that of another model


@pytest.fixture
def list_for(tmp_path):
    """Call the command in a project with a model, and return its lines."""
    for environment in ("base", "local"):
        (tmp_path / "conf" / environment).mkdir(parents=True)
    (tmp_path / "net.onnx").write_bytes(b"x")
    entry = {"type": "kedro_hone.datasets.FileDataset", "path": "rows.npz"}
    catalog = dict.fromkeys(("calibration", "search", "gate"), entry)
    (tmp_path / "conf" / "base" / "catalog.yml").write_text(yaml.safe_dump(catalog))

    def call(uri: str) -> list[str]:
        recipe = {"hone": {"model": {"uri": uri}, "toolchains": ["onnxruntime", "openvino", "pytorch"]}}
        (tmp_path / "conf" / "base" / "parameters.yml").write_text(yaml.safe_dump(recipe))
        before = sorted(path.name for path in tmp_path.iterdir())
        command = [sys.executable, "-m", "kedro_hone", "hone", "routes"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != "data") == before
        return done.stdout.splitlines()

    return call


def test_only_routes_from_the_format_of_the_source_are_listed_before_a_run(list_for):
    title, *rows, last = list_for("net.onnx")
    assert "fit this model" in title
    assert all("pytorch" not in row for row in rows)
    assert any("onnxruntime.session" in row for row in rows)
    assert "routes --all" in last


def test_where_the_format_is_unknown_all_routes_are_listed_with_a_reason(list_for):
    title, *rows, last = list_for("models:/net/1")
    assert title == f"{len(rows)} routes"
    assert any("pytorch" in row for row in rows)
    assert last == UNKNOWN


@pytest.mark.parametrize(("most", "lines"), [(None, 5), (9, 5), (5, 5), (2, 2)])
def test_a_long_table_is_cut_with_the_number_of_the_rest(capsys, most, lines):
    _print_rows([(f"route {number}", "not run yet") for number in range(5)], title="5 routes", most=most)
    title, *rows = capsys.readouterr().out.splitlines()
    assert title == "5 routes"
    assert rows == [f"route {number}\tnot run yet" for number in range(lines)] + (["and 3 more"] if lines < 5 else [])


def test_how_many_routes_fit_is_said():
    assert format_route_count(1, 0) == "1 route"
    assert format_route_count(56, 0, unfit=55) == "1 of 56 routes fits this model"
    assert (
        format_route_count(56, 1, unfit=49)
        == "7 of 56 routes fit this model, and 1 candidate that the last run made of them"
    )


def test_an_outcome_of_an_older_version_is_as_if_it_had_not_run(work):
    (work / "good.outcome.json").write_text('{"kind": "artifact", "path": "/m"}')
    assert read_last(work).describe("good") == "not run yet"
