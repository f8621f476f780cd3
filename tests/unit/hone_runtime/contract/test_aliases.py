from __future__ import annotations

import pytest

from hone_runtime.contract.aliases import approve
from hone_runtime.contract.registry import NewVersions, Registry, VersionInfo
from hone_runtime.errors import HoneError

WAITS = {"hone.source": "models:/digits/1", "hone.awaits": "honed"}


class Fixed(Registry):
    """A registry of one version."""

    def __init__(self, tags, aliases=()):
        self.moved = []
        self._info = VersionInfo(uri="models:/digits/2", name="digits", version="2", tags=tags, aliases=aliases)

    def resolve(self, _):
        return self._info

    def pull(self, *_):
        raise NotImplementedError

    publish = pull

    def move_alias(self, uri, alias):
        self.moved.append((uri, alias))


def test_a_winner_that_waits_gets_its_alias():
    registry = Fixed(WAITS)
    done = approve(registry, "models:/digits@newest")
    assert (done.uri, done.alias) == ("models:/digits/2", "honed")
    assert registry.moved == [("models:/digits/2", "honed")]


class Ordered(Fixed):
    """A registry of three versions, the last of which has the alias."""

    order = ("1", "2", "3")

    def versions_since(self, _):
        infos = (VersionInfo(uri=f"models:/digits/{one}", name="digits", version=one) for one in self.order)
        return NewVersions(tuple(infos), "end")

    def list_aliases(self, _):
        return {"honed": "3"}


def test_what_is_older_than_what_the_alias_points_to_is_not_approved():
    registry = Ordered(WAITS)
    with pytest.raises(HoneError, match="older than what 'honed' points to") as raised:
        approve(registry, "models:/digits/2")
    assert raised.value.slug == "approval-outdated"
    assert registry.moved == []


@pytest.mark.parametrize("order", [("3", "2"), ("2",), ()])
def test_what_is_newer_or_not_known_is_approved(order):
    registry = Ordered(WAITS)
    registry.order = order
    assert approve(registry, "models:/digits/2").alias == "honed"
    assert registry.moved


def test_approved_twice_is_as_good_as_once():
    registry = Fixed(WAITS, aliases=("honed",))
    assert approve(registry, "models:/digits/2").alias == "honed"
    assert registry.moved == []


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({}, "it is not a winner"),
        ({"hone.awaits": "honed"}, "it is not a winner"),
        ({"hone.source": "models:/digits/1"}, "no approval was requested"),
    ],
)
def test_what_waits_for_nothing_is_told(tags, why):
    with pytest.raises(HoneError) as raised:
        approve(Fixed(tags), "models:/digits/2")
    assert raised.value.slug == "approval-unneeded"
    assert why in raised.value.why


def test_a_registry_without_aliases_has_nothing_to_move():
    class Plain(Fixed):
        move_alias = Registry.move_alias

    with pytest.raises(HoneError, match="has no aliases") as raised:
        approve(Plain(WAITS), "models:/digits/2")
    assert raised.value.slug == "registry-refused"
