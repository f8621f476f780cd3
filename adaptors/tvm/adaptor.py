"""Apache TVM's adaptor: ONNX in fp32, compiled by Relax with schedules that MetaSchedule tunes on this CPU."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Need, Options, Support
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Artifact, Stage
from hone_runtime.values.outcome import Refused

TOOLCHAIN = Toolchain(
    name="tvm",
    title="Apache TVM",
    folder=Path(__file__).resolve().parent,
    verification=Verification.NIGHTLY,
    modules=("tvm",),
    runs=frozenset({"tvm-so"}),
    native=frozenset({"tvm-so"}),
    formats={"tvm-so": ("index.json", "model-*.so")},
    limits=Limits(seconds=3600.0),
    runtime_requirements=("apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post1", "numpy>=2,<3"),
    remembers=True,
    default=False,  # tuning takes minutes, and its result is seldom the fastest
    note="Tunes for minutes, and measures while it does; its environment takes about 600 MB.",
)


class CpuOptions(Options):
    """Options of ``tvm.cpu``."""

    trials: int = Field(default=256, ge=0, le=100_000)
    """The largest number of measured schedules for all shapes together; 0 leaves the model untuned, which is slow."""
    seconds: float = Field(default=240.0, gt=0, le=3000)
    """The time limit of tuning; the best schedules so far are used."""
    resume: bool = False
    """Whether to continue tuning operators from earlier runs; otherwise their known schedules are used at once."""


def _refuse(artifact: Artifact, _options: Options, _host: Host) -> Refused | None:
    for spec in (*artifact.inputs, *artifact.outputs):
        if spec.dtype not in {"float32", "int32", "int64", "bool"}:
            return Refused(by="tvm.cpu", reason=f"{spec.name} is {spec.dtype}, which was not tried with this adaptor")
    return None


ADAPTORS = (
    Adaptor(
        name="tvm.cpu",
        version=3,  # a round of tuning takes less time
        toolchain=TOOLCHAIN,
        stage=Stage.COMPILE,
        accepts=frozenset({"onnx"}),
        produces="tvm-so",
        summary="Compiles a model in fp32 with Relax, tunes it with MetaSchedule on this CPU, and runs it with TVM; "
        "one library for each shape.",
        options=CpuOptions,
        needs=frozenset({Need.CXX_COMPILER}),
        supports={
            Capability.DYNAMIC_BATCH: Support.UNSUPPORTED,  # one library for each shape
            Capability.EXTERNAL_DATA: Support.FULL,
            Capability.CONTROL_FLOW: Support.UNKNOWN,
            Capability.DETERMINISTIC: Support.UNSUPPORTED,  # the fastest schedule is found by measuring
        },
        machine_specific=True,
        can_take=_refuse,
    ),
)
