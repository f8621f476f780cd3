"""The state of a module, from safetensors, or from an exported program's archive without ``torch.export``.

Importing ``torch.export`` takes a second or two, which each start of a model built from its author's class would need
only for its weights. The layout of an archive is defined in ``torch/export/pt2_archive/_package.py`` (torch 2.13): the
bytes of a tensor's whole storage, and its shape in a list.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from . import adapters, archive, models

_DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
"""Torch's types by the numbers of ``torch._export.serde.schema.ScalarType``; torch reads tensors of other types."""
_VERSION = b"0"
"""The version of the archive that torch 2.13 writes."""
_STRIDED = 7
"""The number of dense tensors in ``torch._export.serde.schema.Layout``."""


def load_state(module: torch.nn.Module, path: Path, trust: Sequence[str]) -> None:
    """Load a state into a module, strictly.

    Raises:
        RuntimeError: Names are missing, or do not belong to the module.
        UnmergedError: Names that do not belong to the module are an adapter's.
        Exception: As in ``read_state``; or as raised by safetensors for a broken file.
    """
    if path.suffix != ".safetensors":
        state = read_state(path, trust)
        adapters.refuse(state.keys() - module.state_dict().keys())
        module.load_state_dict(state)
        return
    from safetensors.torch import load_file  # not every toolchain that uses these modules has it

    found, own = load_file(path), module.state_dict()
    adapters.refuse(found.keys() - own.keys())
    for name in found.keys() & own.keys():
        given, wanted = found[name].dtype, own[name].dtype
        if given != wanted and not (given.is_floating_point and wanted.is_floating_point):
            raise RuntimeError(f"{name} is {given} in {path.name}, and {wanted} in the class")
    fitted = module.load_state_dict(found, strict=False)
    loaded = [own[name] for name in found.keys() & own.keys()]
    # If several names share one tensor, safetensors.torch.save_model writes only one.
    missing = [name for name in fitted.missing_keys if not any(_has(tensor, own[name]) for tensor in loaded)]
    if missing or fitted.unexpected_keys:
        raise RuntimeError(
            f"{path.name} lacks {missing[:5]} and has {fitted.unexpected_keys[:5]}, as the class does not"
        )


def _has(loaded: torch.Tensor, tensor: Any) -> bool:
    """Return whether all of a tensor's memory belongs to one that was loaded."""
    if not isinstance(tensor, torch.Tensor) or not tensor.numel():
        return False
    (first, last), (begin, end) = _find_memory(loaded), _find_memory(tensor)
    return first <= begin and end <= last and last - first == loaded.numel() * loaded.element_size()


def _find_memory(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte, and of the byte after its last."""
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + reach * tensor.element_size()


def read_state(path: Path, trust: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return the state of an archived program by name; names that share a storage still share it.

    If a tensor is not written in torch's form for dense tensors, torch reads the archive, or reports the error.

    Raises:
        PermissionError: Loading the file could run code from it, and ``pickle`` is not trusted.
        RuntimeError: A tensor is larger than its storage.
        Exception: As raised by ``torch.export.load``.
    """
    plain = None if "pickle" in trust else _read_plain(models.check_archive(path))
    return models.read_program(path, trust).state_dict if plain is None else plain


def _read_plain(stream: io.BytesIO) -> dict[str, torch.Tensor] | None:
    """Return the tensors of a checked archive; None if one has a kind or a form that only torch reads."""
    try:
        with zipfile.ZipFile(stream) as entries:
            header = [entries.read(f"{archive.FOLDER}/{name}") for name in ("byteorder", "archive_version")]
            if header != [b"little", _VERSION]:
                return None
            listed = json.loads(entries.read(f"{archive.FOLDER}/{archive.LIST}"))["config"]
            if not all(_is_plain(payload["tensor_meta"]) for payload in listed.values()):
                return None
            storages: dict[str, torch.Tensor] = {}
            for payload in listed.values():
                place, dtype = payload["path_name"], _DTYPES[payload["tensor_meta"]["dtype"]]
                if place not in storages:
                    content = entries.read(f"{archive.FOLDER}/{archive.WEIGHTS}/{place}")
                    storages[place] = _make_storage(content, dtype)
                elif storages[place].dtype is not dtype:
                    return None
        return {name: _view(storages[payload["path_name"]], payload["tensor_meta"]) for name, payload in listed.items()}
    except (KeyError, TypeError, ValueError):
        return None


def _view(storage: torch.Tensor, described: Any) -> torch.Tensor:
    sizes, strides = ([each["as_int"] for each in described[name]] for name in ("sizes", "strides"))
    return torch.as_strided(storage, sizes, strides, described["storage_offset"]["as_int"])


def _is_plain(described: Any) -> bool:
    integers = (*described["sizes"], *described["strides"], described["storage_offset"])
    dense = described["dtype"] in _DTYPES and described["layout"] == _STRIDED and described["device"]["type"] == "cpu"
    return dense and all(each.keys() == {"as_int"} for each in integers)


def _make_storage(content: bytes, dtype: torch.dtype) -> torch.Tensor:
    """Return the bytes of a storage as a flat tensor; torch writes no file for an empty one."""
    return torch.frombuffer(bytearray(content), dtype=dtype) if content else torch.empty(0, dtype=dtype)
