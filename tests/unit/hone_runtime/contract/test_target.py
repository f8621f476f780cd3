"""Where a winner goes, by the recipe."""

from __future__ import annotations

import pytest

from hone_runtime.contract.registry import Registry
from hone_runtime.contract.target import check_proposals, find_target
from hone_runtime.errors import HoneError


@pytest.mark.parametrize(
    ("uri", "name", "kind"),
    [
        ("hf://owner/name", "owner/name", "HuggingFaceRegistry"),
        ("hf://owner/name@branch", "owner/name@branch", "HuggingFaceRegistry"),
        ("models:/digits", "digits", "MlflowRegistry"),
        ("models:///digits/", "digits", "MlflowRegistry"),
        ("models/digits", "models/digits", "LocalRegistry"),
        ("/srv/models/digits", "/srv/models/digits", "LocalRegistry"),
    ],
)
def test_a_uri_names_the_registry_and_the_model(uri, name, kind):
    target = find_target("hf://org/model", uri=uri, name=None)
    assert target.name == name
    assert type(target.registry).__name__ == kind
    assert isinstance(target.registry, Registry)
    assert not target.registry.find_problem(name=target.name, alias="honed")


@pytest.mark.parametrize("name", [None, "other"])
def test_without_one_it_is_the_sources_registry(name):
    target = find_target("models/digits", uri=None, name=name)
    assert target.name == name
    assert type(target.registry).__name__ == "LocalRegistry"


def test_two_names_are_one_too_many():
    with pytest.raises(HoneError, match="names two target models"):
        find_target("models/digits", uri="models:/a", name="b")


def test_only_the_hub_has_pull_requests():
    hub, local = (find_target(uri, uri=None, name=None).registry for uri in ("hf://org/model", "models/digits"))
    check_proposals(hub)
    with pytest.raises(HoneError, match="has no pull requests"):
        check_proposals(local)


def test_where_names_mean_one_thing_the_source_is_what_was_named():
    assert find_target("models/digits", uri=None, name=None).registry.find_source("models/digits") == "models/digits"
