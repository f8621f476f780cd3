"""The environment of the server: KServe's SDK conflicts with pandas 3 and protobuf 7, so it has a lock of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hone_runtime.contract.toolchain import Toolchain, Verification

SERVER: Final = Toolchain(
    name="kserve",
    title="KServe",
    folder=Path(__file__).resolve().parent / "server",
    verification=Verification.TESTED,
    modules=("kserve",),
    note="Serves winners by the Open Inference Protocol; it makes none.",
)
"""What ``EnvironmentStore.ensure`` builds: KServe's SDK with ONNX Runtime, OpenVINO, LiteRT and tokenizers."""
