from __future__ import annotations

import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from hone_runtime.contract.registry import NewVersions, VersionInfo
from hone_runtime.errors import ExitCode
from kedro_hone.events.job import Optimize, State
from kedro_hone.events.queue import Queue
from kedro_hone.events.renewal import RULE, explain_due, explain_refused, find_rule_of, list_winners, make_renewal
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
        ("models:/${oc.env:HOME}/1", "models:/", True, "not a plain URI"),
        ("models:/a\nb/1", "models:/", True, "not a plain URI"),
        ("hf://[", "models:/", True, "not a URI"),
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


@pytest.fixture
def clock():
    return [1e9]


@pytest.fixture
def queue(tmp_path, clock):
    return Queue(tmp_path / "queue.db", now=lambda: clock[0])


def want(*names):
    return [make_renewal(make("2", name), None, device="cpu", **NOW) for name in names]


def renew(queue, requests, *, limit=9, dry_run=False):
    return queue.accept_daily(requests, rule=RULE, limit=limit, dry_run=dry_run)


def fail_all(queue):
    while job := queue.claim("cpu"):
        queue.finish(job, State.FAILED)


def test_a_day_has_a_limit_and_each_runs_once(queue, clock):
    requests = want(*"abcde")
    assert renew(queue, requests, limit=2) == requests[:2]
    clock[0] += 3600
    assert renew(queue, requests, limit=2) == []
    clock[0] += 86400
    assert renew(queue, requests, limit=2) == requests[2:4]
    clock[0] += 90_000
    assert renew(queue, requests) == requests[4:]
    assert queue.count_states()[State.QUEUED] == 5


def test_a_dry_run_queues_nothing(queue):
    requests = want("a", "b")
    for _ in range(2):
        assert renew(queue, requests, limit=1, dry_run=True) == requests[:1]
    assert queue.list_jobs() == ()
    assert renew(queue, requests, limit=1) == requests[:1]


def test_models_that_fail_each_time_keep_neither_the_limit_nor_the_others_turn(tmp_path, clock):
    def tick():
        clock[0] += 0.001
        return clock[0]

    queue, requests, ran = Queue(tmp_path / "queue.db", now=tick), want(*"abcde"), []
    for _ in range(4 * 10):  # a sweep each six hours of ten days
        ran += [(clock[0], one.uri) for one in renew(queue, requests, limit=2)]
        fail_all(queue)
        clock[0] += 6 * 3600
    assert [uri for _, uri in ran[:5]] == [one.uri for one in requests]
    counts = Counter(uri for _, uri in ran)
    assert max(counts.values()) - min(counts.values()) <= 1
    assert max(sum(start <= at < start + 86400 for at, _ in ran) for start, _ in ran) == 2


def test_a_sweep_whose_clock_was_a_year_ahead_blocks_no_later_one(queue, clock):
    first, second = want("a", "b")
    clock[0] += 365 * 86400
    assert renew(queue, [first], limit=1) == [first]
    fail_all(queue)
    clock[0] -= 365 * 86400
    assert renew(queue, [first, second], limit=1) == [second]
    clock[0] += 90_000
    assert renew(queue, [first], limit=1) == [first]


def test_a_renewal_that_failed_or_could_not_decide_may_run_again_and_one_that_ended_may_not(queue, clock):
    wanted = want("a")
    ends = [(State.FAILED, ""), (State.DONE, "INCONCLUSIVE"), (State.CANCELLED, ""), (State.DONE, "KEEP")]
    assert renew(queue, wanted) == wanted
    for (state, verdict), chosen in zip(ends, (wanted, wanted, [], []), strict=True):
        clock[0] += 90_000
        assert renew(queue, wanted) == []  # it is queued
        queue.finish(queue.claim("cpu"), state, verdict=verdict)
        assert renew(queue, wanted) == chosen
        if not chosen:
            queue.start_again(1)
        clock[0] += 3600
        assert renew(queue, wanted) == []


def test_a_renewal_that_was_asked_for_today_waits(queue, clock):
    wanted = want("a")
    renew(queue, wanted)
    fail_all(queue)
    clock[0] += 86_000
    assert renew(queue, wanted) == []
    clock[0] += 500
    assert renew(queue, wanted) == wanted


def test_a_renewal_whose_result_is_lost_may_run_again_where_its_exit_code_says_that_it_could_not_decide(queue, clock):
    wanted = want("a", "b")
    renew(queue, wanted)
    for code in (ExitCode.INCONCLUSIVE, ExitCode.SUCCESS):
        queue.finish(queue.claim("cpu"), State.DONE, exit_code=code)
    clock[0] += 90_000
    assert renew(queue, wanted) == wanted[:1]


@pytest.mark.parametrize(
    "damage", ["UPDATE jobs SET task = json_set(task, '$.newer_key', 1)", "UPDATE jobs SET task = 'no json'"]
)
def test_rows_that_cannot_be_read_take_no_turn(queue, clock, damage):
    wanted = want("a", "b", "c")
    renew(queue, wanted[:2])
    with sqlite3.connect(queue.path) as connection:
        connection.execute(damage)
    clock[0] += 90_000
    assert renew(queue, wanted, limit=2) == wanted[2:]


def test_sweeps_at_the_same_time_keep_the_limit_together(tmp_path):
    def sweep(name):
        return renew(Queue(tmp_path / "queue.db"), want(name), limit=2)

    with ThreadPoolExecutor(8) as pool:
        chosen = [*pool.map(sweep, "abcdefgh")]
    assert sum(map(len, chosen)) == 2
    assert Queue(tmp_path / "queue.db").count_states()[State.QUEUED] == 2
