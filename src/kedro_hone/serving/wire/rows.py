"""The golden rows through the wire: the request that is measured, and the checks of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from hone_runtime.contract.host import Host
from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tensors import match_shapes
from hone_runtime.learner.golden import Golden, Packed
from hone_runtime.learner.rows import serve_fixed_rows
from hone_runtime.values.artifact import Artifact

Arrays = dict[str, NDArray[Any]]
Call = Callable[[Arrays], Arrays]


def choose_row(golden: Golden, artifact: Artifact) -> tuple[Golden, dict[str, int]]:
    """Return the first golden row, with its outputs, and the sizes of the dynamic dimensions in it.

    A model that takes a fixed number of rows gets as many.
    """
    fixed = [spec.shape[0] for spec in artifact.inputs if spec.shape and isinstance(spec.shape[0], int)]
    rows = fixed[0] if fixed and len(fixed) == sum(bool(spec.shape) for spec in artifact.inputs) else 1
    row = golden.model_copy(
        update={
            "inputs": _take(golden.inputs, rows),
            "outputs": _take(golden.outputs, rows),
            "parts": (),
            "one_call": False,  # the outputs were computed together with other rows
        }
    )
    return row, match_shapes(artifact.inputs, [row.inputs[spec.name].shape for spec in artifact.inputs])


def keep_outputs(golden: Golden, names: Iterable[str]) -> Golden:
    """Return golden rows with some outputs only."""
    return golden.model_copy(update={"outputs": {name: golden.outputs[name] for name in names}, "parts": ()})


def check_rows(name: str, golden: Golden, call: Call, *, artifact: Artifact, host: Host) -> None:
    """Compare a winner's outputs for golden rows with those that were recorded.

    Args:
        name: What is served, for the error.
        golden: The rows.
        call: A call of the server.
        artifact: What is served.
        host: This machine.

    Raises:
        HoneError: ``winner-differs``.
    """
    _refuse_difference(name, golden.find_difference(serve_fixed_rows(call, artifact), host=host))


def check_source(name: str, golden: Golden, call: Call, *, artifact: Artifact) -> tuple[str, ...]:
    """Compare the outputs of a source for golden rows with those that were recorded of its winner.

    Numbers must be within the tolerance of the winner. Labels and texts are compared exactly, but may differ: that is
    the winner's drop, which its gate has judged.

    Args:
        name: What is served, for the error.
        golden: The rows.
        call: A call of the server.
        artifact: What is served.

    Returns:
        The names of the outputs that are as recorded.

    Raises:
        HoneError: ``winner-differs``: numbers differ.
    """
    found = serve_fixed_rows(call, artifact)({key: packed.unpack() for key, packed in golden.inputs.items()})
    numbers = [key for key, packed in golden.outputs.items() if packed.dtype.startswith("float")]
    _refuse_difference(name, _find_difference(keep_outputs(golden, numbers), found))
    others = [key for key in golden.outputs if key not in numbers]
    return (*numbers, *(key for key in others if not _find_difference(keep_outputs(golden, [key]), found)))


def _find_difference(golden: Golden, found: Arrays) -> str:
    return golden.find_difference(lambda _: found, host=None)


def _refuse_difference(name: str, difference: str) -> None:
    if difference:
        raise HoneError(
            "winner-differs",
            f"{name} has other outputs through the wire than those that were recorded with the winner.",
            why=f"For the golden rows {difference}.",
            hint="Nothing was measured: optimize the source on this machine, and compare again.",
        )


def check_answer(name: str, golden: Golden, answer: Mapping[str, NDArray[Any]], *, host: Host | None) -> None:
    """Compare an answer to a measured request with the recorded outputs; raises as ``check_rows``."""
    if difference := golden.find_difference(lambda _: dict(answer), host=host):
        raise HoneError(
            "winner-differs",
            f"{name} gave another answer while it was measured than the one that was recorded with the winner.",
            why=f"For the measured request {difference}.",
            hint="No figures are reported: a server that answers wrong under load is not measured by its speed.",
        )


def _take(packed: Mapping[str, Packed], rows: int) -> dict[str, Packed]:
    return {name: Packed.of(one.unpack()[:rows]) for name, one in packed.items()}
