from __future__ import annotations

import json

import pytest

from hone_runtime.contract.registry import NewVersions, VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.signing.sign import Signer
from kedro_hone.events import approval
from kedro_hone.events.approval import ImagePlace
from kedro_hone.serving import tagging


class Fixed:
    """A registry of one winner, which waits for the alias ``honed``."""

    def __init__(self) -> None:
        self.moved, self.awaited, self.aliases = [], "honed", {}

    def resolve(self, uri):
        tags = {"hone.source": "models:/digits/1", "hone.awaits": self.awaited}
        return VersionInfo(uri=uri, name="digits", version="2", tags=tags)

    def move_alias(self, uri, alias):
        self.moved.append((uri, alias))
        self.aliases[alias] = uri.rpartition("/")[2]

    def list_aliases(self, _):
        return {**self.aliases}

    def versions_since(self, _):
        return NewVersions((), "")


def write_evidence(folder, **claim):
    (folder / "evidence").mkdir(parents=True)
    (folder / "evidence" / "evidence.json").write_text(json.dumps(claim))


@pytest.fixture
def registry(monkeypatch, tmp_path):
    fixed = Fixed()
    monkeypatch.setattr(approval, "find_registry", lambda *_, **__: fixed)
    monkeypatch.setattr(tagging, "find_signer", lambda: None)
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return fixed


@pytest.fixture
def checked(monkeypatch):
    """By which policies versions were checked."""
    policies = []

    def check(_uri, folder, _registry, policy):
        policies.append(policy)
        write_evidence(folder)

    monkeypatch.setattr(tagging, "check_published", check)
    return policies


@pytest.mark.parametrize("alias", ["", "honed"])
def test_a_checked_winner_gets_its_alias(registry, checked, tmp_path, alias):
    assert approval.approve_winner("models:/digits/2", project=tmp_path, alias=alias).alias == "honed"
    assert checked == [None]
    assert registry.moved == [("models:/digits/2", "honed")]


PUSH = "registry.example.org/team/digits:latest"
DIGEST = f"sha256:{'2' * 64}"


def make_place(push):
    return ImagePlace(push=push, alias="honed", models="digits")


@pytest.mark.attack(
    what="evidence that names another image, or another place for its tag, than the project that approves",
    who="registry",
    stopped_by="the tag is written only where a recipe of the project for this model and alias pushes, for a digest",
)
@pytest.mark.parametrize(
    ("form", "push", "tagged"),
    [
        ({"form": "image", "digest": DIGEST, "place": "registry.example.org/team/digits"}, PUSH, True),
        ({"form": "image", "digest": DIGEST, "place": "localhost:5000/digits"}, "localhost:5000/digits", True),
        ({"form": "image", "digest": DIGEST, "place": "registry.example.org/someone/else"}, PUSH, False),
        ({"form": "image", "digest": "latest", "place": "registry.example.org/team/digits"}, PUSH, False),
        ({"form": "image", "digest": "../../x", "place": "registry.example.org/team/digits"}, PUSH, False),
        ({"form": "triton", "digest": DIGEST, "place": "registry.example.org/team/digits"}, PUSH, False),
        ({"form": "image", "digest": DIGEST, "place": "registry.example.org/team/digits"}, "", False),
    ],
)
def test_the_image_of_an_approved_winner_gets_its_tag(registry, monkeypatch, tmp_path, caplog, *, form, push, tagged):
    found = []
    monkeypatch.setattr(tagging, "check_published", lambda _, folder, *__: write_evidence(folder, forms=[form]))
    monkeypatch.setattr(tagging, "tag", lambda *given: found.append((*given, [*registry.moved])))
    approval.approve_winner("models:/digits/2", project=tmp_path, places=[make_place(push)] if push else [])
    assert found == ([(DIGEST, push, [("models:/digits/2", "honed")])] if tagged else [])
    assert ("does not get the tag" in caplog.text) is (bool(push) and not tagged)


@pytest.fixture
def tagged(registry, monkeypatch):
    """The digests and tags that are written; the evidence lists an image at two places."""
    places = (PUSH.rpartition(":")[0], "localhost:5000/digits")
    forms = [{"form": "image", "digest": DIGEST, "place": place} for place in places]
    monkeypatch.setattr(tagging, "check_published", lambda _, folder, *__: write_evidence(folder, forms=forms))
    found = []
    monkeypatch.setattr(tagging, "tag", lambda *given: found.append(given))
    return found


@pytest.mark.attack(
    what="evidence of a model that names the place of another model's image",
    who="registry",
    stopped_by="of several recipes only those for the approved model count",
)
@pytest.mark.parametrize(
    ("models", "alias", "counts"),
    [
        ("digits", "honed", True),
        ("dig*", "honed", True),
        ("dig* after fraud", "honed", True),
        ("dig* after digits", "honed", False),
        ("fraud", "honed", False),
        ("hf://org/digits", "honed", False),
        ("digits", "candidate", False),
    ],
)
def test_only_a_recipe_for_the_model_and_the_alias_counts(tagged, tmp_path, models, alias, counts):
    models, *others = models.split(" after ")
    place = ImagePlace(push="localhost:5000/digits:1", alias=alias, models=models, others=tuple(others))
    approval.approve_winner("models:/digits/2", project=tmp_path, places=[make_place(PUSH), place])
    assert tagged == [(DIGEST, PUSH), *([(DIGEST, place.push)] if counts else [])]


@pytest.mark.parametrize("failing", [1, 2])
def test_if_a_tag_cannot_be_written_the_others_are(registry, tagged, monkeypatch, tmp_path, failing):
    def fail(*given):
        tagged.append(given)
        if len(tagged) <= failing:
            what = f"The place {len(tagged)} is full."
            raise HoneError("image-push-failed", what, why="No space.", hint="Remove images.")

    monkeypatch.setattr(tagging, "tag", fail)
    places = [make_place(PUSH), make_place("localhost:5000/digits:1")]
    with pytest.raises(HoneError) as raised:
        approval.approve_winner("models:/digits/2", project=tmp_path, places=places)
    assert raised.value.what == " ".join(f"The place {one} is full." for one in range(1, failing + 1))
    assert raised.value.why == "No space."
    assert [push for _, push in tagged] == [one.push for one in places]
    assert registry.moved


def test_an_alias_that_was_changed_after_somebody_approved_another_is_not_moved(registry, checked, tmp_path):
    with pytest.raises(HoneError, match="a different alias") as raised:
        approval.approve_winner("models:/digits/2", project=tmp_path, alias="candidate")
    assert raised.value.slug == "approval-outdated"
    assert not registry.moved
    assert not checked


def test_a_tag_that_is_changed_while_the_version_is_checked_moves_nothing(registry, monkeypatch, tmp_path):
    def change(_uri, folder, *_):
        registry.awaited = "production"
        write_evidence(folder)

    monkeypatch.setattr(tagging, "check_published", change)
    with pytest.raises(HoneError, match="a different alias"):
        approval.approve_winner("models:/digits/2", project=tmp_path)
    assert not registry.moved


def test_the_key_of_this_machine_must_have_signed_it(registry, checked, monkeypatch, tmp_path):
    monkeypatch.setattr(tagging, "find_signer", lambda: Signer(public="a key"))
    approval.approve_winner("models:/digits/2", project=tmp_path)
    assert [policy.keys for policy in checked] == [("a key",)]


def test_where_sigstore_signs_an_approval_is_refused(registry, checked, monkeypatch, tmp_path):
    monkeypatch.setattr(tagging, "find_signer", Signer)
    with pytest.raises(HoneError) as raised:
        approval.approve_winner("models:/digits/2", project=tmp_path)
    assert raised.value.slug == "signing-unusable"
    assert not registry.moved
