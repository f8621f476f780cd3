"""PyTorch: an exported program (``.pt2``), bare or as MLflow's flavor ``pytorch`` writes it today."""

from __future__ import annotations

from pathlib import Path

from kedro_hone.sources.files import find_entry, find_only, find_relative_name, list_pickles, make_corrupt
from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``model.pt2``, the only ``.pt2`` file, or the program in the flavor ``pytorch``.

    Not if the flavor contains a pickle instead.

    Raises:
        HoneError: ``model-corrupt``.
    """
    if pulled.mlmodel is None:
        path = find_only(pulled.folder, "model.pt2")
    else:
        data = find_entry(pulled, "pytorch", "model_data")
        path = data and _find_program(pulled.folder, data)
    return (
        None
        if path is None
        else Flavor(format="pytorch", files=((find_relative_name(pulled.folder, path), "model.pt2"),))
    )


def _find_program(folder: Path, data: Path) -> Path | None:
    programs = [data] if data.suffix == ".pt2" else sorted(data.glob("*.pt2"))
    if len(programs) == 1:
        return programs[0]
    if list_pickles(data):
        return None
    raise make_corrupt(folder, f"the folder {data.name} holds no model.pt2")


SOURCE_FORMAT = SourceFormat(
    name="pytorch",
    noun="a PyTorch exported program (.pt2)",
    detect=detect,
    seals=frozenset({"pytorch"}),
    interface="pytorch",
    baseline="the exported program, run as an ordinary PyTorch module in eager mode with {threads}",
    order=40,
)
