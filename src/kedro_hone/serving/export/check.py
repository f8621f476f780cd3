"""The golden rows in the files as they were written, if this process can open them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hone_runtime.contract.hardware import read_host
from hone_runtime.contract.plugins import describe_exception
from hone_runtime.errors import HoneError
from hone_runtime.interfaces.tensors import Run
from hone_runtime.learner import Learner
from hone_runtime.learner.golden import Golden
from hone_runtime.text import begin_sentence
from kedro_hone.serving.export.models import Model
from kedro_hone.serving.export.target import Export
from kedro_hone.serving.winner import ServedWinner


def find_check_gap(export: Export, folder: Path, golden: Golden | None) -> str:
    """Run the golden rows in the files of an export, and return why that was not possible, as a clause; else empty.

    Each model is opened in this process, by the winner's own runtime with its run options and threads, or by the
    server's runtime where that is another one.

    Args:
        export: The export.
        folder: Where it was written.
        golden: The winner's golden rows; None if it has none.

    Raises:
        HoneError: ``winner-differs``: the outputs are not those of the measurement.
    """
    if golden is not None and not export.places:
        return "kedro-hone cannot open the files in the form that this target needs"
    return compare_golden(golden, lambda: list(_open(export, folder)))


def find_golden_gap(winner: ServedWinner) -> str:
    """Run the golden rows of a winner as it was published; raises, and returns, as ``find_check_gap``."""
    artifact = winner.artifact
    return compare_golden(winner.golden, lambda: Learner(artifact, winner.files, interface="onnx").list_runs())


def compare_golden(golden: Golden | None, open_runs: Callable[[], Sequence[Run]]) -> str:
    """Return why golden rows could not be run, as a clause; empty if they were, and agreed.

    Args:
        golden: The golden rows; None if the winner has none.
        open_runs: Opens the models, and returns their calls.

    Raises:
        HoneError: ``winner-differs``.
    """
    if golden is None:
        return "the winner has no golden rows"
    try:
        difference = golden.find_difference(*open_runs(), host=read_host())
    except ImportError as error:
        return f"the runtime is not installed here: {error}"
    except HoneError:
        raise
    except Exception as error:  # noqa: BLE001 - runtimes raise anything; it is shown, not lost
        difference = f"it does not run here: {describe_exception(error)}"
    if not difference:
        return ""
    raise HoneError(
        "winner-differs",
        "The files do not compute here what the winner computed where it was measured.",
        why=f"{begin_sentence(difference)}.{golden.format_other_machine(read_host())}",
        hint="Nothing was written. Export it on the kind of machine that measured it, or optimize its source here.",
    )


def _open(export: Export, folder: Path) -> Iterator[Run]:
    """Yield the calls of the models; the files of a compiled model, or of a composite, are opened once."""
    opened: dict[tuple[Path, str], tuple[Run, ...]] = {}
    for model, place in zip(export.models, _repeat(export), strict=True):
        key = (place, model.artifact.model_dump_json())
        if key not in opened:
            opened[key] = (export.open or open_model)(model, folder / place)
            yield from opened[key]


def _repeat(export: Export) -> list[Path]:
    """Return the folder of each model; if there is only one, it is that of all."""
    places = [Path(place) for place in export.places]
    return places * len(export.models) if len(places) == 1 else places


def open_model(model: Model, folder: Path) -> tuple[Run, ...]:
    """Return the calls of a model in the winner's own runtime."""
    return Learner(model.artifact, folder, interface="onnx").list_runs()
