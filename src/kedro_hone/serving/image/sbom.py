"""The bill of materials of an image, in the format CycloneDX 1.6: its packages, and the model with a model card.

Source: https://cyclonedx.org/docs/1.6/json/. The tests validate it with the project's own library, which has no class
for model cards.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

import kedro_hone
from hone_runtime.values.base import Json
from kedro_hone.core.environments.requirements import read_lines
from kedro_hone.serving.image.descriptors import Descriptor, format_json
from kedro_hone.serving.image.referrers import CREATED
from kedro_hone.serving.tensors import Tensor
from kedro_hone.serving.winner import ServedWinner

_SCHEMA: Final = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_MODEL: Final = "model"


def make_sbom(
    winner: ServedWinner,
    *,
    subject: Descriptor,
    versions: Mapping[str, str],
    locks: Iterable[Path],
    evidence: bytes | None,
) -> bytes:
    """Return the bill of materials of an image as JSON; equal inputs give equal bytes.

    Args:
        winner: The winner in it.
        subject: The image's manifest.
        versions: The packages in it, by canonical name.
        locks: The locks of the server's environment, with the digests of the packages' files.
        evidence: The winner's evidence; None if there is none.
    """
    hashes = _read_hashes(locks)
    packages = [_describe_package(name, version, hashes) for name, version in sorted(versions.items())]
    own = _describe_package("kedro-hone", kedro_hone.__version__, {})
    components = [own, *packages, _describe_model(winner, _read(evidence))]
    root = {"type": "container", "bom-ref": "image", "name": winner.name, "version": subject.digest}
    document = {
        "$schema": _SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(hex=subject.hex[:32])}",
        "version": 1,
        "metadata": {"timestamp": CREATED, "component": root},
        "components": components,
        "dependencies": [
            {"ref": "image", "dependsOn": sorted(one["bom-ref"] for one in components)},
            *({"ref": one["bom-ref"]} for one in components),
        ],
    }
    return format_json(document)


def _read_hashes(locks: Iterable[Path]) -> dict[tuple[str, str], list[str]]:
    """Return the digests of the files of each package in locks, by its name and version."""
    found = dict[tuple[str, str], list[str]]()
    for line in (line for lock in locks for line in read_lines(lock)):
        name, _, rest = line.partition("==")
        version, *options = rest.split()
        digests = [one.removeprefix("--hash=sha256:") for one in options if one.startswith("--hash=sha256:")]
        found[canonicalize_name(name), version] = sorted(digests)
    return found


def _describe_package(name: str, version: str, hashes: Mapping[tuple[str, str], list[str]]) -> dict[str, Any]:
    digests = hashes.get((name, version), ())
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        **({"hashes": [{"alg": "SHA-256", "content": one} for one in digests]} if digests else {}),
    }


def _describe_model(winner: ServedWinner, evidence: Mapping[str, Any]) -> dict[str, Any]:
    artifact = winner.artifact
    facts = {
        "digest": artifact.digest,
        "format": artifact.format,
        "runtime": str(artifact.runtime),
        "source": _find(evidence, "source", "uri"),
        "source-digest": _find(evidence, "source", "digest"),
        "verdict": _find(evidence, "verdict"),
        "run": _find(evidence, "run_id"),
    }
    return {
        "type": "machine-learning-model",
        "bom-ref": _MODEL,
        "name": winner.name,
        "version": winner.version,
        "modelCard": _describe_card(winner, evidence),
        "properties": [{"name": f"kedro-hone:{name}", "value": str(value)} for name, value in facts.items() if value],
    }


def _describe_card(winner: ServedWinner, evidence: Mapping[str, Any]) -> dict[str, Any]:
    task, machine = _find(evidence, "program", "name"), _find(evidence, "hardware", "cpu")
    metrics = list(_list_metrics(evidence))
    limits = [f"Measured on {machine}; on another machine the speed-up is another one."] if machine else []
    return {
        "modelParameters": {
            **({"task": str(task)} if task else {}),
            "inputs": [{"format": _format_tensor(one)} for one in winner.inputs],
            "outputs": [{"format": _format_tensor(one)} for one in winner.outputs],
        },
        **({"quantitativeAnalysis": {"performanceMetrics": metrics}} if metrics else {}),
        **({"considerations": {"technicalLimitations": limits}} if limits else {}),
    }


def _list_metrics(evidence: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the speed-up at each shape, the winner's median times, and its score with the source's."""
    for one in _list_rows(evidence, "speedups"):
        yield _format_metric("speedup", _find(one, "ratio", "estimate"), row=one)
    for one in _list_rows(evidence, "latencies"):
        winner = one.get("winner")
        if isinstance(winner, dict):
            yield _format_metric("latency-p50-ms", winner.get("p50_ms"), row=winner)
    for one in _list_rows(evidence, "quality"):
        if one.get("metric") and one.get("id") == _find(evidence, "winner", "candidate"):
            row = {"shape": one.get("split")}
            yield _format_metric(str(one["metric"]), one.get("candidate"), row=row)
            yield _format_metric(f"{one['metric']}-of-the-source", one.get("source"), row=row)


def _list_rows(evidence: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rows = evidence.get(name)
    return [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []


def _format_metric(kind: str, value: Json, *, row: Mapping[str, Json]) -> dict[str, Any]:
    """Return a figure of a row, whose shape, or split, is its slice."""
    slice_, low, high = row.get("shape"), _find(row, "ratio", "low"), _find(row, "ratio", "high")
    bounds = {"lowerBound": str(low), "upperBound": str(high)}
    return {
        "type": kind,
        "value": str(value),
        **({"slice": str(slice_)} if slice_ else {}),
        **({"confidenceInterval": bounds} if low is not None and high is not None else {}),
    }


def _format_tensor(tensor: Tensor) -> str:
    return f"{tensor.name}: {tensor.datatype}{list(tensor.shape)}"


def _read(evidence: bytes | None) -> Mapping[str, Any]:
    """Return the evidence; empty if it is absent, or of a form that this version cannot read."""
    try:
        found = json.loads(evidence or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _find(document: Mapping[str, Any], *names: str) -> Json:
    found: Json = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found
