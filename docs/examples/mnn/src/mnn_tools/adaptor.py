"""MNN's adaptor: ONNX in fp32."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.adaptor import Adaptor, Capability, Options, Support
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.outcome import Refused

TOOLCHAIN = Toolchain(
    name="mnn",
    folder=Path(__file__).resolve().parent,
    runs=frozenset({"mnn"}),
    data=frozenset({"mnn"}),
    formats={"mnn": ("model.mnn", "names.json")},
    runtime_requirements=("mnn>=3.6,<4", "numpy>=2,<3"),
    default=False,
    note="Alibaba's engine for devices; its environment takes about 80 MB.",
)


def refuse(artifact: Artifact, options: Options, host: Host) -> Refused | None:  # noqa: ARG001 - the contract's names
    """Refuse inputs that MNN would be given in another type than the caller's."""
    odd = [f"{spec.name} is {spec.dtype}" for spec in artifact.inputs if spec.dtype not in {"float32", "int32"}]
    return Refused(by="mnn.cpu", reason=f"its input {odd[0]}, and MNN takes float32 and int32") if odd else None


ADAPTORS = (
    Adaptor(
        name="mnn.cpu",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.COMPILE,
        accepts=frozenset({"onnx"}),
        produces="mnn",
        summary="Converts a model in fp32 and runs it with MNN.",
        supports={
            Capability.DYNAMIC_BATCH: Support.FULL,
            Capability.EXTERNAL_DATA: Support.NOT_IMPLEMENTED,
            Capability.CONTROL_FLOW: Support.UNKNOWN,
            Capability.DETERMINISTIC: Support.UNSUPPORTED,  # each file has another identifier
        },
        can_take=refuse,
    ),
)
