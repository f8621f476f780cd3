"""Write versions: into a staging folder, completely, then renamed; aliases are links."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hone_runtime.contract.proof import ProvenWinner
from hone_runtime.contract.tags import KEY
from kedro_hone.adaptors.registries.local import versions
from kedro_hone.adaptors.registries.model_folder import tag_files, tag_metrics, write_winner
from kedro_hone.core.machine.processes import identify_process, may_be_alive
from kedro_hone.core.store.disk import remove_tree

_STAGE: Final = ".publishing-"


def find_published(home: Path, key: str) -> Path | None:
    """Return the existing version of a publication; None if absent."""
    published = (each for each in home.iterdir() if each.name.isdecimal())
    return next((each for each in published if versions.read_tags(each).get(KEY) == key), None)


def write_version(home: Path, winner: ProvenWinner, *, tags: Mapping[str, str], metrics: Mapping[str, float]) -> Path:
    """Write a version next to the others, and give it its number once it is complete."""
    stage = home / f"{_STAGE}{identify_process()}"
    stage.mkdir()
    try:
        write_winner(stage, winner, name=home.name.removesuffix(versions.SUFFIX))
        content = json.dumps({**tags, **tag_metrics(metrics), **tag_files(stage)}, indent=1, sort_keys=True)
        (stage / versions.TAGS).write_text(content + "\n", encoding="utf-8")
        return _claim_number(home, stage)
    finally:
        remove_tree(stage)  # it was renamed, unless something failed


def _claim_number(home: Path, stage: Path) -> Path:
    """Rename a complete staging folder to the next free number; a rename onto a non-empty folder fails."""
    number = max((int(path.name) for path in home.iterdir() if path.name.isdecimal()), default=0)
    while True:
        number += 1
        try:
            return stage.rename(home / str(number))
        except OSError:
            if not (home / str(number)).exists():
                raise


def move_alias(home: Path, alias: str, place: Path) -> None:
    """Make a link point to a version, by one rename."""
    link = home / f"{_STAGE}{identify_process()}-link"
    link.symlink_to(place.name)
    link.replace(home / alias)


def remove_stages(home: Path) -> None:
    """Remove the staging folders of killed publications."""
    for path in home.glob(f"{_STAGE}*"):
        publisher = path.name.removeprefix(_STAGE).removesuffix("-link")
        if not may_be_alive(publisher, changed=path.lstat().st_mtime):
            remove_tree(path)
