"""Adds to the new project what `kedro hone init` adds to an old one."""

from pathlib import Path

from kedro_hone.scaffold.changes import apply_changes
from kedro_hone.scaffold.project import Addition, plan_changes

apply_changes(plan_changes(Path.cwd(), Addition()))
