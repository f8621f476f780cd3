"""Winners of Transformers sources, called as the source is: each result is compared with the source's own."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kedro_hone

pytestmark = [
    pytest.mark.toolchain,
    # torch's and torchao's own, when transformers and the exporter import them
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers")
    import pretrained_models as tiny

HEADS = {
    "feature-extraction": "BertModel",
    "text-classification": "BertForSequenceClassification",
    "token-classification": "BertForTokenClassification",
    "question-answering": "BertForQuestionAnswering",
    "fill-mask": "BertForMaskedLM",
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def make_pair(tmp_path_factory):
    """Return a function that makes a source and its winner's folder, once for each head."""
    made = {}

    def make(head):
        if head not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = tiny.make_bert(head, **({"num_labels": 5} if "Classification" in head else {}))
                folder = tmp_path_factory.mktemp(head) / "artifact"
                task = next(task for task, name in HEADS.items() if name == head)
                tiny.seal(folder, model, tiny.make_text(), shapes=tiny.TEXT, task=task)
            made[head] = model, folder
        return made[head]

    return make


@pytest.fixture(params=HEADS.values())
def pair(request, make_pair):
    """A source and its winner."""
    model, folder = make_pair(request.param)
    return model, kedro_hone.load(folder)


def check(found, due):
    """Compare two results: the same class, the same keys in the same order, the same values."""
    assert type(found) is type(due)
    if isinstance(due, torch.Tensor):
        assert found.dtype is due.dtype
        torch.testing.assert_close(found, due, atol=1e-5, rtol=1e-4)
    elif isinstance(due, tuple):
        assert len(found) == len(due)
        for one, other in zip(found, due, strict=True):
            check(one, other)
    else:
        assert list(found) == list(due)
        assert {name for name in vars(found) if vars(found)[name] is None} == {
            name for name in vars(due) if vars(due)[name] is None
        }
        for key in due:
            check(found[key], due[key])
            assert getattr(found, key) is found[key]


def pad(ids, mask, types):
    """Return three sentences of which two are padded."""
    mask = mask.clone()
    mask[1, 4:] = mask[2, 2:] = 0
    return ids * mask, mask, types


IDS, MASK, TYPES = tiny.make_text().values()
PADDED = pad(IDS, MASK, TYPES)
CALLS = {
    "one sentence": ((), {"input_ids": IDS[:1], "attention_mask": MASK[:1], "token_type_ids": TYPES[:1]}),
    "many sentences": ((), {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": TYPES}),
    "padded sentences": ((), {"input_ids": PADDED[0], "attention_mask": PADDED[1], "token_type_ids": TYPES}),
    "another length": ((), {"input_ids": IDS[:, :2], "attention_mask": MASK[:, :2]}),
    "a pair of sentences": ((), {"input_ids": IDS, "token_type_ids": (torch.arange(7) > 3).long().repeat(3, 1)}),
    "without a mask": ((), {"input_ids": IDS}),
    "without types": ((), {"input_ids": PADDED[0], "attention_mask": PADDED[1]}),
    "None for what is left out": ((), {"input_ids": IDS, "attention_mask": None, "labels": None, "position_ids": None}),
    "a positional argument": ((IDS,), {}),
    "positional arguments": ((PADDED[0], PADDED[1]), {"token_type_ids": TYPES}),
    "as a tuple": ((), {"input_ids": IDS, "return_dict": False}),
    "as a ModelOutput": ((), {"input_ids": IDS, "return_dict": True}),
    "int32 ids": ((), {"input_ids": IDS.int(), "attention_mask": PADDED[1].int()}),
    "a mask of booleans": ((), {"input_ids": IDS, "attention_mask": PADDED[1].bool()}),
    "a mask of numbers": ((), {"input_ids": IDS, "attention_mask": PADDED[1].float()}),
    "not contiguous": ((), {"input_ids": IDS.T.contiguous().T, "attention_mask": PADDED[1]}),
    "no hidden states": ((), {"input_ids": IDS, "output_hidden_states": False, "output_attentions": False}),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_returns_what_the_source_returns(pair, call):
    source, learner = pair
    args, kwargs = CALLS[call]
    with torch.no_grad():
        due = source(*args, **kwargs)
    check(learner(*args, **kwargs), due)
    check(learner.forward(*args, **kwargs), due)


def test_a_pipeline_takes_it_for_text_classification(make_pair):
    source, folder = make_pair("BertForSequenceClassification")
    learner, tokenizer = kedro_hone.load(folder), tiny.make_tokenizer()
    pipes = [transformers.pipeline("text-classification", model=m, tokenizer=tokenizer) for m in (learner, source)]
    texts = ["hello world", "it is good good bad", {"text": "hello", "text_pair": "world"}]
    for kwargs in ({}, {"top_k": None}, {"batch_size": 3}, {"function_to_apply": "none"}):
        found, due = ([pipe(text, **kwargs) for text in texts] for pipe in pipes)
        for one, other in zip(found, due, strict=True):
            ours, theirs = (
                np.array([row["score"] for row in (x if isinstance(x, list) else [x])]) for x in (one, other)
            )
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
            assert str(one).split("'score'")[0] == str(other).split("'score'")[0]
