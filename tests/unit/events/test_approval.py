from __future__ import annotations

import pytest

from hone_runtime.contract.registry import NewVersions, VersionInfo
from hone_runtime.errors import HoneError
from hone_runtime.signing.sign import Signer
from kedro_hone.events import approval


class Fixed:
    """A registry of one winner, which waits for the alias ``honed``."""

    def __init__(self) -> None:
        self.moved, self.awaited = [], "honed"

    def resolve(self, uri):
        tags = {"hone.source": "models:/digits/1", "hone.awaits": self.awaited}
        return VersionInfo(uri=uri, name="digits", version="2", tags=tags)

    def move_alias(self, uri, alias):
        self.moved.append((uri, alias))

    def list_aliases(self, _):
        return {}

    def versions_since(self, _):
        return NewVersions((), "")


@pytest.fixture
def registry(monkeypatch):
    fixed = Fixed()
    monkeypatch.setattr(approval, "find_registry", lambda *_, **__: fixed)
    monkeypatch.setattr(approval, "find_signer", lambda: None)
    return fixed


@pytest.fixture
def checked(monkeypatch):
    """By which policies versions were checked."""
    policies = []
    monkeypatch.setattr(approval, "check_published", lambda *given: policies.append(given[-1]))
    return policies


@pytest.mark.parametrize("alias", ["", "honed"])
def test_a_checked_winner_gets_its_alias(registry, checked, tmp_path, alias):
    assert approval.approve_winner("models:/digits/2", project=tmp_path, alias=alias).alias == "honed"
    assert checked == [None]
    assert registry.moved == [("models:/digits/2", "honed")]


def test_an_alias_that_was_changed_after_somebody_approved_another_is_not_moved(registry, checked, tmp_path):
    with pytest.raises(HoneError, match="a different alias") as raised:
        approval.approve_winner("models:/digits/2", project=tmp_path, alias="candidate")
    assert raised.value.slug == "approval-outdated"
    assert not registry.moved
    assert not checked


def test_a_tag_that_is_changed_while_the_version_is_checked_moves_nothing(registry, monkeypatch, tmp_path):
    def change(*_):
        registry.awaited = "production"

    monkeypatch.setattr(approval, "check_published", change)
    with pytest.raises(HoneError, match="a different alias"):
        approval.approve_winner("models:/digits/2", project=tmp_path)
    assert not registry.moved


def test_the_key_of_this_machine_must_have_signed_it(registry, checked, monkeypatch, tmp_path):
    monkeypatch.setattr(approval, "find_signer", lambda: Signer(public="a key"))
    approval.approve_winner("models:/digits/2", project=tmp_path)
    assert [policy.keys for policy in checked] == [("a key",)]


def test_where_sigstore_signs_an_approval_is_refused(registry, checked, monkeypatch, tmp_path):
    monkeypatch.setattr(approval, "find_signer", Signer)
    with pytest.raises(HoneError) as raised:
        approval.approve_winner("models:/digits/2", project=tmp_path)
    assert raised.value.slug == "signing-unusable"
    assert not registry.moved
