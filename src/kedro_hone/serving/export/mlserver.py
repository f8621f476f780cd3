"""Export to MLServer: ``model-settings.json`` and a model that calls ``kedro_hone.load``.

Source: https://docs.seldon.ai/mlserver/api-reference/modelsettings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, Final

from hone_runtime.contract.catalogue import find_installed
from hone_runtime.signing.policy import PEM, Policy
from kedro_hone.serving.export.golden_rows import choose_rows
from kedro_hone.serving.export.models import Model, list_files
from kedro_hone.serving.export.target import Export, Request, Target
from kedro_hone.serving.tensors import Tensor
from kedro_hone.serving.winner import ServedWinner

_WINNER: Final = PurePosixPath("winner")
_MODEL: Final = Path(__file__).with_name("mlserver_model.py")

_START: Final = """```console
pip install mlserver {packages}   # kedro-hone is on no index yet: name the wheel or the clone
mlserver start .
```"""

_LOADED: Final = "kedro_hone.load opens the winner: it compares the golden rows, and serves any number of rows."
_MERGED: Final = "MLServer counts the merged calls, and not their rows."


def _find_misfit(_winner: ServedWinner, _request: Request) -> str:
    return ""  # whatever kedro_hone.load opens


def _write(winner: ServedWinner, request: Request) -> Export:
    whole, artifact = winner.download.folder, winner.artifact
    files: dict[PurePosixPath, Path | bytes] = {
        _WINNER / path.relative_to(whole).as_posix(): path for path in sorted(whole.rglob("*")) if path.is_file()
    }
    files[PurePosixPath("model.py")] = _MODEL
    settings = f"{json.dumps(_configure(winner, request), indent=2)}\n"
    files[PurePosixPath("model-settings.json")] = settings.encode()
    stored = winner.golden.outputs if winner.golden else {}
    model = Model(
        name=winner.name,
        artifact=artifact,
        folder=winner.files,
        files=list_files(winner.files),
        inputs=winner.inputs,
        outputs=winner.outputs,
        golden=choose_rows(winner.golden, winner.inputs, winner.outputs, stored=stored),
    )
    toolchain = find_installed(str(artifact.runtime))
    needs = (f"kedro-hone[{toolchain.extra}]",) if toolchain and toolchain.extra else ("kedro-hone",)
    runtime = toolchain.runtime_requirements if toolchain and not toolchain.extra else ()
    return Export(
        files=files,
        models=(model,),
        start=_START.format(packages=" ".join(f"'{name}'" for name in (*needs, *runtime))),
        port=8080,
        notes=(_LOADED, _MERGED) if request.max_batch else (_LOADED,),
        places=(_WINNER / winner.files.relative_to(whole).as_posix(),),
    )


def _configure(winner: ServedWinner, request: Request) -> dict[str, Any]:
    """Return the settings; MLServer ignores unknown keys, so the tests validate them by its own classes."""
    batching = {"max_batch_size": request.max_batch, "max_batch_time": request.max_delay_ms / 1000}
    return {
        "name": winner.name,
        "implementation": "model.HoneModel",
        "platform": f"kedro-hone_{winner.artifact.runtime}",
        "inputs": _describe(winner.inputs),
        "outputs": _describe(winner.outputs),
        "parallel_workers": 0,
        "parameters": {
            "uri": f"./{_WINNER}",
            "version": winner.version,
            "extra": {
                "verify": request.verify and _dump_policy(request.verify, winner),
                "trust": ["native"] if request.trusted else [],
            },
        },
        **(batching if request.max_batch else {}),
    }


def _describe(tensors: Iterable[Tensor]) -> list[dict[str, Any]]:
    return [{"name": one.name, "datatype": one.datatype, "shape": list(one.shape)} for one in tensors]


def _dump_policy(policy: Policy, winner: ServedWinner) -> dict[str, Any]:
    """Return a policy that does not refer to files of this machine: with the text of its keys."""
    keys = [str(key) if str(key).startswith(PEM) else Path(key).read_text() for key in policy.keys]
    return policy.model_copy(update={"keys": tuple(keys), "name": policy.name or winner.download.name}).model_dump(
        mode="json", exclude_none=True
    )


TARGET: Final = Target(
    name="mlserver",
    title="MLServer",
    find_misfit=_find_misfit,
    write=_write,
)
