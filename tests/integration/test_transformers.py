"""Models of Transformers, from a folder to candidates that return what the author's class returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_project import ROWS, Project, copy_project
from tiny_transformers import VOCABULARY, write_models

from kedro_hone.core.values.artifact import Artifact
from kedro_hone.core.values.outcome import OUTCOME

pytestmark = [pytest.mark.toolchain, pytest.mark.slow]

LENGTH = 24
OFF = ("pytorch.compile", "pytorch.compile-exported", "pytorch.aoti", "pytorch.aoti-bf16", "pytorch.pt2e-int8")
COMPRESSORS = ("onnxruntime.int8-dynamic", "onnxruntime.int8-static", "onnxruntime.int4-weights")
NNCF = ("openvino.int8-ptq", "openvino.int8-accuracy-control", "openvino.int8-weights", "openvino.int4-weights")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return write_models(tmp_path_factory.mktemp("tiny"), "classifier")


def write_rows(project: Project, **rows: int) -> None:
    """Write splits of tokens, each row with its own number of them; the rest of it is masked."""
    for path in project.splits.glob("*.npz"):
        path.unlink()
    draw = np.random.default_rng(3)
    for name, count in (ROWS | rows).items():
        mask = (np.arange(LENGTH) < draw.integers(3, LENGTH + 1, size=(count, 1))).astype(np.int64)
        tokens = draw.integers(5, VOCABULARY, size=(count, LENGTH)) * mask
        types = (np.arange(LENGTH) >= draw.integers(1, LENGTH, size=(count, 1))).astype(np.int64) * mask
        np.savez(project.splits / f"{name}.npz", input_ids=tokens, attention_mask=mask, token_type_ids=types)
    project.track(tag="v2")


def make_project(template: Path, folder: Path, model: Path, **sections: Any) -> Project:
    """Return a project whose source is a folder of Transformers, and whose data are tokens."""
    project = copy_project(template, folder)
    write_rows(project)
    catalog = project.root / "conf" / "base" / "catalog.yml"
    catalog.write_text(catalog.read_text().replace("rev: v1}", "rev: v2}"))
    project.set(
        model={"uri": str(model)},
        toolchains=["pytorch", "onnxruntime", "openvino"],
        adaptors={name: {"enabled": False} for name in (*OFF, *COMPRESSORS, *NNCF, "openvino.bf16")},
        shapes={"short": {"batch": 1, "length": 8}, "long": {"batch": 8, "length": LENGTH}},
        **sections,
    )
    return project


def test_a_folder_becomes_candidates_that_agree_with_the_authors_class(template, tiny, tmp_path):
    project = make_project(template, tmp_path, tiny / "classifier", program={"options": {"compare": "l2"}})

    done = project.run("--to-nodes", "race")

    outcomes = {name: OUTCOME.validate_python(one) for name, one in project.read_outcomes().items()}
    built = {name: one for name, one in outcomes.items() if isinstance(one, Artifact) and one.runtime}
    assert {"onnxruntime", "openvino", "pytorch"} <= {one.runtime for one in built.values()}, done.output
    assert all(one.metadata["transformers"]["class"] == "BertForSequenceClassification" for one in built.values())
