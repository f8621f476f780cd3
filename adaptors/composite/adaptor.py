"""The toolchain of composites. No adaptor makes one: the node ``compose`` assembles it from the fastest candidates."""

from __future__ import annotations

from pathlib import Path

from hone_runtime.contract.toolchain import Toolchain, Verification
from hone_runtime.values.composite import COMPOSITE, PARTS, RUNS

TOOLCHAIN = Toolchain(
    name=COMPOSITE,
    folder=Path(__file__).resolve().parent,
    verification=Verification.TESTED,
    runs=frozenset({COMPOSITE}),
    data=frozenset({COMPOSITE}),
    reads=frozenset({PARTS}),
    formats={COMPOSITE: ("parts/*/model.*",)},
    extra="composite",
    runtime_requirements=("onnxruntime>=1.31,<2", "openvino>=2026.4,<2027"),
    uses=tuple(RUNS),
    environment={"ORT_DISABLE_TELEMETRY": "1"},  # as in the toolchains that it uses
    note="Combines models of ONNX Runtime or of OpenVINO, each for some of the recipe's shapes, in one process.",
)

ADAPTORS = ()
