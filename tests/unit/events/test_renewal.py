from __future__ import annotations

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kedro_hone.core.contract.registry import NewVersions, VersionInfo
from kedro_hone.core.errors import ExitCode
from kedro_hone.events.job import Optimize, State
from kedro_hone.events.queue import Queue
from kedro_hone.events.renewal import (
    choose_renewals,
    explain_due,
    explain_refused,
    find_rule_of,
    list_winners,
    make_renewal,
    queue_renewals,
)
from kedro_hone.events.rules import Rule
from kedro_hone.events.settings import read_settings

NOW = {"machine": "here", "toolset": "onnxruntime=1 openvino=2"}


def make(version, name="digits", **tags):
    tags = {"hone.source": f"models:/{name}/1", "hone.machine": "here", "hone.toolset": NOW["toolset"], **tags}
    return VersionInfo(uri=f"models:/{name}/{version}", name=name, version=version, tags=tags)


class Fixed:
    """A registry of two models, one of whose winners has the alias."""

    def versions_since(self, cursor):
        assert cursor is None
        source = VersionInfo(uri="models:/digits/1", name="digits", version="1")
        return NewVersions((source, make("2"), make("3"), make("2", "fraud")), "end")

    def list_aliases(self, name):
        return {"digits": {"honed": "3", "other": "2"}, "fraud": {}}[name]


def test_winners_that_the_alias_points_to():
    def find(alias, *names):
        winners = list_winners(Fixed(), find_alias=lambda info: alias if info.name in names else None)
        return [info.uri for info in winners]

    assert find("honed", "digits", "fraud") == ["models:/digits/3"]
    assert find("other", "digits") == ["models:/digits/2"]
    assert find("honed", "fraud") == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("models:/digits/7", "digits"),
        ("hf://org/digits@0123", "hub"),
        ("models/digits", "digits"),
        ("models:/fraud/7", None),
    ],
)
def test_the_rule_of_a_winner_is_that_of_its_source(source, rule):
    names = [{"name": "digits", "models": "digits"}, {"name": "hub", "models": "hf://org/*"}]
    found = find_rule_of(
        make("2", "published-elsewhere", **{"hone.source": source}), read_settings({"rules": names}).rules
    )
    assert (found and found.name) == rule


@pytest.mark.parametrize(
    ("source", "registry", "ruled", "why"),
    [
        ("models:/digits/7", "models:/", False, ""),
        ("hf://org/digits@0123", "models:/", True, ""),
        ("hf://org/digits@0123", "models:/", False, "no rule"),
        ("models/digits", "models:/", True, ""),
        ("incoming/digits", "incoming", False, ""),
        ("/etc", "models:/", True, "outside the project"),
        ("../fraud", "incoming", True, "outside the project"),
        ("models:/${oc.env:HOME}/1", "models:/", True, "no plain URI"),
        ("models:/a\nb/1", "models:/", True, "no plain URI"),
        ("hf://[", "models:/", True, "no URI"),
    ],
)
def test_a_tag_alone_makes_nothing_run_that_is_not_meant(source, registry, ruled, why, tmp_path):
    rule = Rule(name="all", models="*") if ruled else None
    refused = explain_refused(make("2", **{"hone.source": source}), registry, rule, project=tmp_path)
    assert (why in refused, bool(refused)) == (True, bool(why))


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({}, ""),
        ({"hone.toolset": "onnxruntime=0 openvino=2"}, "toolchains: onnxruntime"),
        ({"hone.toolset": "onnxruntime=1"}, "toolchains: openvino"),
        ({"hone.toolset": "onnxruntime=1 openvino=2 gone=3"}, ""),
        ({"hone.toolset": "nonsense", "hone.machine": ""}, "toolchains: onnxruntime, openvino and the machine"),
        ({"hone.machine": "there"}, "the machine"),
    ],
)
def test_what_is_another_one_now(tags, why):
    assert explain_due(make("2", **tags), **NOW) == why


def test_a_renewal_must_beat_what_is_published():
    settings = {
        "rules": [{"name": "a", "models": "*", "env": "prod", "recipe": {"gates": {"drop": 0.1}, "threads": 1}}]
    }
    (rule,) = read_settings(settings).rules
    wanted = make_renewal(make("2"), rule, device="cpu", **NOW)
    assert wanted.uri == "models:/digits/1"
    assert wanted.task == Optimize(recipe={"gates": {"drop": 0.1, "beat_published": True}, "threads": 1}, env="prod")
    assert make_renewal(make("3"), rule, device="cpu", **NOW).key == wanted.key
    assert make_renewal(make("2"), rule, device="cpu", **{**NOW, "toolset": "openvino=3"}).key != wanted.key


def test_a_day_has_a_limit_and_each_runs_once(tmp_path):
    clock = [1000.0]
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    requests = [make_renewal(make("2", f"m{number}"), None, device="cpu", **NOW) for number in range(5)]
    first = choose_renewals(queue, requests, limit=2, now=clock[0])
    assert first == requests[:2]
    queue.accept(first)
    assert choose_renewals(queue, requests, limit=2, now=clock[0] + 3600) == []
    assert choose_renewals(queue, requests, limit=2, now=clock[0] + 90_000) == requests[2:4]


def test_models_that_fail_each_time_keep_neither_the_limit_nor_the_others_turn(tmp_path):
    clock, ran = [1000.0], []
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    requests = [make_renewal(make("2", f"m{number}"), None, device="cpu", **NOW) for number in range(5)]
    for _ in range(4 * 30):  # a sweep each six hours of a month
        for one in choose_renewals(queue, requests, limit=2, now=clock[0]):
            if not queue.accept([one]):
                queue.start_again(queue.find_key(one.key).id)
            queue.finish(queue.claim("cpu"), State.FAILED)
            ran.append((clock[0], one.uri))
        clock[0] += 6 * 3600
    assert [uri for _, uri in ran[:5]] == [one.uri for one in requests]
    assert max(sum(start <= at < start + 86400 for at, _ in ran) for start, _ in ran) == 2
    assert len(ran) <= 5 * 6  # after 1, 2, 4, 8 and 16 days


def test_the_longest_pause_stays_sixteen_days(tmp_path):
    """Requests were forgotten after thirty days, and with them how often it was tried."""
    clock, ran = [0.0], []
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    wanted = make_renewal(make("2"), None, device="cpu", **NOW)
    for day in range(130):
        clock[0] = day * 86400.0
        queue.forget_old()
        for one in choose_renewals(queue, [wanted], limit=2, now=clock[0]):
            if not queue.accept([one]):
                queue.start_again(queue.find_key(one.key).id)
            queue.finish(queue.claim("cpu"), State.FAILED)
            ran.append(day)
    assert ran == [0, 1, 3, 7, 15, 31, 47, 63, 79, 95, 111, 127]


def test_a_sweep_whose_clock_was_a_year_ahead_blocks_no_later_one(tmp_path):
    clock = [1e9 + 365 * 86400.0]
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    first, second = (make_renewal(make("2", name), None, device="cpu", **NOW) for name in ("a", "b"))
    queue.accept([first])
    queue.finish(queue.claim("cpu"), State.FAILED)
    clock[0] = 1e9
    assert choose_renewals(queue, [first, second], limit=1, now=clock[0]) == [second]
    assert choose_renewals(queue, [first], limit=1, now=clock[0]) == [first]


def test_a_renewal_that_failed_or_could_not_decide_may_run_again_and_one_that_ended_may_not(tmp_path):
    clock = [1000.0]
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    wanted = make_renewal(make("2"), None, device="cpu", **NOW)
    ends = [(State.FAILED, ""), (State.DONE, "INCONCLUSIVE"), (State.CANCELLED, ""), (State.DONE, "KEEP")]
    for (state, verdict), chosen in zip(ends, ([wanted], [wanted], [], []), strict=True):
        if not queue.accept([wanted]):
            queue.start_again(queue.find_key(wanted.key).id)
        assert choose_renewals(queue, [wanted], limit=9, now=clock[0] + 90_000) == []  # it is queued
        queue.finish(queue.claim("cpu"), state, verdict=verdict)
        assert choose_renewals(queue, [wanted], limit=9, now=clock[0]) == []
        clock[0] += 2 * 90_000
        assert choose_renewals(queue, [wanted], limit=9, now=clock[0]) == chosen


def test_a_renewal_whose_result_is_lost_may_run_again_where_its_exit_code_says_that_it_could_not_decide(tmp_path):
    clock = [1000.0]
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    wanted = [make_renewal(make("2", name), None, device="cpu", **NOW) for name in ("a", "b")]
    queue.accept(wanted)
    for code in (ExitCode.INCONCLUSIVE, ExitCode.SUCCESS):
        queue.finish(queue.claim("cpu"), State.DONE, exit_code=code)
    clock[0] += 90_000
    assert choose_renewals(queue, wanted, limit=9, now=clock[0]) == wanted[:1]


@pytest.mark.parametrize(
    "damage", ["UPDATE jobs SET task = json_set(task, '$.newer_key', 1)", "UPDATE jobs SET task = 'no json'"]
)
def test_rows_that_cannot_be_read_take_no_turn(tmp_path, damage):
    queue = Queue(tmp_path / "queue.db", now=lambda: 1000.0)
    wanted = [make_renewal(make("2", name), None, device="cpu", **NOW) for name in ("a", "b", "c")]
    queue.accept(wanted[:2])
    with sqlite3.connect(tmp_path / "queue.db") as connection:
        connection.execute(damage)
    assert choose_renewals(queue, wanted, limit=2, now=200_000.0) == wanted[2:]


def test_requests_of_a_clock_that_was_wrong_do_not_count(tmp_path):
    """Each later one was chosen at every sweep, while the last of all times was in the future."""
    clock = [1e9 + 400 * 86400.0]
    queue = Queue(tmp_path / "queue.db", now=lambda: clock[0])
    wanted = make_renewal(make("2"), None, device="cpu", **NOW)
    queue.accept([wanted])
    clock[0], ran = 1e9, 0
    for _ in range(4 * 10):  # a sweep each six hours of ten days
        if job := queue.claim("cpu"):
            queue.finish(job, State.FAILED)
        for one in choose_renewals(queue, [wanted], limit=3, now=clock[0]):
            ran += queue.start_again(queue.find_key(one.key).id)
        clock[0] += 6 * 3600
    assert ran == 4  # at once, and after 1, 2 and 4 days
    with sqlite3.connect(tmp_path / "queue.db") as connection:
        connection.execute("INSERT INTO requests VALUES (1, 'renewal', 'yesterday')")
    assert len(queue.list_requests(1)) == 5


def test_sweeps_at_the_same_time_keep_the_limit_together(tmp_path):
    def sweep(name):
        queue = Queue(tmp_path / "queue.db")
        wanted = [make_renewal(make("2", name), None, device="cpu", **NOW)]
        return queue_renewals(queue, wanted, limit=2, now=time.time(), lock=tmp_path / "lock")

    with ThreadPoolExecutor(8) as pool:
        chosen = [*pool.map(sweep, "abcdefgh")]
    assert sum(map(len, chosen)) == 2
    assert Queue(tmp_path / "queue.db").count_states()[State.QUEUED] == 2
