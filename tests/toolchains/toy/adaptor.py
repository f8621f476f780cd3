"""The toy toolchain: ``toy-source`` models of one matrix, compressed or compiled to ``toy``."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from pydantic import Field

from hone_runtime.contract.adaptor import Adaptor, Capability, Options, Support
from hone_runtime.contract.host import Host
from hone_runtime.contract.toolchain import Limits, Toolchain
from hone_runtime.values.artifact import Artifact, Precision, Stage
from hone_runtime.values.outcome import Refused

TOOLCHAIN = Toolchain(
    name="toy",
    folder=Path(__file__).parent,
    runs=frozenset({"toy-source", "toy"}),
    data=frozenset({"toy-source", "toy"}),
    formats=MappingProxyType({"toy-source": ("weights.npz", "model.json"), "toy": ("weights.npz", "model.json")}),
    limits=Limits(seconds=600, memory_mb=1024, log_kb=64),
    default=False,
    note="A matrix product in numpy, for tests.",
)


class ToyOptions(Options):
    """Options of both adaptors, which set how the result behaves.

    Attributes:
        slow: How many times as long as the input's a call of the result sleeps (a source sleeps two milliseconds).
        wrong: Whether the result's outputs are wrong.
    """

    slow: float = Field(default=1.0, ge=0)
    wrong: bool = False


class CompileOptions(ToyOptions):
    """Options of ``toy.compile``.

    Attributes:
        slow: As above; by default the result is twice as fast.
        static: Whether the result takes only the recipe's first shape.
    """

    slow: float = Field(default=0.5, ge=0)
    static: bool = False


def can_take(artifact: Artifact, options: Options, host: Host) -> Refused | None:
    """Refuse what is not one matrix."""
    if len(artifact.inputs) == 1 and len(artifact.outputs) == 1:
        return None
    return Refused(by="toy", reason=f"a toy model has one input and one output, this has {len(artifact.inputs)} inputs")


COMPRESS = Adaptor(
    name="toy.compress",
    version=1,
    toolchain=TOOLCHAIN,
    stage=Stage.COMPRESS,
    accepts=frozenset({"toy-source"}),
    produces="toy-source",
    summary="Rounds the weights to half precision.",
    options=ToyOptions,
    precisions=frozenset({Precision.FP16}),
    supports=MappingProxyType({Capability.DETERMINISTIC: Support.FULL, Capability.DYNAMIC_BATCH: Support.FULL}),
    default=False,
    can_take=can_take,
)

COMPILE = Adaptor(
    name="toy.compile",
    version=1,
    toolchain=TOOLCHAIN,
    stage=Stage.COMPILE,
    accepts=frozenset({"toy-source"}),
    produces="toy",
    summary="Copies the weights and claims to be faster.",
    options=CompileOptions,
    supports=MappingProxyType({Capability.DETERMINISTIC: Support.FULL, Capability.DYNAMIC_BATCH: Support.FULL}),
    default=False,
    can_take=can_take,
)

ADAPTORS = (COMPRESS, COMPILE)
