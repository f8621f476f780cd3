"""The programs of docs/how-to/write-a-program.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kedro_hone import programs

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-program.md"


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    names = ("programs/toxicity.py", "programs/screens/__init__.py", "metrics/mine.py", "trial.py")
    texts = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", __import__("sys").path.copy())
    return tmp_path


def test_the_trial_runs(blocks):
    exec(compile((blocks / "trial.py").read_text(), "trial.py", "exec"), {})  # noqa: S102 - our own page


def test_the_program_runs_in_the_worker(blocks, worker, make_job, save):
    inputs = [
        {"name": "input_ids", "dtype": "int64", "shape": ["batch", "length"]},
        {"name": "attention_mask", "dtype": "int64", "shape": ["batch", "length"]},
    ]
    tokens = np.arange(60).reshape(3, 20)
    good, bad = save("good.npz", tokens=tokens, toxic=[0, 1, 1]), save("bad.npz", tokens=tokens, toxic=[0, 1, 2])
    job = make_job("programs/toxicity.py", inputs=inputs, splits={"search": {"path": good}})
    assert worker.read(job)["splits"]["search"]["n"] == 3
    job["options"]["splits"]["search"]["path"] = bad
    assert worker.read(job)["error"]["slug"] == "labels-mismatch"

    source, worse = save("s.npz", probability=[[0.1], [0.9], [0.9]]), save("w.npz", probability=[[0.1], [0.2], [0.9]])
    files = {"source": source, "candidates": {"worse": worse}, "targets": f"{job['output']}/search/targets.npz"}
    row = worker.evaluate(make_job("programs/toxicity.py", **files))["candidates"]["worse"]
    assert (row["metric"], row["source"], row["lost"]) == ("hit_rate", 1.0, 1)


def test_the_package_that_builds_on_a_built_in_program_runs_in_the_worker(blocks, worker, make_job, save):
    images = save("a.npz", images=np.arange(72.0).reshape(3, 6, 4), labels=[0, 1, 2])
    job = make_job("programs/screens", splits={"search": {"path": images}})
    assert worker.read(job)["splits"]["search"]["n"] == 3
    with np.load(f"{job['output']}/search/feeds.npz") as feeds:
        np.testing.assert_array_equal(feeds["x"][0, 0, 0], [8, 9, 10, 11])
    job["options"]["program_options"] = {"bar": 6}
    assert worker.read(job)["error"]["slug"] == "data-unreadable"

    logits = save("s.npz", logits=np.eye(3))
    files = {"source": logits, "candidates": {"same": logits}, "targets": f"{job['output']}/search/targets.npz"}
    row = worker.evaluate(make_job("programs/screens", **files))["candidates"]["same"]
    assert (row["metric"], row["source"]) == ("accuracy", 1.0)


def test_the_page_names_the_shared_parts():
    listed = re.findall(
        r"^\| `(\w+)` \| ", PAGE.read_text().partition("module of `hone_programs.shared`")[2], re.MULTILINE
    )
    shared = {path.stem for path in (programs.LIBRARY / "shared").glob("*.py")} - {"__init__"}
    assert set(listed) & shared == shared


def test_the_metric_runs_in_the_worker(blocks, worker, make_job, save):
    logits = np.eye(3)[[0, 1, 2, 2]]
    files = {
        "source": save("s.npz", logits=logits),
        "candidates": {"same": save("c.npz", logits=logits)},
        "targets": save("t.npz", target=[0, 1, 2, 1]),
        "metric": "metrics/mine.py:worst_class_error",
    }
    row = worker.evaluate(make_job("image-classification", **files))["candidates"]["same"]
    assert (row["metric"], row["higher_is_better"], row["source"]) == ("worst_class_error", False, 0.5)
