"""BladeDISC's adaptor: TorchScript compiled for dynamic shapes. Unverified: BladeDISC itself did not run here."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.adaptor import Adaptor, Capability, Support
from hone_runtime.contract.toolchain import Limits, Toolchain, Verification
from hone_runtime.values.artifact import Stage

TOOLCHAIN = Toolchain(
    name="bladedisc",
    title="BladeDISC",
    folder=Path(__file__).resolve().parent,
    verification=Verification.UNVERIFIED,
    modules=("torch_blade",),
    runs=frozenset({"bladedisc"}),
    native=frozenset({"bladedisc"}),  # TorchScript that contains machine code
    formats={"bladedisc": ("model.ts",)},
    limits=Limits(seconds=1800.0),
    lockable=False,  # so there are no runtime requirements either: an attacker could register these names
    default=False,
    note="Legacy: unmaintained since August 2024, and on no package index. It works only in an interpreter that the "
    "recipe names, such as that of the vendor's image `bladedisc/bladedisc:latest-runtime-torch1.12.0-cu113`. "
    "Unverified: its worker ran with PyTorch 1.12 and 2.13 and a stand-in for BladeDISC. `pytorch.trace` makes what it "
    "takes: a recipe selects `pytorch` with it.",
)

ADAPTORS = (
    Adaptor(
        name="bladedisc.torchscript",
        version=1,
        toolchain=TOOLCHAIN,
        stage=Stage.COMPILE,
        accepts=frozenset({"torchscript"}),
        produces="bladedisc",
        summary="Compiles parts of a traced program for this CPU and any batch size, and runs the rest in PyTorch. "
        "Legacy, and unverified.",
        supports={
            Capability.DYNAMIC_BATCH: Support.UNKNOWN,
            Capability.CONTROL_FLOW: Support.UNKNOWN,
            Capability.DETERMINISTIC: Support.UNKNOWN,
        },
        machine_specific=True,
    ),
)
