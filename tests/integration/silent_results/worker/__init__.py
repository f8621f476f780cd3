"""A toolchain that does what is known to go wrong without a word: the real libraries, used as one would use them."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import numpy as np

ROWS = 8
"""What the static package is compiled for."""


def transform(job):
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TMPDIR"):
        os.environ[name] = job["temporary"]
    return {
        "silent.frozen-dynamic": freeze_dynamic,
        "silent.static": compile_static,
        "silent.uncalibrated": quantize_dynamically,
        "silent.int4": compress,
    }[job["adaptor"]](job)


def freeze_dynamic(job):
    """Quantize a convolutional net by PT2E and compile it with freezing, its batch dynamic."""
    import torch

    program = torch.export.load(Path(job["input"]["path"]) / "model.pt2")
    pt2e = importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
    x86 = importlib.import_module("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = pt2e.prepare_pt2e(program.module(), quantizer)
    rows = torch.from_numpy(read_rows(job))
    with torch.no_grad():
        prepared(rows)
        converted = pt2e.convert_pt2e(prepared)
        dynamic = torch.export.export(converted, (rows[:ROWS],), dynamic_shapes=({0: torch.export.Dim("batch")},))
        package(dynamic, job)


def compile_static(job):
    """Compile for one number of rows, and forget to say so."""
    import torch

    module = torch.export.load(Path(job["input"]["path"]) / "model.pt2").module()
    with torch.no_grad():
        package(torch.export.export(module, (torch.from_numpy(read_rows(job)[:ROWS]),)), job)


def quantize_dynamically(job):
    """Quantize with neural-compressor's dynamic configuration, which promises to need no calibration."""
    import torch

    quantization = importlib.import_module("neural_compressor.torch.quantization")
    module = torch.export.load(Path(job["input"]["path"]) / "model.pt2").module()
    rows, shapes = (torch.from_numpy(read_rows(job)[:ROWS]),), ({0: torch.export.Dim("batch")},)
    module._exported, module.dynamic_shapes = True, shapes  # as neural_compressor.torch.export leaves what it exports
    with torch.no_grad():
        quantized = quantization.convert(quantization.prepare(module, quantization.DynamicQuantConfig()))
        quantized = torch.export.export(quantized, rows, dynamic_shapes=shapes)
        torch.export.save(quantized, Path(job["output"]) / "model.pt2")


def package(program, job):
    import torch

    path = str(Path(job["output"]) / "model.pt2")
    # One package does not repay that the headers are compiled before it, nor what our adaptor spares Inductor as well.
    configs = {"freezing": True, "aot_inductor.precompile_headers": False, "cpp.vec_isa_ok": True}
    torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=configs)


def compress(job):
    """Store weights in four bits, one scale for each row of them, with NNCF's estimation of the scales."""
    import openvino

    nncf = importlib.import_module("nncf")

    model = openvino.convert_model(Path(job["input"]["path"]) / "model.onnx")
    model = nncf.compress_weights(
        model,
        mode=nncf.CompressWeightsMode.INT4_SYM,
        group_size=-1,
        all_layers=True,
        scale_estimation=True,
        dataset=nncf.Dataset([row[None] for row in read_rows(job)[:64]]),
    )
    openvino.save_model(model, Path(job["output"]) / "model.xml", compress_to_fp16=False)


def read_rows(job):
    with np.load(job["calibration"]) as rows:
        return rows[job["input"]["inputs"][0]["name"]]


def load(job):
    return {"silent-package": Package, "silent-program": Program, "silent-ir": Compiled}[job["input"]["format"]](job)


class Package:
    def __init__(self, job):
        import torch

        self.from_numpy = torch.from_numpy
        path = str(Path(job["input"]["path"]) / "model.pt2")
        self.loader = torch._C._aoti.AOTIModelPackageLoader(path, "model", False, 1, -1)
        self.input, self.output = job["input"]["inputs"][0]["name"], job["input"]["outputs"][0]["name"]

    def run(self, feeds):
        return {self.output: self.loader.boxed_run([self.from_numpy(feeds[self.input])])[0].numpy()}


class Program:
    def __init__(self, job):
        import torch

        importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers the operators of quantized programs
        self.from_numpy = torch.from_numpy
        self.module = torch.export.load(Path(job["input"]["path"]) / "model.pt2").module()
        self.input, self.output = job["input"]["inputs"][0]["name"], job["input"]["outputs"][0]["name"]

    def run(self, feeds):
        return {self.output: self.module(self.from_numpy(feeds[self.input])).detach().numpy()}


class Compiled:
    def __init__(self, job):
        import openvino

        path = Path(job["input"]["path"]) / "model.xml"
        self.model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self.output = job["input"]["outputs"][0]["name"]

    def run(self, feeds):
        return {self.output: self.model(feeds)[0]}
