from __future__ import annotations

import pytest

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.artifact import Artifact, StepFacts
from hone_runtime.values.outcome import Refused
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.steps import StepRecord
from kedro_hone.search.steps.checkpoints import checkout_checkpoint, goes_on, is_unfinished, remove_checkpoint

NAME = "compress.prune-channels"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def checkout(store, tmp_path):
    def checkout(folder="first", *, key="a", name=NAME):
        return checkout_checkpoint(store, read_catalogue().find_adaptor(name), key, tmp_path / folder)

    return checkout


def test_an_adaptor_that_trains_nothing_gets_no_file(checkout):
    with checkout(name="onnxruntime.session") as path:
        assert path is None


def test_what_a_worker_left_the_next_one_of_the_same_step_finds(checkout, store):
    def interrupt() -> None:
        with checkout() as path:
            assert not path.exists()
            path.write_bytes(b"epoch 1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    with checkout("second") as path:
        assert path.read_bytes() == b"epoch 1"
    with checkout("third", key="b") as path:
        assert not path.exists()
    remove_checkpoint(store, "a")
    with checkout("fourth") as path:
        assert not path.exists()


def test_a_link_in_its_place_is_not_followed(checkout, tmp_path):
    (tmp_path / "diary").write_text("dear diary")
    with checkout() as path:
        path.symlink_to(tmp_path / "diary")
    with checkout("second") as path:
        assert not path.exists()


def test_a_training_that_ended_early_is_unfinished():
    artifact = Artifact(format="pytorch", digest="sha256:1", inputs=(), outputs=())
    early = artifact.model_copy(update={"metadata": {"trained": {NAME: {"unfinished": True}}}})
    assert is_unfinished(early, NAME)
    assert not is_unfinished(early, "compress.low-rank")
    assert not is_unfinished(artifact, NAME)
    assert not is_unfinished(Refused(by=NAME, slug="format", reason="none"), NAME)


def test_a_training_goes_on_only_in_a_later_run_and_with_its_checkpoint(checkout, store):
    artifact = Artifact(format="pytorch", digest="sha256:1", inputs=(), outputs=())
    early = artifact.model_copy(update={"metadata": {"trained": {NAME: {"unfinished": True}}}})
    facts = StepFacts(key="a", adaptor=NAME, run="first", folder="steps/1", seconds=1.0, outcome="artifact")
    found = StepRecord(facts=facts, outcome=early, created="", inputs={})
    assert not goes_on(store, "a", found, run="second")
    with checkout() as path:
        path.write_bytes(b"epoch 1")
    assert goes_on(store, "a", found, run="second")
    assert not goes_on(store, "a", found, run="first")
    assert not goes_on(store, "a", found.model_copy(update={"outcome": artifact}), run="second")
