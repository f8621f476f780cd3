from __future__ import annotations

import errno
import os

import pytest

from kedro_hone.core.store.artifacts import Store
from kedro_hone.learner.manifest import read_artifact
from kedro_hone.report.files import keep_winner


@pytest.mark.parametrize("fault", [None, errno.EXDEV, errno.EPERM])
def test_the_winner_is_kept_also_where_the_store_is_on_another_disk(tmp_path, monkeypatch, fault):
    store = Store(tmp_path / "store")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "model.xml").write_text("model")
    artifact = store.seal(tmp_path / "made", format="openvino-ir", inputs=(), outputs=())

    def refuse(source, target):
        raise OSError(fault, os.strerror(fault))

    if fault is not None:
        monkeypatch.setattr(os, "link", refuse)
    place = keep_winner(artifact, store.locate(artifact), tmp_path / "run")

    assert (place / "model.xml").read_text() == "model"
    assert read_artifact(place).digest == artifact.digest
    assert ((place / "model.xml").stat().st_nlink == 2) == (fault is None)
