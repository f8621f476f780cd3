"""The program of docs/how-to/write-a-program-for-text.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from text_models import list_ids

from kedro_hone import programs
from kedro_hone.recipe.schema import read_recipe

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-program-for-text.md"
LOGITS = [{"name": "logits", "dtype": "float32", "shape": ["batch", 1]}]


@pytest.fixture
def blocks(tmp_path, monkeypatch, make_model_folder):
    program, trial = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "similarity.py").write_text(program)
    make_model_folder(config={"model_type": "bert", "max_position_embeddings": 32})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", __import__("sys").path.copy())
    return trial


def test_the_trial_runs(blocks):
    exec(compile(blocks, "trial.py", "exec"), {})  # noqa: S102 - our own page


def test_the_recipe_is_one():
    (recipe,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert read_recipe(yaml.safe_load(recipe)["hone"]).gates.drops == {"pearson": 0.01}


def test_the_program_runs_in_the_worker(blocks, run_program, make_model_folder, random):
    from scipy.stats import spearmanr

    words = random.choice(["a", "b", "film", "good"], size=(40, 2, 4))
    first, second = ([" ".join(row) for row in words[:, side]] for side in (0, 1))
    similar = np.round(random.uniform(0, 5, 40))  # with ties
    given = {"inputs": list_ids(), "outputs": LOGITS, "folder": make_model_folder()}
    data = {"sentence1": first, "sentence2": second, "score": similar}
    found = run_program("programs/similarity.py", data, **given)
    logits, noisy = (np.float32(similar + random.normal(size=40) * noise)[:, None] for noise in (0.5, 3))
    row = found["score"]({"logits": logits}, {"logits": noisy}, metrics=["pearson"])
    assert (row["metric"], row["kind"]) == ("spearman", "bootstrap")
    assert row["candidate"] == pytest.approx(spearmanr(noisy[:, 0], similar).statistic)
    assert row["others"]["pearson"]["candidate"] == pytest.approx(np.corrcoef(noisy[:, 0], similar)[0, 1])

    error = run_program("programs/similarity.py", {**data, "score": first}, **given)["error"]
    assert error["slug"] == "labels-mismatch"


def test_the_rank_of_equal_numbers_is_their_mean(blocks):
    rank = programs.load_program("programs/similarity.py").rank
    np.testing.assert_array_equal(rank(np.array([3.0, 1.0, 3.0, 2.0])), [3.5, 1, 3.5, 2])
