"""Calls of a request of OpenVINO: arrays are shared as inputs, and outputs are copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino as ov

Dtype = np.dtype[Any] | None

_BITS = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64)}
_DTYPES = {
    ov.Type(np.dtype(name)).get_type_name(): np.dtype(name)
    for name in ("bool", *(f"{kind}{bits}" for kind, sizes in _BITS.items() for bits in sizes))
}
"""NumPy's types by OpenVINO's names. OpenVINO also maps its others to these, such as bf16 to float16."""


def find_dtypes(ports: Sequence[Any]) -> list[Dtype]:
    """Return the type of the arrays that each input can share; None if there is none."""
    return [_DTYPES.get(port.get_element_type().get_type_name()) for port in ports]


def infer(request: Any, feeds: dict[int, Any], dtypes: Sequence[Dtype]) -> list[np.ndarray[Any, Any]]:
    """Return the outputs in their order, for inputs by index; ``dtypes`` is the result of ``find_dtypes``."""
    results = (
        request.infer()
        if _share(request, feeds, dtypes)
        else request.infer(feeds, share_inputs=True, share_outputs=False)
    )
    return list(results.values())


def _share(request: Any, feeds: dict[int, Any], dtypes: Sequence[Dtype]) -> bool:
    """Set the inputs if none needs a conversion, and return whether they are set.

    ``infer`` dispatches each input on its type in Python, which takes some ten microseconds.
    """
    for index, array in feeds.items():
        plain = isinstance(array, np.ndarray) and array.ndim and array.flags.carray
        if not plain or array.dtype != dtypes[index]:
            return False
    try:
        for index, array in feeds.items():
            request.set_input_tensor(index, ov.Tensor(array, shared_memory=True))
    except RuntimeError:  # such as another shape, for which ``infer`` raises its own error
        return False
    return True
