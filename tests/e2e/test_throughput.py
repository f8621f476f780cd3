"""A recipe whose shape has several clients, by the real command line."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from small_project import FAST, copy_project

from kedro_hone.report.schema import SCHEMA_FILE

SHORT = {"shop.convert": {"enabled": False}, "shop.slow": {"enabled": False}}


def test_several_clients_are_raced_and_confirmed_by_their_blocks(finished, tmp_path):
    project = copy_project(finished, tmp_path)
    project.set(shapes={"eight": {"batch": 8, "clients": 3}}, race={"objective": "throughput"})
    project.set(publish={"enabled": False})
    project.run()

    evidence = project.evidence
    jsonschema.validate(evidence, json.loads(SCHEMA_FILE.read_text()))
    assert (evidence["verdict"], evidence["winner"]["candidate"]) == ("PASS", FAST)
    done = {"builds": 0, "validations": 0, "reused_failures": 0}
    assert evidence["counts"] == done | {"launches": evidence["counts"]["launches"]}, "clients are in no key"
    rates = {row["id"]: row for row in evidence["throughputs"]}
    assert {*rates} == {"source", FAST}
    assert all((row["shape"], row["clients"], row["launches"]) == ("eight", 3, 3) for row in rates.values())
    with np.load(project.work / "latest" / "timings.npz") as samples:
        found = {name: read_rounds(samples, f"confirm/{name}/eight") for name in rates}
    for name, each in found.items():
        wanted = np.exp(np.log(np.median(8e9 / each, axis=1)).mean())
        assert rates[name]["rows_per_second"]["estimate"] == pytest.approx(wanted)
    (speedup,) = evidence["speedups"]
    launches = np.median(np.log(found["source"] / found[FAST]), axis=1)
    assert speedup["ratio"]["estimate"] == pytest.approx(np.exp(launches.mean()))
    assert "Throughput, several clients at once" in (project.work / "latest" / "report.html").read_text()


def read_rounds(samples, key):
    """Return the time of a block over its calls in each round of each launch, in nanoseconds."""
    return np.reshape(samples[f"{key}/walls"] / samples[f"{key}/calls"], (3, 3))


@pytest.mark.nightly
def test_one_client_is_as_without_any(finished, tmp_path):
    project = copy_project(finished, tmp_path)
    project.set(shapes={"eight": {"batch": 8, "clients": 1}}, publish={"enabled": False})
    project.run("--pipelines", "assess")

    evidence = project.evidence
    assert evidence["recipe"]["digest"] != finished.evidence["recipe"]["digest"], "it publishes nothing"
    assert evidence["recipe"]["shapes"] == finished.evidence["recipe"]["shapes"] == {"eight": {"batch": 8}}
    assert (evidence["counts"]["builds"], evidence["counts"]["validations"]) == (0, 0)
    assert "throughputs" not in evidence
    assert all("block_ms" not in both["source"] for both in evidence["latencies"])


def test_a_winner_over_the_budget_of_latency_is_not_published(project):
    project.set(adaptors=SHORT, shapes={"eight": {"batch": 8, "clients": 3}}, race={"latency_budget_ms": 0.001})
    done = project.run(code=10)

    assert "where 0.001 ms is allowed" in done.output
    evidence = project.evidence
    assert (evidence["verdict"], evidence["winner"]) == ("FAIL", None)
    (row,) = (one for one in evidence["gates"] if (one["name"], one["candidate"]) == ("latency_p99_ms", FAST))
    assert (row["judgement"], row["shape"], row["limit"]) == ("fails", "eight", 0.001)
    assert "th percentile" in row["reason"]


MIXED_UP = """

class Shared:
    def __init__(self, session): self.session, self.x = session, None
    def run(self, feeds):
        self.x = feeds["x"]
        time.sleep(0.001)  # another call replaces the rows
        return self.session.run({"x": self.x})

_load = load
def load(job):
    session = _load(job)
    return Shared(session) if job["adaptor"].endswith("fast") else session
"""


def test_who_gives_a_client_the_results_of_another_does_not_race(project):
    """The file of a toolchain whose session has one buffer for all callers."""
    (worker,) = project.root.rglob("toolchain/worker/**/__init__.py")
    worker.write_text(worker.read_text() + MIXED_UP)
    project.set(adaptors=SHORT, shapes={"eight": {"batch": 8, "clients": 3}})
    project.run(code=11)

    candidate = project.candidate(FAST)
    assert candidate["status"] == "failed"
    assert "by 3 clients at once returned other outputs than alone" in candidate["reason"]
