from __future__ import annotations

from kedro_hone.hooks.training import describe_training


def write(steps, name, text):
    (steps / name).mkdir()
    (steps / name / "log").write_text(text)


def test_the_last_epoch_of_the_newest_training(tmp_path):
    write(tmp_path, "999-compress.drop-layers", "epoch 9 of 9: error 0.3\n")
    write(
        tmp_path,
        "1000-compress.prune-channels",
        "x" * 9000 + "\nepoch 1 of 30: error 0.2\nepoch 2 of 30: error 0.1\ndone\n",
    )
    assert describe_training(tmp_path) == "compress.prune-channels: epoch 2 of 30: error 0.1"
    (tmp_path / "1001-compress.low-rank").mkdir()
    assert describe_training(tmp_path) == ""  # its first epoch has not ended


def test_without_an_epoch_there_is_nothing_to_show(tmp_path):
    assert describe_training(tmp_path / "none") == ""
    write(tmp_path, "001-pytorch.onnx", "not an epoch 1\n")
    assert describe_training(tmp_path) == ""
