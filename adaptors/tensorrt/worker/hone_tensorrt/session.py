"""Run an engine: a context for each profile, persistent buffers on the GPU, and one stream."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from . import profiles
from .library import check, cuda, require_gpu, tensorrt

Json = dict[str, Any]
Array = np.ndarray[Any, Any]


class Session:
    """An engine of ``model.plan``, for the shapes of its profiles."""

    has_cache = False

    def __init__(self, job: Json) -> None:
        """Open an engine.

        Raises:
            ValueError: It cannot be read, does not fit its index, or is for another device; or there is no GPU.
        """
        device = job["input"]["device"]
        if device != "cuda:0":
            raise ValueError(f"the model is for the device {device}, and its engine computes on cuda:0")
        require_gpu()
        folder = Path(job["input"]["path"])
        self._index = profiles.read_index(folder)
        self._engine = open_engine(folder)
        require_tensors(self._engine, self._index)
        self._lock = threading.Lock()  # a call has exclusive use of the buffers and the stream
        self._stream = check(cuda().cudaStreamCreate())
        self._contexts = {
            shapes: _Context(self._engine, number, self._index, shapes, self._stream)
            for number, shapes in enumerate(self._index["profiles"])
        }

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        """Return every output by name, for inputs by name, with one of the shapes."""
        key = tuple(feeds[spec["name"]].shape for spec in self._index["inputs"])
        context = self._contexts.get(key)
        if context is None:
            raise ValueError(f"made for the shapes {sorted(self._contexts)} and fed {key}")
        with self._lock:
            return context.run(feeds)

    def synchronize(self) -> None:
        """Wait until all started work has finished."""
        check(cuda().cudaStreamSynchronize(self._stream))


class _Context:
    """One profile: its execution context, and its tensors' buffers on the GPU."""

    def __init__(self, engine: Any, number: int, index: Json, shapes: profiles.Shapes, stream: Any) -> None:
        self._context, self._stream = engine.create_execution_context(), stream
        self._context.set_optimization_profile_async(number, int(stream))
        self._inputs: dict[str, tuple[int, np.dtype[Any]]] = {}
        self._outputs: dict[str, tuple[int, tuple[int, ...], np.dtype[Any]]] = {}
        for spec, shape in zip(index["inputs"], shapes, strict=True):
            self._context.set_input_shape(spec["name"], shape)
            self._inputs[spec["name"]] = self._bind(spec, shape), np.dtype(spec["dtype"])
        for spec in index["outputs"]:
            shape = tuple(self._context.get_tensor_shape(spec["name"]))
            if min(shape, default=1) < 0:
                raise ValueError(f"the shape of {spec['name']!r} depends on values, which is not supported")
            self._outputs[spec["name"]] = self._bind(spec, shape), shape, np.dtype(spec["dtype"])
        self.synchronize()

    def _bind(self, spec: Json, shape: tuple[int, ...]) -> int:
        size = max(int(np.prod(shape)) * np.dtype(spec["dtype"]).itemsize, 1)
        address = int(check(cuda().cudaMalloc(size)))
        self._context.set_tensor_address(spec["name"], address)
        return address

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        kinds = cuda().cudaMemcpyKind
        sources = []  # copies are asynchronous: their sources must live until the stream has finished
        for name, (address, dtype) in self._inputs.items():
            array = np.ascontiguousarray(feeds[name], dtype)
            sources.append(array)
            self._copy(address, array.ctypes.data, array.nbytes, kinds.cudaMemcpyHostToDevice)
        if not self._context.execute_async_v3(int(self._stream)):
            raise RuntimeError("TensorRT could not run the engine; the log says why")
        outputs = {}
        for name, (address, shape, dtype) in self._outputs.items():
            outputs[name] = array = np.empty(shape, dtype)
            self._copy(array.ctypes.data, address, array.nbytes, kinds.cudaMemcpyDeviceToHost)
        self.synchronize()
        return outputs

    def _copy(self, to: int, source: int, size: int, kind: Any) -> None:
        check(cuda().cudaMemcpyAsync(to, source, size, kind, self._stream))

    def synchronize(self) -> None:
        check(cuda().cudaStreamSynchronize(self._stream))


def open_engine(folder: Path) -> Any:
    """Return the engine of a folder.

    Raises:
        ValueError: It cannot be read here: it is damaged, or for another GPU or version.
    """
    trt = tensorrt()
    logger = trt.Logger(trt.Logger.WARNING)
    engine = trt.Runtime(logger).deserialize_cuda_engine((folder / profiles.PLAN).read_bytes())
    if engine is None:
        raise ValueError(f"{profiles.PLAN} is damaged, or of another GPU or version than TensorRT {trt.__version__}")
    return engine


def require_tensors(engine: Any, index: Json) -> None:
    """Compare the tensors of an engine with its index.

    Raises:
        ValueError: They differ, or it has another number of profiles.
    """
    trt = tensorrt()
    names = [engine.get_tensor_name(number) for number in range(engine.num_io_tensors)]
    specs = {spec["name"]: spec for side in ("inputs", "outputs") for spec in index[side]}
    if set(names) != specs.keys() or engine.num_optimization_profiles != len(index["profiles"]):
        raise ValueError(f"the engine has the tensors {sorted(names)}, and not those of {profiles.INDEX}")
    for name, spec in specs.items():
        dtype, shape = trt.nptype(engine.get_tensor_dtype(name)), tuple(engine.get_tensor_shape(name))
        fits = len(shape) == len(spec["shape"]) and all(
            size in (-1, dim) or isinstance(dim, str) for size, dim in zip(shape, spec["shape"], strict=True)
        )
        if np.dtype(dtype) != np.dtype(spec["dtype"]) or not fits:
            raise ValueError(f"the engine has {name!r} as {np.dtype(dtype)} {shape}, and not as {profiles.INDEX} says")


def describe(job: Json) -> Json:
    """Return the specs of a saved engine, after comparing them with its tensors.

    Raises:
        KeyError: It is of another format.
        ValueError: As in ``Session``.
    """
    if job["input"]["format"] != "tensorrt-engine":
        raise KeyError(job["input"]["format"])
    require_gpu()
    folder = Path(job["input"]["path"])
    index = profiles.read_index(folder)
    require_tensors(open_engine(folder), index)
    return {side: index[side] for side in ("inputs", "outputs")}
