"""Export to OpenVINO Model Server: version folders and a ``config.json``.

Source: https://github.com/openvinotoolkit/model_server, its page of parameters and ``src/schema.cpp``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from hone_runtime.interfaces.tensors import Arrays, Run
from hone_runtime.learner.rows import serve_fixed_rows
from hone_runtime.worker.imports import set_variables
from kedro_hone.serving.export.check import open_model
from kedro_hone.serving.export.models import Model, find_misfit, find_model_streams, find_threads, list_models
from kedro_hone.serving.export.target import Export, Request, Target
from kedro_hone.serving.export.versions import choose_version
from kedro_hone.serving.winner import ServedWinner

REPOSITORY: Final = PurePosixPath("models")
"""The folder with the configuration and the models."""
CONFIG: Final = "config.json"

_FORMATS: Final = ("openvino-ir", "onnx")
_READS: Final = frozenset({"", "ai.onnx"})
"""The domains of ONNX operators that OpenVINO reads without extensions."""

_START: Final = """```console
docker run --rm -p 8000:8000 -p 9000:9000 -v "$PWD/models:/models:ro" openvino/model_server:latest \\
  --config_path /models/config.json --rest_port 8000 --port 9000
```

Replace `latest` by the release that you use: its OpenVINO must be at least as new as the one that wrote the model."""


def _find_misfit(winner: ServedWinner, request: Request) -> str:
    if misfit := find_misfit(winner, _FORMATS, text=False):
        return misfit
    if request.max_batch is not None:
        return "it merges no calls, which --max-batch needs"
    for model in list_models(winner):
        domains = model.artifact.metadata.get("domains")
        foreign = sorted({*domains} - _READS) if isinstance(domains, list) else []
        if model.artifact.format == "onnx" and foreign:
            return f"OpenVINO does not read the operators of {foreign[0]}, which ONNX Runtime wrote into the graph"
    return ""


def write_repository(winner: ServedWinner, _request: Request) -> Export:
    """Return the export for OpenVINO Model Server."""
    version, models = choose_version(winner), list_models(winner)
    files: dict[PurePosixPath, Path | bytes] = {}
    for model in models:
        files |= {REPOSITORY / model.name / str(version) / name: path for name, path in model.files.items()}
    config = {"model_config_list": [{"config": _configure(model, version)} for model in models]}
    files[REPOSITORY / CONFIG] = f"{json.dumps(config, indent=2)}\n".encode()
    return Export(
        files=files,
        models=models,
        start=_START,
        port=8000,
        notes=tuple(_list_notes(models)),
        open=_open_in_openvino,
        places=tuple(REPOSITORY / model.name / str(version) for model in models),
    )


def _configure(model: Model, version: int) -> dict[str, Any]:
    """Return a model's entry; its path is relative to the configuration's folder.

    If OpenVINO chooses the number of streams, it chooses that of requests, too.
    """
    streams = find_model_streams(model.artifact)
    return {
        "name": model.name,
        "base_path": model.name,
        "target_device": "CPU",
        "model_version_policy": {"specific": {"versions": [version]}},
        "plugin_config": _list_properties(model),
        **({"nireq": streams.calls} if streams and not streams.auto else {}),
    }


def _list_properties(model: Model) -> dict[str, str]:
    """Return the properties of OpenVINO that carry the winner's run options and its threads."""
    streams = find_model_streams(model.artifact)
    options = {"PERFORMANCE_HINT": "THROUGHPUT" if streams else "LATENCY"}
    if model.artifact.format == "onnx":
        options["INFERENCE_PRECISION_HINT"] = "f32"  # as ONNX Runtime computes
    options |= {name: str(value) for name, value in model.artifact.run_options.items() if name.isupper()}
    if not (streams and streams.auto):
        options["NUM_STREAMS"] = str(streams.calls if streams else 1)
    if (threads := find_threads(model.artifact)) is not None:
        options["INFERENCE_NUM_THREADS"] = str(threads)
    return options


def _open_in_openvino(model: Model, folder: Path) -> tuple[Run, ...]:
    """Return the calls of a model in OpenVINO, as the server opens it."""
    if model.artifact.format != "onnx":
        return open_model(model, folder)  # after its checks of the IR
    with set_variables(CI="true"):  # disables the telemetry, whose thread prevents the process from exiting
        import openvino as ov  # noqa: PLC0415 - only for this check
    compiled = ov.Core().compile_model(folder / "model.onnx", "CPU", _list_properties(model))
    names = [tensor.name for tensor in model.outputs]

    def run(feeds: Arrays) -> Arrays:
        results = compiled(dict(feeds))
        return {name: results[name] for name in names}

    return (serve_fixed_rows(run, model.artifact),)


def _list_notes(models: tuple[Model, ...]) -> Iterator[str]:
    if any(model.artifact.format == "onnx" for model in models):
        yield (
            "OpenVINO Model Server runs ONNX models in OpenVINO, and the winner was measured in ONNX Runtime: the "
            "speed-up in its report does not hold there."
        )


TARGET: Final = Target(
    name="ovms",
    title="OpenVINO Model Server",
    find_misfit=_find_misfit,
    write=write_repository,
    unverified="The server itself never ran in the tests of kedro-hone; they check config.json by its own schema.",
)
