"""The golden rows of a winner, kept in the store when the gates have found it."""

from __future__ import annotations

from pathlib import Path

from kedro_hone.comparing.arrays import read_arrays
from kedro_hone.comparing.setting import Setting
from kedro_hone.core.contract.proof import GOLDEN
from kedro_hone.core.machine.hardware import read_host
from kedro_hone.core.values.digest import digest_file
from kedro_hone.core.values.samples import GATE
from kedro_hone.learner.golden import make_golden


def keep_golden(outputs: Path, setting: Setting, *, largest_error: float) -> str | None:
    """Keep rows of the gate split with a winner's outputs for them (``.npz``) as a tree of the store; return its key.

    None where the recipe asks for no rows, or they cannot be kept.
    """
    feeds = read_arrays(setting.locate(setting.samples.splits[GATE].feeds))
    rows, made = setting.recipe.golden_rows, read_arrays(outputs)
    golden = make_golden(feeds, made, rows=rows, largest_error=largest_error, source=setting.source, host=read_host())
    if golden is None:
        return None
    with setting.store.workspace() as folder:
        (folder / GOLDEN).write_text(golden.model_dump_json(), encoding="utf-8")
        key = digest_file(folder / GOLDEN)
        setting.store.keep_tree(key, folder)
    return key
