"""Export to KServe: an InferenceService, and the models for the storage that it names.

ONNX and AOTInductor winners use KServe's own runtime for Triton. KServe installs none for OpenVINO Model Server, so a
ServingRuntime is exported for it. Source: https://github.com/kserve/kserve, ``config/runtimes``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from hone_runtime.values.composite import read_parts
from kedro_hone.serving.export import ovms, triton
from kedro_hone.serving.export.models import find_threads
from kedro_hone.serving.export.target import Export, Request, Target
from kedro_hone.serving.winner import ServedWinner

SERVICE, RUNTIME = PurePosixPath("inference-service.yaml"), PurePosixPath("serving-runtime.yaml")
_LONGEST: Final = 50
"""The length of a service's name: Kubernetes allows 63, and KServe appends words to it."""

_START: Final = """Copy the content of `models/` to `{uri}`, so that it contains `{first}`, then:

```console
kubectl apply {applied}
kubectl wait --for=condition=Ready inferenceservice/{name}
```

For the check below, forward a port: `kubectl port-forward service/{name}-predictor 8080:80`."""


def _find_misfit(winner: ServedWinner, request: Request) -> str:
    return _choose(winner).find_misfit(winner, request)


def _choose(winner: ServedWinner) -> Target:
    """Return the server inside KServe: OpenVINO's own for its IR, else Triton."""
    forms = {part.format for part in read_parts(winner.artifact)} or {winner.artifact.format}
    return ovms.TARGET if forms == {"openvino-ir"} else triton.TARGET


def _write(winner: ServedWinner, request: Request) -> Export:
    server, name, uri = _choose(winner), make_service_name(winner.name), str(request.storage_uri)
    inner = server.write(winner, request)
    files: dict[PurePosixPath, Path | bytes] = dict(inner.files)
    applied = [SERVICE]
    own = server is ovms.TARGET
    if own:
        files[RUNTIME] = _dump(_describe_runtime(name))
        applied.insert(0, RUNTIME)
    runtime = f"{name}-ovms" if own else "kserve-tritonserver"
    form = "openvino" if own else "triton"
    threads = find_threads(winner.artifact)
    variables = {} if own else triton.list_variables(inner.models)
    files[SERVICE] = _dump(
        _describe_service(name, form=form, runtime=runtime, uri=uri, threads=threads, variables=variables)
    )
    notes = () if own else (_TRITON,)
    return replace(
        inner,
        files=files,
        start=_START.format(
            uri=uri,
            first=ovms.CONFIG if own else f"{inner.models[0].name}/config.pbtxt",
            applied=" ".join(f"-f {file}" for file in applied),
            name=name,
        ),
        port=8080,
        notes=(*inner.notes, *notes),
    )


_TRITON: Final = (
    "KServe's runtime kserve-tritonserver names a release of Triton, which may be older than the model's operators: "
    "set its image to a release that reads them."
)


def make_service_name(name: str) -> str:
    """Return a name that Kubernetes accepts, from a model's name: lower-case letters, digits and hyphens."""
    made = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return (made if made[:1].isalpha() else f"model-{made}").strip("-")[:_LONGEST].strip("-")


def _describe_service(
    name: str, *, form: str, runtime: str, uri: str, threads: int | None, variables: Mapping[str, str]
) -> dict[str, Any]:
    model: dict[str, Any] = {
        "modelFormat": {"name": form},
        "protocolVersion": "v2",
        "runtime": runtime,
        "storageUri": uri,
    }
    if variables:
        model["env"] = [{"name": key, "value": value} for key, value in variables.items()]
    if threads is not None:
        most = threads + 1  # the runtimes' own limit is one; the server's threads compute, too
        model["resources"] = {"requests": {"cpu": str(threads)}, "limits": {"cpu": str(most)}}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": {"model": model}},
    }


def _describe_runtime(name: str) -> dict[str, Any]:
    """Return a runtime with OpenVINO Model Server, which reads the exported configuration."""
    server = {
        "name": "kserve-container",
        "image": "openvino/model_server:latest",
        "args": [f"--config_path=/mnt/models/{ovms.CONFIG}", "--port=9000", "--rest_port=8080"],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": f"{name}-ovms"},
        "spec": {
            "supportedModelFormats": [{"name": "openvino"}],
            "protocolVersions": ["v2", "grpc-v2"],
            "containers": [server],
        },
    }


def _dump(document: dict[str, Any]) -> bytes:
    return yaml.safe_dump(document, sort_keys=False).encode()


TARGET: Final = Target(
    name="kserve",
    title="KServe",
    find_misfit=_find_misfit,
    write=_write,
    unverified="No cluster ran in the tests of kedro-hone; they check the files with KServe's own Python models.",
)
