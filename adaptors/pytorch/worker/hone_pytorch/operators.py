"""The operators that PyTorch dispatches in one call, without views, which compute nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from hone_runtime.sessions.operators import count_kinds

if TYPE_CHECKING:
    from hone_runtime.sessions.operators import Operator

_QUANTIZED = ("quantized", "onednn")
"""Namespaces of operators whose weights are packed, and so no tensors."""


class _Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch has no types for it
    """Lists the operators that are called while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Operator] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, and list it unless it returns a view."""
        result = func(*args, **(kwargs or {}))
        returns = func._schema.returns  # noqa: SLF001 - torch has no public name for it
        if not any(one.alias_info is not None and not one.alias_info.is_write for one in returns):
            packed = ["int8"] if func.namespace in _QUANTIZED else []
            self.found.append((str(func.overloadpacket), [*packed, *_list_types((args, kwargs))], _list_types(result)))
        return result


def count(call: Callable[[], Any]) -> dict[str, dict[str, int]]:
    """Return how many operators are dispatched in a call, by precision and kind."""
    with _Recorder() as recorder:
        call()
    return count_kinds(recorder.found)


def _list_types(values: Any) -> list[str]:
    tensors = (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor))
    return [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
