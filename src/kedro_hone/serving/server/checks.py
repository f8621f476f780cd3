"""The inputs and outputs of a request, compared with a model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from hone_runtime.interfaces.tensors import match_shapes
from hone_runtime.values.artifact import TensorSpec
from kedro_hone.serving.server.configuration import TensorDescription
from kedro_hone.serving.server.failures import RequestError
from kedro_hone.serving.server.tensors import Array, Sent, check_shape, decode

BATCH: Final = "batch"
"""The dimension of the rows."""


def read_inputs(
    inputs: Sequence[Sent],
    *,
    described: Sequence[TensorDescription],
    specs: Sequence[TensorSpec],
    limits: Mapping[str, int],
    finite: bool,
) -> dict[str, Array]:
    """Return the arrays of a request, by name.

    Args:
        inputs: The tensors of the request.
        described: The model's inputs in the protocol's terms.
        specs: The same inputs, with the names of their dimensions.
        limits: The largest sizes of dimensions, by name.
        finite: As in ``decode``.

    Raises:
        RequestError: An input is missing, unknown, given twice, or of another type or shape.
    """
    known = {one.name: one.datatype for one in described}
    given = {one.name: one for one in inputs}
    if len(given) < len(inputs):
        raise RequestError("an input is given twice")
    if odd := sorted(given.keys() - known.keys()):
        raise RequestError(f"the model has no input {odd[0]}; it has {', '.join(known)}")
    if missing := [name for name in known if name not in given]:
        raise RequestError(f"the input {missing[0]} is missing")
    for name, datatype in known.items():
        if given[name].datatype != datatype:
            raise RequestError(f"{name} is {given[name].datatype:.20}; the model takes {datatype}")
        check_shape(name, given[name].shape)
    try:
        sizes = match_shapes(specs, [tuple(given[spec.name].shape) for spec in specs])
    except ValueError as error:
        raise RequestError(str(error)) from error
    for dim, limit in limits.items():
        if sizes.get(dim, 0) > limit:
            raise explain_large(dim, sizes[dim], limit)
    return {name: decode(given[name], finite=finite) for name in known}


def explain_large(dim: str, size: int, limit: int) -> RequestError:
    """Return the error for a dimension that is larger than the server accepts."""
    text = f"the request has {size} {'rows' if dim == BATCH else f'of {dim}'}, and {limit} are accepted at most"
    return RequestError(text, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def choose_outputs(names: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Return the names of the requested outputs, in the order of the request; without a request all of them.

    Raises:
        RequestError: One is unknown, or requested twice.
    """
    if odd := [name for name in names if name not in known]:
        raise RequestError(f"the model has no output {odd[0]}; it has {', '.join(known)}")
    if len(set(names)) < len(names):
        raise RequestError("an output is requested twice")
    return list(names or known)
