from __future__ import annotations

import json

import pytest
from proof import SOURCE_DIGEST, SOURCE_URI, write_evidence

from hone_runtime.contract.proof import EVIDENCE, EVIDENCE_FILES, EvidenceFolder, ProvenWinner
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Artifact
from hone_runtime.values.digest import digest_tree

WINNER = Artifact(format="toy", digest="sha256:7", inputs=(), outputs=())


def make(folder, evidence, **changes):
    known = {"artifact": WINNER, "files": folder, "source_uri": SOURCE_URI, "source_digest": SOURCE_DIGEST}
    return ProvenWinner(**known | changes, evidence=evidence, folder=folder)


def catch(folder, evidence, **changes):
    with pytest.raises(HoneError) as caught:
        make(folder, evidence, **changes)
    assert caught.value.slug == "evidence-incomplete"
    return caught.value.why


def rewrite(folder, **changes):
    """Change the evidence, and record the change: only what it says can be wrong then."""
    claim = json.loads((folder / EVIDENCE).read_text()) | changes
    (folder / EVIDENCE).write_text(json.dumps({name: value for name, value in claim.items() if value is not ...}))
    return EvidenceFolder.read("1", folder, decision="sha256:d")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def evidence(folder):
    return write_evidence(folder, WINNER)


def test_a_winner_with_its_evidence_is_proven_and_its_copy_is_the_same(folder, evidence, tmp_path):
    make(folder, evidence).copy_evidence(tmp_path / "copy")
    assert EvidenceFolder.read("1", tmp_path / "copy", decision="sha256:d") == evidence


@pytest.mark.attack(
    what="a report in the evidence that was altered",
    who="store",
    stopped_by="every file of the evidence is compared with its digest",
)
@pytest.mark.parametrize("name", EVIDENCE_FILES)
def test_a_file_that_is_missing_altered_or_not_recorded_proves_nothing(folder, evidence, name):
    unrecorded = {known: digest for known, digest in evidence.files.items() if known != name}
    assert name in catch(folder, evidence.model_copy(update={"files": unrecorded}))
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content + b" ")
    assert f"{name} is not the file" in catch(folder, evidence)
    (folder / name).unlink()
    assert f"{name} is missing" in catch(folder, evidence)


@pytest.mark.attack(
    what="evidence of another verdict, run or winner",
    who="store",
    stopped_by="evidence has to name the run, the source and the winner",
)
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verdict": "KEEP"}, "verdict is KEEP"),
        ({"verdict": "MAYBE"}, "verdict"),
        ({"schema": "kedro-hone/evidence/99"}, "schema"),
        ({"source": ...}, "source"),
        ({"winner": None}, "winner digest is None"),
        ({"run_id": "2"}, "run_id is 2"),
    ],
)
def test_evidence_that_says_something_else_proves_nothing(folder, evidence, changes, why):
    assert why in catch(folder, rewrite(folder, **changes))


def test_what_is_no_evidence_proves_nothing(folder, evidence):
    (folder / EVIDENCE).write_text("{")
    assert "is not valid evidence" in catch(folder, EvidenceFolder.read("1", folder, decision="sha256:d"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"artifact": WINNER.model_copy(update={"digest": "sha256:8"})}, "winner digest is sha256:7"),
        ({"source_uri": "models:/digits/2"}, "source uri is models:/digits/1"),
        ({"source_digest": "sha256:2"}, "source digest is sha256:1"),
    ],
)
def test_another_winner_or_source_is_not_proven(folder, evidence, changes, why):
    assert why in catch(folder, evidence, **changes)


@pytest.mark.attack(
    what="a form of the winner, such as a folder for a server, that was altered after the evidence",
    who="store",
    stopped_by="the evidence contains the digest of each form's folder",
)
def test_forms_of_a_winner_are_those_in_the_evidence(folder, evidence, tmp_path):
    form = tmp_path / "triton"
    form.mkdir()
    (form / "config.pbtxt").write_text("name: 'digits'")
    assert "absent" not in catch(folder, evidence, forms={"triton": form})
    listed = [
        {"form": "triton", "digest": digest_tree(form)},
        {"form": "image", "digest": "sha256:1"},
        {"form": "ovms", "digest": "", "reason": "it does not fit"},
    ]
    proven = rewrite(folder, forms=listed)
    make(folder, proven, forms={"triton": form})
    assert "absent" in catch(folder, proven)
    (form / "config.pbtxt").write_text("name: 'other'")
    assert "other forms" in catch(folder, proven, forms={"triton": form})


@pytest.mark.parametrize("listed", [3, "x", ["x"], [None], [{"form": [], "digest": {}}], [[[[]]]]])
def test_forms_that_are_none_prove_nothing(folder, evidence, listed):
    assert "other forms" in catch(folder, rewrite(folder, forms=listed))
