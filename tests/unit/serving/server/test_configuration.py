from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from kedro_hone.serving.server.configuration import read_configuration

MODEL = {
    "name": "digits",
    "folder": "digits",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 10]}],
}


def write(folder: Path, **more) -> Path:
    path = folder / "configuration.json"
    path.write_text(json.dumps({"models": [MODEL], **more}))
    return path


def test_folders_are_relative_to_the_file(tmp_path: Path) -> None:
    text = {"tokenizer": "tokenizer.json", "length": 8, "pad_token": "[PAD]"}
    found = read_configuration(write(tmp_path, models=[{**MODEL, "text": text}]))
    assert found.models[0].folder == tmp_path / "digits"
    assert found.models[0].text is not None
    assert found.models[0].text.tokenizer == tmp_path / "digits" / "tokenizer.json"
    assert found.host == "127.0.0.1"


@pytest.mark.parametrize(
    "more",
    [
        {"models": []},
        {"models": [MODEL, MODEL]},
        {"models": [{**MODEL, "name": "../x"}]},
        {"http_port": 80, "grpc_port": 80},
        {"http_port": 65536},
        {"workers": 0},
        {"limits": {"rows": 0}},
        {"unknown": 1},
    ],
)
def test_an_invalid_configuration_is_refused(tmp_path: Path, more) -> None:
    with pytest.raises(ValidationError):
        read_configuration(write(tmp_path, **more))
