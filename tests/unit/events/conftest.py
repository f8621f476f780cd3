from __future__ import annotations

import pytest
from deliveries import RULES, SECRETS

from hone_runtime.text import clean_text
from kedro_hone.events.service import Service
from kedro_hone.events.settings import Secrets, read_settings


@pytest.fixture
def open_service(tmp_path):
    """Make services of one project, whose jobs nobody starts."""
    made = []

    def open_(*, secrets=None, **changes):
        given = {"rules": RULES, "secrets": {"github": "GITHUB_TOKEN"}, "sweep": None, **changes}
        settings = read_settings(given)
        service = Service(
            settings,
            Secrets.model_validate(SECRETS if secrets is None else secrets),
            project=tmp_path,
            hardware="this machine",
            recipes=lambda: {rule.name: "a recipe" for rule in settings.rules},
        )
        made.append(service)
        return service

    yield open_
    for service in made:
        service.close()


@pytest.fixture
def service(open_service):
    return open_service()


@pytest.fixture
def lines(caplog):
    """What was logged, as a service writes it."""
    caplog.set_level("INFO", logger="kedro_hone.events")
    return lambda: [clean_text(record.getMessage()) for record in caplog.records]
