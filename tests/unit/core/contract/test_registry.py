from __future__ import annotations

from pathlib import Path

import pytest
from proof import SOURCE_DIGEST, SOURCE_URI, prove

from kedro_hone.core.contract.registry import VersionInfo, explain_unknown, make_tags
from kedro_hone.core.values.artifact import Artifact


def make_winner(folder: Path):
    return prove(folder, Artifact(format="onnx", digest="sha256:3", inputs=(), outputs=()), "7")


def test_tags_say_what_was_proved(tmp_path):
    assert make_tags(make_winner(tmp_path), recipe="sha256:2", speedup=2.34567, data={"gate": "md5"}) == {
        "hone.source": SOURCE_URI,
        "hone.source_digest": SOURCE_DIGEST,
        "hone.digest": "sha256:3",
        "hone.recipe": "sha256:2",
        "hone.run": "7",
        "hone.verdict": "PASS",
        "hone.speedup": "2.346",
        "hone.data.gate": "md5",
    }
    assert "hone.speedup" not in make_tags(make_winner(tmp_path), recipe="sha256:2")


def test_a_version_with_our_tags_is_optimized_and_no_other(tmp_path):
    version = VersionInfo(uri="models:/digits/4", name="digits", version="4", tags={"hone.note": "mine"})
    assert not version.is_optimized
    tags = make_tags(make_winner(tmp_path), recipe="sha256:2")
    assert version.model_copy(update={"tags": tags}).is_optimized


@pytest.mark.parametrize(
    ("known", "why", "hint"),
    [
        (["digits", "words"], "There are the models digits, words.", "Did you mean 'digits'?"),
        (["words"], "There are the models words.", "Choose one of these."),
        ([], "There are no models.", "Register one first."),
    ],
)
def test_an_unknown_name_is_explained_by_those_that_there_are(known, why, hint):
    error = explain_unknown("model-unknown", "There is no digit.", "digit", known, "models")
    assert (error.slug, error.why, error.hint) == ("model-unknown", why, hint)
