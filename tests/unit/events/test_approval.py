from __future__ import annotations

import json

import pytest

from hone_runtime.contract.registry import NewVersions, VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.signing.sign import Signer
from kedro_hone.events import approval
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


@pytest.mark.attack(
    what="evidence that names another image, or another place for its tag, than the project that approves",
    who="registry",
    stopped_by="the tag is written only at the places in the project's recipes and rules, and only for a digest",
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
    approval.approve_winner("models:/digits/2", project=tmp_path, pushes={"honed": [push] if push else []})
    assert found == ([(DIGEST, push, [("models:/digits/2", "honed")])] if tagged else [])
    assert ("does not get the tag" in caplog.text) is (bool(push) and not tagged)


def test_of_several_recipes_the_one_with_the_alias_and_the_place_counts(registry, monkeypatch, tmp_path, caplog):
    place, found = PUSH.rpartition(":")[0], []
    form = {"form": "image", "digest": DIGEST, "place": place}
    monkeypatch.setattr(tagging, "check_published", lambda _, folder, *__: write_evidence(folder, forms=[form]))
    monkeypatch.setattr(tagging, "tag", lambda *given: found.append(given))
    pushes = {"honed": ["localhost:5000/other:1", PUSH], "candidate": [f"{place}:candidate"]}
    approval.approve_winner("models:/digits/2", project=tmp_path, pushes=pushes)
    assert found == [(DIGEST, PUSH)]
    assert not caplog.text


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
