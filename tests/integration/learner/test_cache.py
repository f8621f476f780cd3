"""Language models with a cache of keys and values: tokens, logits and states are compared with the source's own."""

from __future__ import annotations

import re
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import kedro_hone
from hone_runtime.contract.hardware import read_host
from hone_runtime.learner.manifest import write_manifest
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.manifest import Manifest
from hone_runtime.worker import imports
from kedro_hone.adaptors.onnxruntime import adaptor as ONNXRUNTIME  # noqa: N812 - it is not the worker
from kedro_hone.adaptors.openvino import adaptor as OPENVINO  # noqa: N812 - as above
from kedro_hone.adaptors.pytorch.adaptor import TOOLCHAIN

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

torch = pytest.importorskip("torch")
pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers")

VOCABULARY, POSITIONS = 50, 48
TOKENS = {"vocab_size": VOCABULARY, "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0, "initializer_range": 0.5}
GROUPED = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": POSITIONS,
}
KINDS = (
    *((runtime, kind) for runtime in ("openvino", "onnxruntime") for kind in ("gpt2", "llama")),
    ("openvino", "qwen2"),
)
CONVERTERS = {
    "openvino": {"adaptor": "pytorch.openvino-ir", "options": {}},
    "onnxruntime": {"adaptor": "pytorch.onnx-traced", "options": {"opset": 17, "cache": True}},
}
INPUTS = [{"name": name, "dtype": "int64", "shape": ["batch", "length"]} for name in ("input_ids", "attention_mask")]


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("CI", "true")


def make(kind, **kwargs):
    """Return a tiny language model with large weights, so that tokens differ."""
    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(n_positions=POSITIONS, n_embd=32, n_layer=2, n_head=2, **TOKENS, **kwargs)
        return transformers.GPT2LMHeadModel(config).eval()
    names = {"llama": "Llama", "qwen2": "Qwen2", "mistral": "Mistral"}
    config = getattr(transformers, f"{names[kind]}Config")(**GROUPED, **TOKENS, **kwargs)
    return getattr(transformers, f"{names[kind]}ForCausalLM")(config).eval()


@pytest.fixture(scope="module")
def worker():
    """PyTorch's worker in this process, as it is in its own."""
    return imports.load_file("_cache_test_pytorch", str(TOOLCHAIN.worker))


@pytest.fixture(scope="module")
def onnxruntime(worker):
    """ONNX Runtime's worker in this process."""
    return imports.load_file("_cache_test_onnxruntime", str(ONNXRUNTIME.TOOLCHAIN.worker))


def convert(worker, model, folder: Path, runtime="openvino", **options):
    """Convert a model to OpenVINO's IR or to ONNX; return the notes, and what its worker tells of the source."""
    model.save_pretrained(folder / "source")
    said = {"task": "text-generation", "auto_class": "AutoModelForCausalLM", "kind": "text"}
    said["config"] = model.config.to_dict()
    given = {"path": str(folder / "source"), "format": "transformers", "inputs": INPUTS, "outputs": []}
    job = {"input": {**given, "metadata": {"transformers": said}}, "trust": [], "shapes": []}
    described = worker.describe(job)
    (folder / "artifact").mkdir()
    known = {"outputs": described["outputs"], "metadata": {"transformers": described["transformers"]}}
    job |= {"output": str(folder / "artifact"), "temporary": str(folder / "temporary"), **CONVERTERS[runtime]}
    job["options"] = {**job["options"], **options}
    return worker.transform({**job, "input": {**job["input"], **known}}), described


def seal(folder: Path, notes, described, runtime="openvino"):
    """Seal what was converted as a winner is, and return where it is."""
    precision = {"INFERENCE_PRECISION_HINT": "f32"} if runtime == "openvino" else {}
    artifact = Artifact(
        format="openvino-ir" if runtime == "openvino" else "onnx",
        digest="",
        inputs=described["inputs"],
        outputs=described["outputs"],
        runtime=runtime,
        run_options=precision,
        metadata={
            "interface": "transformers",
            "structure": described["structure"],
            "transformers": {**described["transformers"], "generation": {"pad_token_id": 0, "eos_token_id": 3}},
            "threads": 1,
            **notes.get("metadata", {}),
        },
    )
    files = folder / "artifact"
    artifact = artifact.model_copy(update={"digest": Manifest.measure(files, artifact.manifest()).digest})
    write_manifest(files, artifact)
    return files


@pytest.fixture(scope="module")
def made(worker, tmp_path_factory):
    """For each runtime and kind, a source and where its winner is."""
    found = {}
    for runtime, kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        model = make(kind)
        notes, described = convert(worker, model, folder, runtime)
        assert notes["metadata"]["cache"] == {
            "layers": 2,
            "heads": 2,
            "head_size": 16 if kind == "gpt2" else 8,
        }
        found[runtime, kind] = model, seal(folder, notes, described, runtime)
    return found


@pytest.fixture(params=KINDS, ids="-".join)
def pair(request, made):
    """A source and its winner."""
    model, files = made[request.param]
    return model, kedro_hone.load(files)


IDS = torch.randint(5, VOCABULARY, (3, 7), generator=torch.Generator().manual_seed(1))
MASK = torch.ones_like(IDS)
LEFT = MASK.clone()
LEFT[0, :3] = LEFT[1, :1] = 0
WAYS = {
    "greedy": {},
    "sampled": {"do_sample": True, "temperature": 1.5, "top_k": 15, "num_return_sequences": 2},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "sampled beams": {"num_beams": 3, "do_sample": True},
    "with logits": {"return_dict_in_generate": True, "output_logits": True},
    "by its own configuration": {"generation_config": transformers.GenerationConfig(max_new_tokens=5, use_cache=True)},
}


def generate(model, ids=IDS, seed=11, **kwargs):
    """Return what a model generates from a seed."""
    torch.manual_seed(seed)
    if "generation_config" not in kwargs:
        kwargs = {"max_new_tokens": 12, **kwargs}
    with torch.no_grad():
        return model.generate(input_ids=ids, **kwargs)


def count_columns(learner, monkeypatch):
    """Return a list that gets how many columns each step of a generation computes."""
    columns, start = [], learner._session.start

    def started():
        kept = start()
        advance = kept.advance
        kept.advance = lambda feeds, order=None: columns.append(feeds["input_ids"].shape[1]) or advance(feeds, order)
        return kept

    monkeypatch.setattr(learner._session, "start", started)
    return columns


@pytest.mark.parametrize("way", WAYS)
def test_it_generates_with_its_cache_what_the_source_generates(pair, way, monkeypatch):
    mask = MASK if way == "greedy" else LEFT
    source, learner = pair
    columns = count_columns(learner, monkeypatch)
    found, due = (generate(model, attention_mask=mask, **WAYS[way]) for model in (learner, source))
    assert columns[0] == IDS.shape[1]
    assert set(columns[1:]) == {1}
    if way == "with logits":
        assert len(found.logits) == len(due.logits) > 3
        torch.testing.assert_close(torch.stack(found.logits), torch.stack(due.logits), atol=1e-3, rtol=1e-3)
        found, due = found.sequences, due.sequences
    assert torch.equal(found, due)
    assert len({tuple(row.tolist()) for row in due[:, IDS.shape[1] :]}) > 1


def test_the_cache_can_be_left_alone(pair, monkeypatch):
    source, learner = pair
    columns = count_columns(learner, monkeypatch)
    assert torch.equal(generate(learner, attention_mask=LEFT, use_cache=False), generate(source, attention_mask=LEFT))
    assert columns == []


def test_a_call_is_not_influenced_by_a_generation(pair):
    source, learner = pair
    with torch.no_grad():
        due = source(IDS, attention_mask=MASK, use_cache=False).logits
    before = learner(IDS, attention_mask=MASK).logits
    generate(learner, attention_mask=LEFT)
    assert torch.equal(learner(IDS, attention_mask=MASK).logits, before)
    assert learner(IDS[:1, :2]).logits.shape == (1, 2, VOCABULARY)
    assert torch.equal(learner(IDS, attention_mask=MASK).logits, before)
    torch.testing.assert_close(before, due, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("runtime", CONVERTERS)
def test_generations_at_the_same_time_share_no_state(made, runtime):
    source, files = made[runtime, "llama"]
    learner = kedro_hone.load(files)
    other = kedro_hone.load(files)
    prompts = [IDS, IDS.flip(0)[:2], IDS[:1, 2:], IDS.flip(1)]
    due = [generate(source, ids) for ids in prompts]
    found = {}

    def work(index):
        for model in (learner, other):
            found[index, model is learner] = generate(model, prompts[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 * len(prompts)
    for (index, _), tokens in found.items():
        assert torch.equal(tokens, due[index])


def test_a_cache_of_the_callers_is_refused(made):
    source, learner = made["openvino", "gpt2"][0], kedro_hone.load(made["openvino", "gpt2"][1])
    with torch.no_grad():
        theirs = source(IDS, use_cache=True).past_key_values
    for call in (learner, learner.generate):
        with pytest.raises(ValueError, match="past_key_values is not supported: a call has no cache"):
            call(IDS, past_key_values=theirs)
    of_another = generate(kedro_hone.load(made["openvino", "gpt2"][1]), return_dict_in_generate=True).past_key_values
    with pytest.raises(ValueError, match="past_key_values is not supported"):
        learner(IDS, past_key_values=of_another)
    with pytest.raises(ValueError, match="cannot be cropped, so there is no assisted decoding"):
        generate(learner, IDS[:1], prompt_lookup_num_tokens=3)


def test_a_sequence_beyond_the_positions_is_refused(made):
    learner = kedro_hone.load(made["openvino", "gpt2"][1])
    with pytest.raises(ValueError, match=f"the model has {POSITIONS} positions, and the sequence has {POSITIONS + 1}"):
        generate(learner, max_new_tokens=POSITIONS, min_new_tokens=POSITIONS)


def swap(worker, monkeypatch):
    forward = worker.causal_models.Cached.forward

    def swapped(self, *tensors):
        count = len(self.names)
        past = list(tensors[count:])
        past[::2], past[1::2] = past[1::2], past[::2]
        return forward(self, *tensors[:count], *past)

    monkeypatch.setattr(worker.causal_models.Cached, "forward", swapped)


def ignore(worker, monkeypatch):
    monkeypatch.setattr(worker.causal_models, "_mask", lambda mask, _: 0.0 * mask[:, None, None, :])


def freeze(worker, monkeypatch):
    """The length of the example's cache instead of the real one, as a tracer may take it."""

    def mask_from_there(mask, new):
        columns, rows = torch.arange(mask.shape[1]), worker.causal_models.PAST + torch.arange(new)
        return torch.where((columns <= rows[:, None]) & (mask[:, None, None, :] != 0), 0.0, -1e30)

    monkeypatch.setattr(worker.causal_models, "_mask", mask_from_there)


def forget(worker, monkeypatch):
    order = worker.causal_models.Cached.forward

    def unordered(self, *tensors):
        named = dict(zip(self.names, tensors, strict=False))
        still = [torch.arange(3, dtype=torch.int32) if name == "beam_idx" else each for name, each in named.items()]
        return order(self, *still, *tensors[len(self.names) :])

    monkeypatch.setattr(worker.causal_models.Cached, "forward", unordered)


def skip(worker, monkeypatch):
    """Positions that are off by one behind a cache."""
    forward = worker.causal_models.Cached.forward

    def ahead(self, *tensors):
        named = dict(zip(self.names, tensors, strict=False))
        past = torch.as_tensor(named["attention_mask"].shape[1] - named["input_ids"].shape[1]).clamp(max=1)
        moved = [each + past if name.startswith("position") else each for name, each in named.items()]
        return forward(self, *moved, *tensors[len(self.names) :])

    monkeypatch.setattr(worker.causal_models.Cached, "forward", ahead)


# In ONNX Runtime the order of the sequences is not the graph's, so that it cannot be forgotten.
PLANTS = [("onnxruntime", plant) for plant in (swap, ignore, freeze, skip)]
PLANTS += [("openvino", forget)]
# For OpenVINO the same module is traced, which takes ten times as long.
PLANTS += [pytest.param("openvino", plant, marks=pytest.mark.nightly) for plant in (swap, ignore, freeze, skip)]


@pytest.mark.parametrize(("runtime", "plant"), PLANTS)
def test_a_wrong_cache_is_found_before_it_is_returned(worker, runtime, plant, tmp_path, monkeypatch):
    plant(worker, monkeypatch)
    notes, described = convert(worker, make("llama"), tmp_path, runtime)
    reason = notes["metadata"]["cache"]["absent"]
    assert re.fullmatch(r"(a run at once|steps with the cache) gave logits that differ from the model's by .*", reason)
    monkeypatch.undo()
    learner = kedro_hone.load(seal(tmp_path, notes, described, runtime))
    assert torch.equal(generate(learner), generate(make("llama")))


@pytest.mark.parametrize("runtime", ["onnxruntime", pytest.param("openvino", marks=pytest.mark.nightly)])
def test_a_sliding_window_is_converted_without_a_cache(worker, runtime, tmp_path):
    model = make("mistral", sliding_window=4)
    notes, described = convert(worker, model, tmp_path, runtime)
    assert notes["metadata"]["cache"]["absent"].startswith("its cache is a DynamicCache of DynamicSlidingWindowLayer")
    learner = kedro_hone.load(seal(tmp_path, notes, described, runtime))
    assert torch.equal(generate(learner), generate(model))


def test_the_option_leaves_the_cache_out(worker, tmp_path):
    model = make("gpt2")
    notes, described = convert(worker, model, tmp_path, "onnxruntime", cache=False)
    assert notes["metadata"]["cache"] == {"absent": "the option cache is off"}
    learner = kedro_hone.load(seal(tmp_path, notes, described, "onnxruntime"))
    assert not learner._session.has_cache
    assert torch.equal(generate(learner), generate(model))


@pytest.fixture
def openvino(monkeypatch):
    """OpenVINO's worker in this process."""
    pytest.importorskip("nncf")
    monkeypatch.setenv("NNCF_CI", "1")
    return imports.load_file("_cache_test_openvino", str(OPENVINO.TOOLCHAIN.worker))


def change(worker, files, adaptor, output, **job):
    """Run one of OpenVINO's adaptors on a sealed winner's files; return its notes and where it wrote."""
    artifact = kedro_hone.load(files).artifact
    output.mkdir()
    given = {"path": str(files), "device": "cpu", "metadata": artifact.metadata, "run_options": artifact.run_options}
    given["inputs"] = [spec.model_dump() for spec in artifact.inputs]
    defaults = next(each for each in OPENVINO.ADAPTORS if each.name == adaptor).options()
    options = defaults.resolve(read_host()).model_dump()
    job |= {"adaptor": adaptor, "input": given, "output": str(output), "options": options, "threads": 1}
    notes = worker.transform(job)
    described = worker.describe({"input": {**given, "path": str(output)}})
    assert [spec["name"] for spec in described["inputs"]] == [spec.name for spec in artifact.inputs]
    return notes, {**job, "input": {**given, "path": str(output)}}


@pytest.mark.parametrize("adaptor", ["openvino.int8-weights", "openvino.int8-ptq"])
def test_what_is_quantized_keeps_its_cache(made, openvino, adaptor, tmp_path):
    source, files = made["openvino", "llama"]
    ids, mask = IDS.numpy(), MASK.numpy()
    np.savez(tmp_path / "rows.npz", input_ids=ids, attention_mask=mask)
    notes, job = change(openvino, files, adaptor, tmp_path / "quantized", calibration=str(tmp_path / "rows.npz"))
    assert notes["metadata"]["quantized_operators"] > 0
    session = openvino.load(job)
    whole = session.run({"input_ids": ids, "attention_mask": mask})["logits"]
    kept = session.start()
    steps = [
        kept.advance({"input_ids": ids[:, at : at + 1], "attention_mask": mask[:, : at + 1]})["logits"]
        for at in range(ids.shape[1])
    ]
    assert np.abs(np.concatenate(steps, 1) - whole).max() < 0.02 * np.abs(whole).max()
    with torch.no_grad():
        assert np.abs(whole - source(IDS).logits.numpy()).max() < 0.3 * np.abs(whole).max()


def test_a_cache_that_goes_wrong_in_the_runtime_is_not_used(made, openvino, tmp_path, monkeypatch):
    assert change(openvino, made["openvino", "gpt2"][1], "openvino.f32", tmp_path / "right")[0] == {}
    fill = openvino.session.fill
    monkeypatch.setattr(openvino.session, "fill", lambda feeds, names, _=0: fill(feeds, names))
    noted = change(openvino, made["openvino", "gpt2"][1], "openvino.f32", tmp_path / "wrong")[0]["metadata"]["cache"]
    assert noted["absent"].startswith("steps with the cache gave logits that differ from those of one run by ")


def rewrite(worker, files, adaptor, output, metadata=None):
    """Run one of ONNX Runtime's adaptors on files; return what is known of the result's cache, and its session."""
    artifact = kedro_hone.load(files).artifact if metadata is None else None
    metadata = metadata or artifact.metadata
    output.mkdir()
    rows = {"input_ids": IDS.numpy(), "attention_mask": MASK.numpy()}
    np.savez(output.parent / "rows.npz", **rows)
    defaults = next(each for each in ONNXRUNTIME.ADAPTORS if each.name == adaptor).options()
    options = defaults.resolve(read_host()).model_dump()
    given = {"path": str(files), "metadata": metadata, "inputs": INPUTS}
    job = {"adaptor": adaptor, "input": given, "output": str(output), "options": options, "threads": 1}
    job |= {"temporary": str(output.parent), "calibration": str(output.parent / "rows.npz")}
    notes = worker.transform(job)
    described = worker.describe({"input": {**given, "path": str(output)}})
    assert described["inputs"] == INPUTS
    assert [spec["name"] for spec in described["outputs"]] == ["logits"]
    metadata = {**metadata, **notes.get("metadata", {})}
    run_options = {"graph_optimization": "disabled"}
    session = worker.load(
        {"threads": 1, "input": {"path": str(output), "metadata": metadata, "run_options": run_options}}
    )
    return metadata, session


@pytest.mark.parametrize("adaptor", ["int8-dynamic", "int4-weights", "int8-static"])
def test_what_onnx_runtime_makes_of_a_graph_keeps_its_cache_or_says_so(made, onnxruntime, adaptor, tmp_path):
    files = made["onnxruntime", "llama"][1]
    metadata, _ = rewrite(onnxruntime, files, f"onnxruntime.{adaptor}", tmp_path / "quantized")
    metadata, session = rewrite(
        onnxruntime, tmp_path / "quantized", "onnxruntime.session", tmp_path / "session", metadata
    )
    if adaptor == "int8-static":
        assert metadata["cache"] == {"absent": "onnxruntime.int8-static does not keep it"}
        with pytest.raises(ValueError, match="no cache"):
            session.start()
        return
    assert metadata["cache"] == {"layers": 2, "heads": 2, "head_size": 8}
    kept, whole = session.start(), session.run({"input_ids": IDS.numpy(), "attention_mask": LEFT.numpy()})["logits"]
    steps = [
        kept.advance({"input_ids": IDS[:, at : at + 1].numpy(), "attention_mask": LEFT[:, : at + 1].numpy()})["logits"]
        for at in range(IDS.shape[1])
    ]
    error = (np.concatenate(steps, 1) - whole)[LEFT.numpy() > 0]
    assert np.sqrt((error**2).mean()) < 0.15 * whole.std()
    assert kept.length == IDS.shape[1]


def stay(session, monkeypatch):
    monkeypatch.setattr(session, "reorder", lambda kept, _: kept)


def turn(session, monkeypatch):
    reorder = session.reorder
    monkeypatch.setattr(session, "reorder", lambda kept, order: reorder(kept, np.argsort(order)))


def lag(session, monkeypatch):
    locate = session._locate

    def late(feeds, inputs, past):
        return {**(given := locate(feeds, inputs, past)), "position_shift": given["position_shift"] + bool(past)}

    monkeypatch.setattr(session, "_locate", late)


@pytest.fixture(params=["gpt2", "llama"])
def graph(request, made):
    """Where a winner of ONNX Runtime is."""
    return made["onnxruntime", request.param][1]


@pytest.mark.parametrize("plant", [stay, turn, lag])
def test_a_cache_that_goes_wrong_in_onnx_runtime_is_not_used(graph, onnxruntime, plant, tmp_path, monkeypatch):
    quantized, _ = rewrite(onnxruntime, graph, "onnxruntime.int8-dynamic", tmp_path / "quantized")
    right, _ = rewrite(onnxruntime, tmp_path / "quantized", "onnxruntime.session", tmp_path / "right", quantized)
    assert "absent" not in right["cache"]
    plant(onnxruntime.session, monkeypatch)
    for index, (path, known) in enumerate(((graph, None), (tmp_path / "quantized", quantized))):
        noted = rewrite(onnxruntime, path, "onnxruntime.session", tmp_path / f"wrong{index}", known)[0]["cache"]
        assert noted["absent"].startswith("steps with the cache gave logits that differ from those of one run by ")
