from __future__ import annotations

import numpy as np
import pytest

from hone_runtime.values.samples import DRAWN
from kedro_hone.search.comparison.arrays import is_drawn


@pytest.mark.parametrize("name", ["gate.npz", "gate.NPZ", "folder/deep/gate.npz"])
def test_inputs_that_were_drawn_are_found_by_their_content(tmp_path, name):
    path = tmp_path / "data" / name
    path.parent.mkdir(parents=True)
    with path.open("wb") as stream:
        np.savez(stream, x=np.zeros(2), **{DRAWN: np.ones(2, np.bool_)})

    assert is_drawn(path)
    assert is_drawn(tmp_path / "data")


def test_other_data_are_not_drawn(tmp_path):
    np.savez(tmp_path / "gate.npz", x=np.zeros(2))
    (tmp_path / "broken.npz").write_bytes(b"PK")
    (tmp_path / "gate.csv").write_text(f"{DRAWN}\n1\n")
    (tmp_path / "odd.npz").mkdir()

    assert not is_drawn(tmp_path)
    assert not any(map(is_drawn, tmp_path.iterdir()))
