"""A source in the place of a winner: the artifact that a run made of it."""

from __future__ import annotations

import json

import numpy as np
from safetensors.numpy import save_file

from hone_runtime.values.manifest import Manifest
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats.transformers import write
from kedro_hone.sources.openers import write_source

CONFIG = {"architectures": ["BertForNextSentencePrediction"], "model_type": "bert", "vocab_size": 100}


def test_a_model_whose_task_the_recipe_named_is_what_it_was(tmp_path):
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    (pulled / "config.json").write_text(json.dumps(CONFIG))
    (pulled / "tokenizer.json").write_text("{}")
    save_file({"a": np.ones(3, np.float32)}, pulled / "model.safetensors")
    flavor = read_flavor(pulled, trust=frozenset(), task="feature-extraction")
    write(flavor, pulled, tmp_path / "sealed")
    attributes = {"format": "transformers", "inputs": [], "outputs": [], "metadata": flavor.metadata}

    found = write_source(pulled, tmp_path / "files", attributes)

    assert found.digest == Manifest.measure(tmp_path / "sealed", attributes).digest
