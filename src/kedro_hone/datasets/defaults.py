"""The entries that a catalog gets without being written: the store, the run's folder, and the values between nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from kedro.io import AbstractDataset, CatalogProtocol

from hone_runtime.values.samples import CALIBRATION, GATE, SEARCH, TRAINING
from kedro_hone.datasets.errors import DataError

DEFAULTS: Final = Path(__file__).with_name("defaults.yml")
DATA: Final = frozenset({CALIBRATION, SEARCH, GATE, TRAINING})
"""The entries without a default: the user's data."""

_PLACEHOLDER: Final = re.compile(r"\{.*?\}")


def add_defaults(
    catalog: CatalogProtocol[Any, Any], names: Iterable[str], *, project: Path, version: str | None
) -> None:
    """Add an entry for each of some datasets that has a default and that the catalog lacks.

    Args:
        catalog: The catalog to extend.
        names: Datasets of kedro-hone's nodes.
        project: The project's root; the paths of the defaults count from there.
        version: The version that Kedro saves this run's datasets under; None outside of a run.
    """
    # Outside of a run the catalog makes a version itself, and refuses a dataset with another.
    version = version or getattr(catalog, "_save_version", None)
    known = {*catalog.keys()}
    for name in sorted({*names} - known - DATA):
        pattern, config = find_default(name)
        if config is not None and not _has_pattern(catalog, name, pattern):
            placed = {**config, "filepath": str(project / config["filepath"])}
            catalog[name] = AbstractDataset.from_config(name, placed, save_version=version)


def check_names(catalog: CatalogProtocol[Any, Any], names: Iterable[str]) -> None:
    """Refuse entries of the user that have the name of a default and cannot store its value.

    Datasets of ``kedro_datasets`` store tables, texts and the like; only pickles store any value. Other classes, such
    as the user's own, take precedence.

    Args:
        catalog: The catalog of a run, before the defaults are added.
        names: The datasets of kedro-hone's nodes.

    Raises:
        DataError: ``entry-name-taken``.
    """
    for name in sorted({*names} - DATA):
        if find_default(name)[1] is None or name not in catalog.keys():  # noqa: SIM118 - `in` also takes patterns
            continue
        kind = type(catalog[name])
        package, _, rest = kind.__module__.partition(".")
        if package == "kedro_datasets" and not rest.startswith("pickle"):
            raise DataError(
                "entry-name-taken",
                f"The catalog has an entry {name!r} of its own, and kedro-hone stores a value by that name.",
                why=f"It is a {kind.__name__}, which cannot store that value, and a run would overwrite its data.",
                hint="Rename the entry in conf/*/catalog.yml, and where your nodes use it.",
            )


def find_default(name: str) -> tuple[str, dict[str, Any] | None]:
    """Return the default of a dataset, as in a catalog, with the name or pattern that it is written under.

    The paths in it are relative to the project. Without a default the pattern is empty, and the entry None.
    """
    defaults = read_defaults()
    if name in defaults:
        return name, {**defaults[name]}
    for pattern, expression in _compile_patterns().items():
        found = expression.fullmatch(name)
        if found is not None:
            return pattern, {
                key: value.format_map(found.groupdict()) if isinstance(value, str) else value
                for key, value in defaults[pattern].items()
            }
    return "", None


@cache
def read_defaults() -> Mapping[str, Mapping[str, Any]]:
    """Return all defaults, by name or pattern, as in a catalog."""
    entries: dict[str, dict[str, Any]] = yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    return entries


@cache
def _compile_patterns() -> Mapping[str, re.Pattern[str]]:
    """Return a regular expression for each default that is a pattern, with a group for its placeholder."""
    patterns = (pattern for pattern in read_defaults() if _PLACEHOLDER.search(pattern))
    return {one: re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(one))) for one in patterns}


def _has_pattern(catalog: CatalogProtocol[Any, Any], name: str, default: str) -> bool:
    """Return whether a pattern of the user's catalog comes before the default, by Kedro's order of patterns.

    A name comes before any pattern, and a pattern with more characters outside of its placeholders before others.
    """
    if not _PLACEHOLDER.search(default):
        return False
    resolver = getattr(catalog, "config_resolver", None)
    pattern = resolver.match_dataset_pattern(name) if resolver is not None else None
    return pattern is not None and _count_fixed(pattern) >= _count_fixed(default)


def _count_fixed(pattern: str) -> int:
    return len(_PLACEHOLDER.sub("", pattern))
