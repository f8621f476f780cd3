from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from served_winners import make_composite, make_ir_winner, make_onnx_winner

from hone_runtime.errors import HoneError
from kedro_hone.serving.environment import SERVER
from kedro_hone.serving.export.exports import export_winner
from kedro_hone.serving.export.kserve import make_service_name
from kedro_hone.serving.export.target import Request

STORED = Request(storage_uri="s3://models/digits")

VALIDATE = """
import re, sys, yaml
import kserve.models
from kubernetes import client

def build(value, kind):
    if item := re.fullmatch(r"[Ll]ist\\[(.+)\\]", kind):
        return [build(one, item[1]) for one in value]
    model = getattr(kserve.models, kind, None) or (getattr(client, kind) if re.match(r"V\\d", kind) else None)
    if model is None:
        return value
    names = {there: here for here, there in model.attribute_map.items()}
    if unknown := set(value) - set(names):
        sys.exit(f"{kind} of KServe has no {sorted(unknown)}")
    return model(**{names[key]: build(one, model.openapi_types[names[key]]) for key, one in value.items()})

KINDS = {"InferenceService": "V1beta1InferenceService", "ServingRuntime": "V1alpha1ServingRuntime"}
for path in sys.argv[1:]:
    document = yaml.safe_load(open(path))
    build(document, KINDS[document["kind"]])
"""


@pytest.fixture(scope="session")
def python(environments) -> str:
    """The interpreter of KServe's environment."""
    return environments.ensure(SERVER).python


def validate(python: str, *paths: Path) -> None:
    """Build KServe's own models, and those of Kubernetes in them, from documents; they have no other keys."""
    run = subprocess.run([python, "-c", VALIDATE, *map(str, paths)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_an_onnx_winner_uses_kserves_triton(tmp_path, stack, python) -> None:
    winner = make_onnx_winner(tmp_path / "winner", stack=stack)
    export_winner(winner, "kserve", STORED, tmp_path / "out")
    service = tmp_path / "out" / "inference-service.yaml"
    validate(python, service)
    model = yaml.safe_load(service.read_text())["spec"]["predictor"]["model"]
    assert model == {
        "modelFormat": {"name": "triton"},
        "protocolVersion": "v2",
        "runtime": "kserve-tritonserver",
        "storageUri": "s3://models/digits",
        "env": [{"name": "ORT_DISABLE_TELEMETRY", "value": "1"}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
    }
    assert (tmp_path / "out" / "models" / "digits" / "config.pbtxt").is_file()
    assert not (tmp_path / "out" / "serving-runtime.yaml").exists()


def test_an_openvino_winner_brings_a_runtime_that_reads_its_configuration(tmp_path, stack, python) -> None:
    winner = make_ir_winner(tmp_path / "winner", stack=stack)
    export_winner(winner, "kserve", STORED, tmp_path / "out")
    paths = [tmp_path / "out" / f"{name}.yaml" for name in ("inference-service", "serving-runtime")]
    validate(python, *paths)
    service, runtime = (yaml.safe_load(path.read_text()) for path in paths)
    assert service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"] == "digits-ovms"
    assert "--config_path=/mnt/models/config.json" in runtime["spec"]["containers"][0]["args"]
    assert json.loads((tmp_path / "out" / "models" / "config.json").read_text())["model_config_list"]


def test_a_key_that_kserve_does_not_know_is_detected(tmp_path, python) -> None:
    path = tmp_path / "service.yaml"
    spec = {"predictor": {"model": {"modelFormat": {"name": "triton"}, "storageUri": "s3://x", "threads": 1}}}
    document = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(AssertionError, match="V1beta1ModelSpec of KServe has no \\['threads'\\]"):
        validate(python, path)


def test_a_composite_is_served_by_triton(tmp_path, stack) -> None:
    exported = export_winner(make_composite(tmp_path / "winner", stack=stack), "kserve", STORED, tmp_path / "out")
    assert [model.name for model in exported.export.models] == ["digits-1", "digits-2"]


def test_the_storage_must_be_named(tmp_path, stack) -> None:
    with pytest.raises(HoneError, match="--storage-uri"):
        export_winner(make_onnx_winner(tmp_path / "winner", stack=stack), "kserve", Request(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "made"), [("Digits_v2.onnx", "digits-v2-onnx"), ("3d", "model-3d"), ("x" * 80, "x" * 50), ("..", "model")]
)
def test_names_of_services(name, made) -> None:
    assert make_service_name(name) == made
