from __future__ import annotations

import pytest

from hone_runtime.errors import HoneError
from kedro_hone.events.event import Event, Kind
from kedro_hone.events.job import HandOver, Optimize
from kedro_hone.events.rules import find_rule, list_hidden, list_unmatched, list_unreachable
from kedro_hone.events.settings import SecretsSection, read_secrets, read_settings


def make_event(name="fraud-card", kind=Kind.VERSION_CREATED, key="", uri="models:/fraud-card/1"):
    return Event(kind=kind, uri=uri, name=name, key=key, delivery="d")


EVENTS = "version_created, alias_set:ALIAS or tag_set:TAG"


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
    assert bool(find_rule(read_settings({"rules": [rule()]}).rules, event)) is takes


def test_repositories_of_the_hub_are_named_as_such():
    rules = read_settings({"rules": [rule(models="hf://org/*")]})
    assert find_rule(rules.rules, make_event(name="org/clf", uri="hf://org/clf@0"))
    assert not find_rule(rules.rules, make_event(name="org/clf", uri="models:/org/1"))


def test_a_pattern_for_all_models_takes_no_repositories_of_the_hub():
    rules = read_settings({"rules": [rule(models="*"), rule(models="hf://*", name="hub")]}).rules
    assert find_rule(rules, make_event(name="org/clf", uri="hf://org/clf@0")).name == "hub"
    assert find_rule(rules, make_event()).name == "fraud"
    assert list_hidden(rules) == []
    assert not find_rule(rules[:1], make_event(name="org/clf", uri="hf://org/clf@0"))


def test_an_event_without_its_key_is_any():
    rules = read_settings({"rules": [rule(events=["alias_set"])]})
    assert find_rule(rules.rules, make_event(kind=Kind.ALIAS_SET, key="anything"))


def test_the_first_that_takes_it_counts():
    rules = read_settings({"rules": [rule(models="fraud-card", name="card"), rule()]})
    assert find_rule(rules.rules, make_event()).name == "card"
    assert find_rule(rules.rules, make_event(name="fraud-loan")).name == "fraud"
    assert list_hidden(rules.rules) == []


@pytest.mark.parametrize(
    ("earlier", "later", "hidden"),
    [
        ("fraud-*", "fraud-[ab]", True),
        ("fraud-[ab]", "fraud-a", True),
        ("fraud-[ab]", "fraud-[ab]", True),
        ("fraud-?", "fraud-*", False),
        ("fraud-[*]", "fraud-*", False),
        ("*-card", "fraud-*", False),
        ("*", "hf://*", False),
    ],
)
def test_a_pattern_takes_all_of_another(earlier, later, hidden):
    rules = read_settings({"rules": [rule(models=earlier), rule(name="late", models=later)]}).rules
    assert bool(list_hidden(rules)) is hidden


def test_a_rule_that_never_counts_is_told():
    rules = read_settings({"rules": [rule(), rule(name="late", models="fraud-c*", events=["version_created"])]})
    (said,) = list_hidden(rules.rules)
    assert "'late' never applies" in said


def test_rules_for_a_registry_that_name_nothing_in_it():
    hub = rule(name="hub", models="hf://org/*")
    rules = read_settings({"rules": [rule(), hub, rule(name="spam", models="spam")]}).rules
    assert list_unmatched(rules, "models:/", ["fraud-card"]) == ["spam"]
    assert list_unmatched(rules, "hf://", []) == ["hub"]
    assert list_unmatched(rules, "hf://", ["hf://org/clf"]) == []


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rules": []},
        {"rules": [rule(), rule()]},
        {"rules": [rule(events=["version_deleted"])]},
        {"rules": [rule(events=["alias_set:"])]},
        {"rules": [rule(events=["version_created:3"])]},
        {"rules": [rule(events=[])]},
        {"rules": [rule(colour="red")]},
        {"rules": [rule()], "secret": "x"},
        {"rules": [rule(device="cuda:0")]},
        {"rules": [rule(dispatch={"repository": "owner/name"})]},
        {"rules": [rule(dispatch={"repository": "../../user"})], "secrets": {"github": "TOKEN"}},
        {"rules": [rule()], "devices": {"cpu": 0}},
        {"rules": [rule()], "devices": {"cpu": 1, "none": 1}},
        {"rules": [rule()], "secrets": {"mlflow": "not a name"}},
        {"rules": [rule()], "secrets": {"mlflow": "MLFLOW_WEBHOOK_HMAC"}},  # no log would hide its value
        {"rules": [rule(name="renewal")]},
        {"rules": [rule()], "login": "proxy", "hosts": ["*"]},
    ],
)
def test_rules_that_cannot_be_used_are_an_error(settings):
    with pytest.raises(HoneError) as raised:
        read_settings(settings)
    assert raised.value.slug == "rules-invalid"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"rules": [{"name": "fraud"}]}, "rules.0.models: is missing."),
        ({"rules": []}, "rules: needs at least 1, and has 0."),
        ({"rules": [rule()], "swep": None}, "swep: unknown key, did you mean 'sweep'?"),
        ({"rules": [rule()], "sweep": {"evry": 60}}, "sweep.evry: unknown key, did you mean 'every'?"),
        ({"rules": [rule()], "secrets": {"mlfow": "A_TOKEN"}}, "secrets.mlfow: unknown key, did you mean 'mlflow'?"),
        ({"rules": [rule(modles="x")]}, "rules.0.modles: unknown key, did you mean 'models'?"),
        ({"rules": [rule(dispatch={})]}, "rules.0.dispatch.repository: is missing."),
        (  # and not that `repository` is missing
            {"rules": [rule(dispatch={"repositry": "a/b"})]},
            "rules.0.dispatch.repositry: unknown key, did you mean 'repository'?",
        ),
        (
            {"rules": [rule(dispatch={"repository": "a/b", "event": "x"})]},
            "rules.0.dispatch.event: unknown key, did you mean 'event_type'?",
        ),
        ({"rules": [rule()], "sweep": {"every": "soon"}}, "sweep.every: must be a number, and not 'soon'."),
        ({"rules": [rule()], "secrets": "what is secret"}, "secrets: must be keys with values."),
        ({"rules": [rule()], "secrets": {"token": 12345678}}, "secrets.token: must be text."),
        (
            {"rules": [rule(events=["x" * 99])]},
            f"rules.0.events.0: must be {EVENTS}, and not 'xxxxxxxxxxxx...xxxxxxxxxxxxx'.",
        ),
        (
            {"rules": [rule(events=["version_deleted"])]},
            f"rules.0.events.0: must be {EVENTS}, and not 'version_deleted'.",
        ),
    ],
)
def test_the_error_says_what_is_wrong_in_the_words_of_yaml(settings, why):
    with pytest.raises(HoneError) as raised:
        read_settings(settings)
    assert raised.value.why == why


@pytest.mark.parametrize(
    ("hub", "others", "unreachable"), [(True, True, []), (True, False, ["fraud"]), (False, True, ["hub"])]
)
def test_rules_of_which_nothing_can_tell(hub, others, unreachable):
    rules = read_settings({"rules": [rule(), rule(name="hub", models="hf://org/*")]}).rules
    said = list_unreachable(rules, hub=hub, others=others)
    assert [text.split("'")[1] for text in said] == unreachable


def test_a_rule_without_an_environment_has_that_of_the_service():
    settings = read_settings({"rules": [rule(), rule(name="other", env="text")]})
    assert [one.env for one in settings.place("prod").rules] == ["prod", "text"]
    assert settings.place(None) == settings


def test_the_task_of_a_rule():
    (one,) = read_settings({"rules": [rule(recipe={"threads": 1}, env="prod")]}).rules
    assert one.make_task() == Optimize(recipe={"threads": 1}, env="prod")
    handed = rule(dispatch={"repository": "owner/name"})
    (other,) = read_settings({"rules": [handed], "secrets": {"github": "TOKEN"}}).rules
    assert other.make_task(asked=True) == HandOver(repository="owner/name", event_type="model-version", asked=True)


def test_secrets_are_read_and_never_shown():
    secrets = read_secrets(SecretsSection(mlflow="ONE"), {"ONE": "a long enough secret"})
    assert (secrets.mlflow, secrets.token) == ("a long enough secret", "")
    assert "long enough" not in repr(secrets)


@pytest.mark.parametrize("value", [None, "", "   ", "short"])
def test_a_secret_that_is_none_is_an_error(value):
    with pytest.raises(HoneError) as raised:
        read_secrets(SecretsSection(token="ONE"), {} if value is None else {"ONE": value})  # noqa: S106 - a name
    assert raised.value.slug == "secret-missing"
    assert "ONE" in raised.value.why
    assert value is None or not value.strip() or value not in str(raised.value)
