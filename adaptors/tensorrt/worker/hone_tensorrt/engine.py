"""Build an engine: a strongly typed network from ONNX, profiles from the recipe's shapes, and a timing cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import profiles
from .library import require_gpu, tensorrt

Json = dict[str, Any]


def build(job: Json) -> Json:
    """Write ``model.plan``, ``index.json`` and ``timing.cache`` into the job's output, and return notes.

    The precision of each operator is the graph's: since TensorRT 11 every network is strongly typed.
    """
    require_gpu()
    trt, output = tensorrt(), Path(job["output"])
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, builder.logger)
    if not parser.parse_from_file(str(Path(job["input"]["path"], "model.onnx"))):
        reasons = [parser.get_error(index).desc() for index in range(parser.num_errors)]
        return {"refused": f"TensorRT does not take the graph: {'; '.join(reasons[:3])}"}
    found = profiles.find_profiles(job["input"]["inputs"], job["shapes"])
    config = configure(builder, job["options"])
    for shapes in found:
        profile = builder.create_optimization_profile()
        for spec, shape in zip(job["input"]["inputs"], shapes, strict=True):
            profile.set_shape(spec["name"], shape, shape, shape)
        config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        return {"failed": {"class": "compile", "reason": "TensorRT built no engine; the log says why"}}
    (output / profiles.PLAN).write_bytes(plan)
    (output / profiles.TIMING).write_bytes(config.get_timing_cache().serialize())
    profiles.write_index(output, job["input"], found)
    return {"static_shapes": [shape["name"] for shape in job["shapes"]], "metadata": {"tensorrt": trt.__version__}}


def configure(builder: Any, options: Json) -> Any:
    """Return the configuration of a build, with a timing cache that is empty or from an earlier build.

    Raises:
        ValueError: The timing cache is for another GPU or version.
    """
    trt, config = tensorrt(), builder.create_builder_config()
    config.builder_optimization_level = options["level"]
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options["workspace_mb"] << 20)
    for flag, wanted in ((trt.BuilderFlag.TF32, options["tf32"]), (trt.BuilderFlag.SPARSE_WEIGHTS, options["sparse"])):
        (config.set_flag if wanted else config.clear_flag)(flag)
    path = options["timing_cache"]
    cache = config.create_timing_cache(Path(path).read_bytes() if path else b"")
    if not config.set_timing_cache(cache, ignore_mismatch=False):
        raise ValueError(f"the timing cache {path} is of another GPU or version of TensorRT")
    return config
