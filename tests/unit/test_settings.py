"""What a project of others takes of kedro-hone's settings."""

from __future__ import annotations

from kedro_hone import settings
from kedro_hone.settings import HOOKS, merge_into


def test_all_names_leave_the_configuration_to_the_project():
    theirs = {}
    exec("CONFIG_LOADER_ARGS = 'theirs'\nfrom kedro_hone.settings import *", theirs)  # noqa: S102 - a name below a function cannot be
    assert theirs["CONFIG_LOADER_ARGS"] == "theirs"
    assert theirs["HOOKS"] is HOOKS
    assert "merge_into" not in theirs


def test_hooks_and_disabled_plugins_are_joined():
    theirs = {"HOOKS": ("mine",), "DISABLE_HOOKS_FOR_PLUGINS": ("kedro-viz", "kedro_mlflow"), "CONF_SOURCE": "there"}
    for _ in range(2):
        merge_into(theirs)
    assert theirs == {
        "HOOKS": (*HOOKS, "mine"),
        "DISABLE_HOOKS_FOR_PLUGINS": ("kedro-viz", "kedro_mlflow"),
        "CONF_SOURCE": "there",
    }


def test_without_hooks_of_its_own_a_project_gets_ours():
    theirs = {}
    merge_into(theirs)
    assert theirs["HOOKS"] == settings.HOOKS
    assert theirs["DISABLE_HOOKS_FOR_PLUGINS"] == ("kedro_mlflow",)
