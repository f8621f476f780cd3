from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installations import install_cyclonedx
from packed_versions import EVIDENCE, write_version

from kedro_hone.serving.environment import SERVER
from kedro_hone.serving.image.descriptors import MANIFEST, Descriptor
from kedro_hone.serving.image.sbom import make_sbom
from kedro_hone.serving.winner import pull_winner

SUBJECT = Descriptor(media_type=MANIFEST, digest=f"sha256:{'a' * 64}", size=3)
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))
"""


@pytest.fixture(scope="module")
def packages() -> Path:
    return install_cyclonedx()


def read_versions() -> dict[str, str]:
    lines = SERVER.lock.read_text().splitlines()
    return dict(line.removesuffix(" \\").split("==") for line in lines if "==" in line)


def make(version: Path, evidence: bytes | None) -> bytes:
    with pull_winner(str(version), name="digits") as winner:
        return make_sbom(winner, subject=SUBJECT, versions=read_versions(), locks=[SERVER.lock], evidence=evidence)


def validate(text: str, packages: Path) -> str:
    variables = {**os.environ, "PYTHONPATH": str(packages)}
    command = [sys.executable, "-W", "ignore", "-c", VALIDATE]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, env=variables).stdout.strip()


@pytest.mark.parametrize(
    "evidence",
    [
        EVIDENCE,
        None,
        {},
        [],
        {**EVIDENCE, "speedups": [], "quality": {}, "source": "x"},
        {"speedups": [{}, 3]},
        {"latencies": {"winner": [3]}},
        {"quality": {"metric": 3}},
    ],
)
def test_it_is_valid_whatever_the_evidence_has(tmp_path: Path, packages: Path, evidence: object) -> None:
    content = None if evidence is None else json.dumps(evidence).encode()
    assert validate(make(write_version(tmp_path / "one"), content).decode(), packages) == "None"


def test_the_validator_notices_a_mistake(tmp_path: Path, packages: Path) -> None:
    bom = json.loads(make(write_version(tmp_path / "one"), None))
    bom["components"][-1]["modelCards"] = {}
    assert validate(json.dumps(bom), packages) != "None"


def test_packages_have_the_hashes_of_the_lock_and_the_model_its_figures(tmp_path: Path) -> None:
    bom = json.loads(make(write_version(tmp_path / "one"), json.dumps(EVIDENCE).encode()))
    *packages, model = bom["components"]
    found = {one["name"]: one for one in packages}
    lock = SERVER.lock.read_text()
    assert found["kserve"]["hashes"]
    assert all(f"sha256:{one['content']}" in lock for one in found["kserve"]["hashes"])
    assert model["type"] == "machine-learning-model"
    assert model["modelCard"]["modelParameters"]["inputs"] == [{"format": "x: FP32[-1, 4]"}]
    metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert metrics[0] == {
        "type": "speedup",
        "value": "2.4",
        "slice": "one",
        "confidenceInterval": {"lowerBound": "2.3", "upperBound": "2.5"},
    }
    assert {"type": "latency-p50-ms", "value": "0.17", "slice": "one"} in metrics
    assert {"type": "accuracy", "value": "0.96", "slice": "gate"} in metrics
    refs = [one["bom-ref"] for one in bom["components"]]
    assert bom["dependencies"][0]["dependsOn"] == sorted(refs)
