from __future__ import annotations

import errno
import os

import pytest
from sample import make_evidence

from hone_runtime.contract.registry import Publication
from hone_runtime.errors import HoneError
from hone_runtime.learner.manifest import read_artifact
from kedro_hone.core.store.artifacts import Store
from kedro_hone.report.files import read_publication, store_winner, write_publication


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
    place = store_winner(artifact, store.locate(artifact), tmp_path / "run")

    assert (place / "model.xml").read_text() == "model"
    assert read_artifact(place).digest == artifact.digest
    assert ((place / "model.xml").stat().st_nlink == 2) == (fault is None)


def test_where_the_winner_went_is_read_back(tmp_path):
    assert read_publication(tmp_path) is None
    publication = Publication(uri="models:/digits/2", version="2", alias=None, note="kept")
    write_publication(publication, make_evidence(), tmp_path)
    assert read_publication(tmp_path) == publication


def test_a_broken_publication_is_explained(tmp_path):
    (tmp_path / "publication.json").write_text('{"uri": 1}')
    with pytest.raises(HoneError, match="cannot be read from") as caught:
        read_publication(tmp_path)
    assert caught.value.slug == "evidence-unreadable"
    assert caught.value.why == "uri: Input should be a valid string."


def test_a_publication_of_a_later_version_may_say_more(tmp_path):
    (tmp_path / "publication.json").write_text('{"uri": "u", "version": "2", "alias": null, "more": 1}')
    assert read_publication(tmp_path) == Publication(uri="u", version="2", alias=None)
