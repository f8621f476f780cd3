import json
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError
from sample import make_evidence

from hone_runtime.contract.proof import SCHEMA_ID
from hone_runtime.errors import HoneError
from hone_runtime.values.decision import Verdict
from hone_runtime.values.digest import digest_json
from kedro_hone.report.evidence import dump_evidence, parse_evidence
from kedro_hone.report.schema import SCHEMA_FILE, generate_schema

# What evidence.json holds at least, by these names.
FIELDS = {
    "": "schema run_id created recipe verdict reasons source winner speedup speedups latency latencies quality "
    "candidates race confirmation hardware environments data steps phase_seconds optimization_seconds break_even_calls "
    "counts",
    "source": "uri version format digest baseline",
    "winner": "candidate route format digest",
    "speedup": "ratio noise_floor shape launches",
    "latency": "source winner",
    "confirmation": "finalists control launches looks",
    "race": "rounds seconds budget_ended timings",
    "hardware": "cpu cores flags gpu driver os",
    "counts": "builds validations launches reused_failures",
}
ROWS = {
    "quality": "id metric kind source candidate drop limit provable n",
    "candidates": "id route status reason failure_class latency quality size_bytes cold_start_ms peak_memory_bytes "
    "build_seconds cached rounds",
    "environments": "toolchain key lock_digest origin versions",
    "data": "name path md5 rev sha256 n",
    "steps": "key adaptor run folder seconds outcome",
}


@pytest.fixture(scope="module")
def published():
    return json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


def test_published_schema_is_what_the_classes_generate():
    assert SCHEMA_FILE.read_text(encoding="utf-8") == generate_schema(), "run: python -m kedro_hone.report.schema"


def test_published_schema_is_a_schema(published):
    jsonschema.Draft202012Validator.check_schema(published)


@pytest.mark.parametrize("verdict", Verdict)
def test_sample_holds_to_the_published_schema(published, verdict):
    document = json.loads(dump_evidence(make_evidence(verdict)))
    validator = jsonschema.Draft202012Validator(published, format_checker=jsonschema.FormatChecker())
    assert [error.message for error in validator.iter_errors(document)] == []


@pytest.mark.parametrize(
    ("break_it", "where"),
    [
        (lambda document: document.pop("schema"), "schema"),
        (lambda document: document.update(schema="kedro-hone/evidence/99"), "schema"),
        (lambda document: document.update(verdict="MAYBE"), "verdict"),
        (lambda document: document["recipe"].pop("digest"), "digest"),
        (lambda document: document["candidates"][3].update(status="lost"), "status"),
        (lambda document: document["source"].pop("digest"), "digest"),
    ],
)
def test_schema_refuses_what_is_no_evidence(published, break_it, where):
    document = json.loads(dump_evidence(make_evidence()))
    break_it(document)
    errors = list(jsonschema.Draft202012Validator(published).iter_errors(document))
    assert errors
    assert where in str(errors[0].json_path) + errors[0].message


def test_schema_allows_what_later_versions_add(published):
    document = json.loads(dump_evidence(make_evidence()))
    document["signature"] = {"by": "somebody"}
    document["candidates"][0]["energy_joules"] = 3.1
    jsonschema.Draft202012Validator(published).validate(document)
    assert parse_evidence(json.dumps(document)) == make_evidence()


def test_every_property_of_the_schema_is_described(published):
    bare = [
        f"{name}.{field}"
        for name, part in {"Evidence": published, **published["$defs"]}.items()
        for field, schema in part.get("properties", {}).items()
        if not schema.get("description")
    ]
    assert bare == []


@pytest.mark.parametrize("part", FIELDS)
def test_evidence_has_the_promised_fields(part):
    document = json.loads(dump_evidence(make_evidence()))
    assert set(FIELDS[part].split()) <= set(document[part] if part else document)


def test_every_interval_has_the_same_four_fields():
    document = json.loads(dump_evidence(make_evidence()))
    intervals = [document["speedup"]["ratio"], document["quality"][0]["drop"], document["candidates"][1]["speedup"]]
    assert all(set(one) == {"estimate", "low", "high", "confidence"} for one in intervals)


@pytest.mark.parametrize("part", ROWS)
def test_rows_have_the_promised_fields(part):
    rows = json.loads(dump_evidence(make_evidence()))[part]
    assert rows
    assert all(set(ROWS[part].split()) <= set(row) for row in rows)


def test_latency_names_the_median_of_the_deciding_shape():
    latency = json.loads(dump_evidence(make_evidence()))["latency"]
    assert latency["source"]["p50_ms"] > latency["winner"]["p50_ms"] > 0
    assert latency["source"]["shape"] == "batch1"


@pytest.mark.parametrize("verdict", Verdict)
def test_evidence_survives_the_file(verdict):
    evidence = make_evidence(verdict)
    assert parse_evidence(dump_evidence(evidence)) == evidence


def test_evidence_of_another_schema_is_refused_with_both_ids():
    text = dump_evidence(make_evidence()).replace(SCHEMA_ID, "kedro-hone/evidence/99")
    with pytest.raises(HoneError) as raised:
        parse_evidence(text)
    assert raised.value.slug == "evidence-unreadable"
    assert "kedro-hone/evidence/99" in raised.value.why
    assert SCHEMA_ID in raised.value.why


@pytest.mark.parametrize(
    ("text", "why"),
    [("{", "JSON"), ("[]", "JSON"), ("{}", "run_id"), (f'{{"schema": "{SCHEMA_ID}"}}', "run_id")],
)
def test_what_is_no_evidence_is_refused(text, why):
    with pytest.raises(HoneError) as raised:
        parse_evidence(text)
    assert raised.value.slug == "evidence-unreadable"
    assert why in raised.value.why


def test_another_shape_of_the_evidence_has_another_id(published):
    """A field that changed or went raises the number in ``SCHEMA_ID``; note the digest of the new shape here."""
    assert (SCHEMA_ID, digest_json(strip_words(published))) == (
        "kedro-hone/evidence/2",
        "sha256:750b28771c85540b58fe9374cc8d3bba6c7578a603927225a2192d12a8268cf5",
    )


def strip_words(part):
    """The schema without what is only said of it."""
    if isinstance(part, list):
        return [strip_words(one) for one in part]
    if not isinstance(part, dict):
        return part
    words = {"description", "title", "$id", "$schema"}
    return {name: strip_words(one) for name, one in part.items() if name not in words}


def test_numbers_that_json_cannot_hold_are_refused():
    with pytest.raises(ValidationError, match="finite"):
        make_evidence(optimization_seconds=float("nan"))


def test_measured_values_that_json_cannot_hold_are_refused():
    speedup = make_evidence().speedup
    endless = speedup.model_copy(update={"ratio": speedup.ratio.model_copy(update={"high": float("inf")})})
    with pytest.raises(ValidationError, match="JSON"):
        make_evidence(speedup=endless)


def test_the_reference_page_names_every_field(published):
    page = (Path(__file__).parents[3] / "docs" / "reference" / "evidence.md").read_text(encoding="utf-8")
    missing = [field for field in published["properties"] if f"`{field}`" not in page]
    assert missing == []
    assert all(f"`{status}`" in page for status in published["$defs"]["Status"]["enum"])
