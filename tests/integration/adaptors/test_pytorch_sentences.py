"""Modules of sentence-transformers after an encoder: the source returns what ``SentenceTransformer.encode`` does."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tiny_transformers import make_tokenizer, write_models
from torch import nn

from hone_runtime.learner.openers import open_learner
from hone_runtime.values.artifact import Artifact
from hone_runtime.worker.imports import load_file
from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN
from kedro_hone.sources.detection import read_flavor
from kedro_hone.sources.formats.transformers import write

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

worker = load_file("hone_worker_of_sentences", str(TOOLCHAIN.worker))
TEXTS = ["the cat sat on a mat", "the cat", "and slept on the mat and the cat sat", "a"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("encoder"), "encoder") / "encoder"


def make_modules(name):
    from sentence_transformers.base import modules as general
    from sentence_transformers.sentence_transformer import modules as models

    dense = {"in_features": 32, "out_features": 8}
    if name == "dense":
        return [models.Pooling(32, "mean"), general.Dense(**dense), general.Normalize()]
    if name == "gelu around":
        return [models.Pooling(32, "cls"), general.Dense(32, 32, activation_function=nn.GELU(), use_residual=True)]
    if name == "linear, narrower around":
        activation = nn.Identity()
        return [
            models.Pooling(32, "lasttoken"),
            general.Dense(**dense, activation_function=activation, use_residual=True),
        ]
    if name == "two modes, then a norm":
        return [models.Pooling(32, ("mean", "max")), models.LayerNorm(64), models.Dropout(0.5)]
    return [models.Pooling(32, "weightedmean"), general.Normalize(), general.Dense(**dense, bias=False)]


def describe(tmp_path):
    """Describe what was saved as a source's worker does; return that, the flavor, and the folder of its files."""
    flavor = read_flavor(tmp_path / "saved", trust=frozenset())
    write(flavor, tmp_path / "saved", tmp_path / "sealed")
    given = {"path": str(tmp_path / "sealed"), "format": "transformers", "inputs": [], "outputs": []}
    job = {"input": {**given, "metadata": flavor.metadata}, "threads": 1, "trust": [], "shapes": []}
    return worker.describe(job), flavor, tmp_path / "sealed"


def make_model(encoder, name):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    return SentenceTransformer(modules=[Transformer(str(encoder)), *make_modules(name)], device="cpu").eval()


CASES = ("dense", "gelu around", "linear, narrower around", "two modes, then a norm", "normalized before")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("side", ["right", "left"])
def test_the_source_returns_what_encode_returns(encoder, tmp_path, case, side):
    torch.manual_seed(3)
    model = make_model(encoder, case)
    model.tokenizer.padding_side = side
    model.save(str(tmp_path / "saved"), create_model_card=False)
    wanted = model.encode(TEXTS)

    flavor = read_flavor(tmp_path / "saved", trust=frozenset())
    write(flavor, tmp_path / "saved", tmp_path / "sealed")
    given = {"path": str(tmp_path / "sealed"), "format": "transformers", "inputs": [], "outputs": []}
    job = {
        "input": {**given, "metadata": flavor.metadata},
        "threads": 1,
        "trust": [],
        "shapes": [],
        "adaptor": "pytorch",
    }
    described = worker.describe(job)
    assert [(row["name"], row["shape"]) for row in described["outputs"]] == [
        ("sentence_embedding", ["batch", wanted.shape[1]])
    ]
    assert described["transformers"]["class"] == "BertModel"
    job["input"] |= {"inputs": described["inputs"], "outputs": described["outputs"]}
    session = worker.load({**job, "options": {}, "produces": "transformers"})
    tokenizer = make_tokenizer()
    tokenizer.padding_side = side
    tokens = tokenizer(TEXTS, padding=True, return_tensors="np", return_token_type_ids=True)
    found = session.run({spec["name"]: tokens[spec["name"]].astype(np.int64) for spec in described["inputs"]})
    np.testing.assert_allclose(found["sentence_embedding"], wanted, atol=2e-6, rtol=1e-5)


def open_winner(tmp_path):
    described, flavor, files = describe(tmp_path)
    artifact = Artifact(
        format="transformers",
        digest="",
        runtime="pytorch",
        inputs=described["inputs"],
        outputs=described["outputs"],
        metadata={
            "interface": "transformers",
            "threads": 1,
            "structure": described["structure"],
            "transformers": {**flavor.metadata["transformers"], **described["transformers"]},
        },
    )
    return open_learner(artifact, files)


def test_a_winner_encodes_as_the_source_does(encoder, tmp_path):
    model = make_model(encoder, "dense")
    model.prompts, model.default_prompt_name = {"query": "the "}, "query"
    model.max_seq_length = 6
    model.save(str(tmp_path / "saved"), create_model_card=False)
    learner = open_winner(tmp_path)
    np.testing.assert_allclose(learner.encode(TEXTS, batch_size=3), model.encode(TEXTS), atol=2e-6, rtol=1e-5)
    np.testing.assert_allclose(learner.encode("the cat", prompt=""), model.encode("the cat", prompt=""), atol=2e-6)
    assert learner.encode([]).shape == (0, 8)
    tokens = make_tokenizer()(TEXTS, padding=True, return_tensors="pt")
    assert learner(**tokens).sentence_embedding.shape == (4, 8)


def test_a_prompt_that_the_source_does_not_pool_is_refused(encoder, tmp_path):
    model = make_model(encoder, "dense")
    model.set_pooling_include_prompt(False)
    model.save(str(tmp_path / "saved"), create_model_card=False)
    learner = open_winner(tmp_path)
    with pytest.raises(ValueError, match="leaves out the tokens of a prompt"):
        learner.encode(TEXTS, prompt="the ")
    np.testing.assert_allclose(learner.encode(TEXTS), model.encode(TEXTS), atol=2e-6, rtol=1e-5)


def test_an_activation_of_others_is_refused_by_its_name(encoder, tmp_path):
    model = make_model(encoder, "dense")
    model.save(str(tmp_path / "saved"), create_model_card=False)
    path = tmp_path / "saved" / "2_Dense" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "activation_function": "os.system"}))
    said = describe(tmp_path)[0]
    assert "Dense (2_Dense) has the activation 'os.system'" in said["refused"]
