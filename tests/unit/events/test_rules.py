from __future__ import annotations

import pytest

from kedro_hone.core.errors import HoneError
from kedro_hone.events.event import Event, Kind
from kedro_hone.events.rules import read_rules


def make_event(name="fraud-card", kind=Kind.VERSION_CREATED, key="", uri="models:/fraud-card/1"):
    return Event(kind=kind, uri=uri, name=name, key=key, delivery="d")


def rule(**changes):
    return {"name": "fraud", "models": "fraud-*", "events": ["version_created", "alias_set:candidate"], **changes}


@pytest.mark.parametrize(
    ("event", "takes"),
    [
        (make_event(), True),
        (make_event(name="spam"), False),
        (make_event(kind=Kind.ALIAS_SET, key="candidate"), True),
        (make_event(kind=Kind.ALIAS_SET, key="honed"), False),
        (make_event(kind=Kind.TAG_SET, key="candidate"), False),
        (make_event(uri="hf://fraud-card@0"), False),
    ],
)
def test_a_rule_takes_its_models_and_events(event, takes):
    assert bool(read_rules({"rules": [rule()]}).find(event)) is takes


def test_repositories_of_the_hub_are_named_as_such():
    rules = read_rules({"rules": [rule(models="hf://org/*")]})
    assert rules.find(make_event(name="org/clf", uri="hf://org/clf@0"))
    assert not rules.find(make_event(name="org/clf", uri="models:/org/1"))


def test_an_event_without_its_key_is_any():
    rules = read_rules({"rules": [rule(events=["alias_set"])]})
    assert rules.find(make_event(kind=Kind.ALIAS_SET, key="anything"))


def test_the_first_that_takes_it_counts():
    rules = read_rules({"rules": [rule(models="fraud-card", name="card"), rule()]})
    assert rules.find(make_event()).name == "card"
    assert rules.find(make_event(name="fraud-loan")).name == "fraud"
    assert rules.list_hidden() == []


def test_a_rule_that_never_counts_is_told():
    rules = read_rules({"rules": [rule(), rule(name="late", models="fraud-c*", events=["version_created"])]})
    (said,) = rules.list_hidden()
    assert "'late' never counts" in said


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rules": []},
        {"rules": [rule(), rule()]},
        {"rules": [rule(events=["version_deleted"])]},
        {"rules": [rule(events=["alias_set:"])]},
        {"rules": [rule(events=[])]},
        {"rules": [rule(colour="red")]},
        {"rules": [rule()], "secret": "x"},
    ],
)
def test_rules_that_cannot_be_used_are_an_error(settings):
    with pytest.raises(HoneError) as raised:
        read_rules(settings)
    assert raised.value.slug == "rules-invalid"


def test_what_a_run_is_told_changes_the_digest():
    one, other = (read_rules({"rules": [rule(recipe=told)]}).rules[0] for told in ({}, {"threads": 1}))
    assert one.digest != other.digest
