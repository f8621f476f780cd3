"""What is expected of adaptors: by the usual figures, and by a model's own earlier steps."""

from __future__ import annotations

from statistics import fmean

import pytest
from toolchains.toy import adaptor as toy

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.hardware import read_host
from hone_runtime.values.artifact import Artifact, StepFacts
from hone_runtime.values.outcome import Failed, FailureClass
from kedro_hone.core.store.steps import StepRecord
from kedro_hone.recipe.prior import Usual, find_usual
from kedro_hone.search.plan.forecast import UNKNOWN, Forecast, find_medians, make_forecast
from kedro_hone.search.steps.step import transform

FORECAST = Forecast(
    adaptors={
        "x.int8": Usual(seconds=3.0, speed=2.0),
        "x.run": Usual(seconds=1.0, validation=0.5, speed=0.4),
        "x.instant": Usual(seconds=0.0, validation=0.0),
    }
)


def make_artifact(digest, operators=()):
    return Artifact(format="onnx", digest=digest, inputs=(), outputs=(), metadata={"operators": [*operators]})


def test_the_speed_of_a_route_is_that_of_its_runtime_times_those_of_its_compressors():
    assert FORECAST.find_speed(("x.int8", "x.convert", "x.run")) == pytest.approx(0.8)
    assert FORECAST.find_speed(("y.run",)) == 1.0


def test_a_speed_is_known_where_the_runtime_and_each_compressor_were_measured():
    known = Forecast(adaptors={name: Usual(speed=0.5) for name in ("openvino.f32", "onnxruntime.int8-static")})
    assert known.knows_speed(("openvino.ir", "openvino.f32")), "a converter has no speed"
    assert known.knows_speed(("onnxruntime.int8-static", "openvino.ir", "openvino.f32"))
    assert not known.knows_speed(("onnxruntime.int8-dynamic", "openvino.ir", "openvino.f32"))
    assert not known.knows_speed(("onnxruntime.int8-static", "onnxruntime.session"))
    assert not known.knows_speed(("y.run",))


def test_the_seconds_of_a_route_are_those_of_its_steps_and_its_validation():
    assert FORECAST.sum_seconds(("x.int8", "x.run"), runtime="x.run") == 4.5
    assert FORECAST.sum_seconds((), runtime="x.run") == 0.5
    assert FORECAST.sum_seconds(("x.instant",), runtime="x.instant") == 0.0
    assert UNKNOWN.sum_seconds(("x.run",), runtime="x.run") == 7.0


def test_what_nothing_is_known_of_is_expected_to_take_no_time_that_a_budget_could_lack():
    assert FORECAST.find_seconds("x.run") == 1.0
    assert FORECAST.find_validation("x.run") == 0.5
    assert UNKNOWN.find_seconds("x.run") is None
    assert FORECAST.find_validation("x.int8") is None


def record(parent, adaptor, seconds, outcome):
    kind = outcome if isinstance(outcome, Artifact) else Failed(by=adaptor, failure=FailureClass.COMPILE, reason="no")
    facts = StepFacts(key="k", adaptor=adaptor, run="r", folder="f", seconds=seconds, outcome=kind.kind)
    return StepRecord(facts=facts, outcome=kind, created="2026", inputs={"input": parent})


def test_the_median_counts_of_the_steps_that_began_with_this_model():
    source, made = make_artifact("sha256:source"), make_artifact("sha256:made")
    records = [
        record("sha256:made", "x.run", 4.0, make_artifact("sha256:end")),
        record("sha256:made", "x.run", 6.0, make_artifact("sha256:end")),
        record("sha256:made", "x.once", 9.0, make_artifact("sha256:end")),  # of a busy machine, perhaps
        record("sha256:source", "x.convert", 1.0, made),
        record("sha256:source", "x.convert", 2.0, made),
        record("sha256:source", "x.convert", 9.0, source),  # a circle ends
        record("sha256:source", "x.convert", 0.1, None),
        record("sha256:other", "x.run", 70.0, make_artifact("sha256:elsewhere")),
    ]
    assert find_medians(source, records) == {"x.convert": 2.0, "x.run": 5.0}


def test_own_seconds_count_more_than_the_usual_ones():
    adaptor = read_catalogue().find_adaptor("onnxruntime.session")
    source, host = make_artifact("sha256:source", ["Conv"]), read_host()
    usual = find_usual(adaptor, source, host)
    found = make_forecast([adaptor], source, host, []).adaptors
    assert found == ({adaptor.name: usual} if usual != Usual() else {})
    own = make_forecast([adaptor], source, host, [record("sha256:source", adaptor.name, 77.0, make_artifact("e"))] * 2)
    assert own.adaptors[adaptor.name] == usual.model_copy(update={"seconds": 77.0})


def test_what_a_store_holds_of_the_steps_of_a_model_is_found(context):
    given = [toy.COMPILE.options(slow=slow) for slow in (0.1, 0.2)]
    made = [transform(toy.COMPILE, options, context.source, context, reference=None) for options in given]
    (context.store.root / "steps" / "odd.json").write_text("{")
    seconds = [outcome.steps[-1].seconds for outcome in made]
    assert find_medians(context.source, context.store.read_records()) == {"toy.compile": pytest.approx(fmean(seconds))}
