"""The evidence of a run, assembled from values as its nodes make them."""

from __future__ import annotations

import datetime as dt
import json

import jsonschema
import numpy as np
import pytest

from hone_runtime.contract.registry import VersionInfo
from hone_runtime.values.artifact import StepFacts
from hone_runtime.values.decision import Decision, Verdict
from hone_runtime.values.digest import digest_json
from hone_runtime.values.hardware import Hardware
from hone_runtime.values.measurement import (
    ConfirmationResult,
    Finalist,
    Interval,
    Latency,
    Quality,
    RaceResult,
    Speedup,
    Standing,
    Status,
    Validation,
)
from hone_runtime.values.outcome import Candidate, Refused
from hone_runtime.values.samples import Reference, Samples, Split
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.runs import RunFolder
from kedro_hone.nodes.report import gather_evidence
from kedro_hone.recipe.schema import read_recipe
from kedro_hone.report.evidence import dump_evidence, parse_evidence
from kedro_hone.report.schema import generate_schema
from kedro_hone.search.context import RunContext

SOURCE_MS = {"batch1": 4.0, "batch8": 20.0}
RATIO = Interval(estimate=2.0, low=1.9, high=2.1)
DROP = Interval(estimate=0.0, low=-0.01, high=0.01)
BUILD = StepFacts(key="k", adaptor="onnxruntime.session", run="r", folder="steps/1-x", seconds=5.0, outcome="artifact")

ELSEWHERE = Hardware(cpu="Another CPU", cores=77, flags=("avx2",), instructions="AVX2 only", os="Linux", threads=7)
ENDED = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def time(factor):
    return tuple(Latency(shape=shape, p50_ms=p50_ms / factor, n=100) for shape, p50_ms in SOURCE_MS.items())


def make_speedup(shape):
    return Speedup(shape=shape, ratio=RATIO, noise_floor=1.01, launches=7)


def make_finalist(name, *, deciding="batch8"):
    speedups = tuple(make_speedup(shape) for shape in SOURCE_MS)
    decided = make_speedup(deciding) if deciding else None
    return Finalist(id=name, speedups=speedups, latency=time(2), launches=7, deciding=decided)


FAST = make_finalist("fast")


def make_quality(split, limit=None):
    return Quality(id="fast", metric="accuracy", split=split, source=0.9, candidate=0.9, drop=DROP, limit=limit, n=300)


@pytest.fixture
def gather(tmp_path, monkeypatch):
    """Gather the evidence of a run with one fast candidate, one that was refused, and a source of 3 bytes."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "model.onnx").write_bytes(b"abc")
    store = Store(tmp_path / "hone" / "store")
    run = RunFolder(root=tmp_path / "hone" / "runs", run_id="r", project=tmp_path)
    artifact = store.seal(tmp_path / "source", format="onnx", inputs=(), outputs=(), runtime="onnxruntime")
    split = Split(
        name="gate",
        n=300,
        path="d",
        md5="m",
        rev="c0ffee",
    )
    samples = Samples(digest="sha256:3", splits={"gate": split}, shapes={}, program="p", program_digest="sha256:4")
    reference = Reference(
        outputs="o", digest="sha256:5", metric="accuracy", value=0.9, kind="proportion", n=500, cold_start_ms=3.0,
        peak_memory_bytes=1000,
    )  # fmt: skip
    refused = Refused(by="a.b", slug="format", reason="takes onnx")
    validations = [
        Validation(
            candidate=Candidate(id="z", route=("a.b",), outcome=refused), status=Status.REFUSED, reason="takes onnx"
        ),
        Validation(
            candidate=Candidate(
                id="fast", route=("onnxruntime.session",), outcome=artifact.model_copy(update={"steps": (BUILD,)})
            ),
            status=Status.MEASURED,
            quality=make_quality("search", 0.02),
            run="r",
            seconds=7.0,
            since="r",
        ),
    ]
    standing = Standing(id="fast", status=Status.MEASURED, rounds=9, latency=time(2), objective=RATIO)

    def gather_it(*, finalists=(FAST,), timings=None, **decided):
        return gather_evidence(
            forms=(),
            context=RunContext(
                source=artifact,
                samples=samples,
                recipe=read_recipe({"model": {"uri": "models:/x/1"}}),
                store=store, run=run,
            ),
            version=VersionInfo(uri="models:/x/1", name="x", version="1"),
            reference=reference,
            race=RaceResult(
                validations=validations, standings=(standing,), source_latency=time(1), rounds=9, seconds=11.0,
                budget_ended=False, timings="k",
            ),
            confirmation=ConfirmationResult(
                finalists=finalists, source_latency=time(1), control=(), launches=7, looks=1,
                seconds=13.0, timings="k", hardware=ELSEWHERE, ended=ENDED, made_from={"race": "sha256:6"},
            ),
            decision=Decision(reasons=("why",), baseline="eager", artifact=artifact, **decided),
            path="winner" if decided.get("winner") else "",
            timings=timings or {},
        )  # fmt: skip

    return gather_it


def test_a_winner_has_its_speed_at_the_deciding_shape_and_at_each(gather):
    evidence = gather(verdict=Verdict.PASS, winner="fast", quality=(make_quality("gate", 0.02),))
    assert (evidence.winner.candidate, evidence.winner.route) == ("fast", ("onnxruntime.session",))
    assert (evidence.speedup.shape, evidence.speedup.ratio, evidence.source.baseline) == ("batch8", RATIO, "eager")
    assert [one.shape for one in evidence.speedups] == list(SOURCE_MS)
    assert [(one.source.p50_ms, one.winner.p50_ms) for one in evidence.latencies] == [(4.0, 2.0), (20.0, 10.0)]
    assert evidence.latency == evidence.latencies[1]
    assert evidence.phase_seconds == {"build": 5.0, "validate": 7.0, "race": 11.0, "confirm": 13.0}
    # 5 + 7 + 11 + 13 seconds, and 10 ms are saved by a call.
    assert (evidence.optimization_seconds, evidence.break_even_calls) == (36.0, 3600)
    assert (evidence.counts.builds, evidence.counts.validations, evidence.counts.launches) == (1, 1, 1)


def test_what_was_measured_is_in_it_as_it_is(gather):
    gate = make_quality("gate", 0.02)
    evidence = gather(verdict=Verdict.PASS, winner="fast", quality=(gate,))
    assert evidence.subject_quality == (gate,)
    assert evidence.confirmation.finalists == evidence.finalists == (FAST,)
    source, fast, refused = evidence.candidates
    assert (source.quality.limit, source.size_bytes, source.speedup) == (None, 3, None)
    assert (fast.id, fast.speedup, fast.quality) == ("fast", RATIO, make_quality("search", 0.02))
    assert (refused.id, refused.status, refused.reason) == ("z", Status.REFUSED, "takes onnx")


def test_the_machine_and_the_time_are_those_of_the_measuring(gather):
    """A report may be written on another machine, and later."""
    evidence = gather(verdict=Verdict.KEEP)
    assert (evidence.hardware, evidence.created) == (ELSEWHERE, ENDED)
    assert evidence.confirmation.subject == digest_json({"race": "sha256:6"})


def test_it_is_written_as_the_schema_says_and_read_back(gather):
    evidence = gather(verdict=Verdict.PASS, winner="fast", quality=(make_quality("gate"),))
    jsonschema.validate(json.loads(dump_evidence(evidence)), json.loads(generate_schema()))
    assert parse_evidence(dump_evidence(evidence)) == evidence


def test_without_a_winner_the_speed_is_that_of_the_best_finalist_that_was_confirmed(gather):
    evidence = gather(
        verdict=Verdict.KEEP, finalists=(make_finalist("slow", deciding=None), make_finalist("fast", deciding="batch1"))
    )
    assert evidence.winner is None
    assert evidence.speedup.shape == evidence.latency.source.shape == "batch1"
    assert evidence.latency.winner is None
    assert evidence.break_even_calls is None


def test_without_a_winner_it_is_about_the_finalist_whose_speed_the_decision_has(gather):
    ratio = Interval(estimate=3.0, low=2.9, high=3.1)
    second = make_finalist("second").model_copy(
        update={"speedups": (make_speedup("batch8").model_copy(update={"ratio": ratio}),)}
    )
    second = second.model_copy(update={"deciding": second.speedups[0]})
    evidence = gather(verdict=Verdict.FAIL, finalists=(FAST, second), speedup=second.deciding)
    assert (evidence.subject, evidence.speedup, evidence.speedups) == ("second", second.deciding, second.speedups)


def test_a_mean_over_the_shapes_has_the_times_of_the_first_shape(gather):
    evidence = gather(verdict=Verdict.KEEP, finalists=(make_finalist("fast", deciding="mean"),))
    assert (evidence.speedup.shape, evidence.latency.source.shape) == ("mean", "batch1")


def test_where_nothing_was_confirmed_there_are_the_times_of_the_source(gather):
    evidence = gather(verdict=Verdict.KEEP, finalists=())
    assert (evidence.speedup, evidence.speedups, evidence.subject) == (None, (), None)
    assert [one.source for one in evidence.latencies] == list(time(1))


def test_percentiles_are_of_the_source_and_of_the_finalist_that_is_reported(gather):
    rounds, launches, calls = 7, 7, 30
    times = np.repeat(np.arange(1, launches + 1), rounds * calls) * 1_000_000
    counts = np.full(rounds * launches, calls)
    timings = {
        f"confirm/{name}/batch1{end}": rows
        for name in ("source", "fast", "other")
        for end, rows in (("", times), ("/calls", counts))
    }

    found = gather(timings=timings, verdict=Verdict.PASS, winner="fast").percentiles

    assert [(one.id, one.shape, one.launches, one.fewest_calls) for one in found] == [
        ("source", "batch1", 7, 210),
        ("fast", "batch1", 7, 210),
    ]
    assert found[0].p50.low < found[0].p50.estimate < found[0].p50.high
