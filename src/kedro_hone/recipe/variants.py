"""The variants of an adaptor's options: if the recipe lists several values of an option, each is a route.

If the option itself takes a list, such as names of operators, a list is one value; a list of such lists is several.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from hone_runtime.contract.adaptor import Adaptor, Options
from hone_runtime.contract.catalogue import Catalogue, read_catalogue
from hone_runtime.contract.plugins import guard, locate_function
from hone_runtime.contract.toolchain import Licence
from hone_runtime.errors import HoneError
from hone_runtime.values.base import Json
from kedro_hone.recipe.schema import AdaptorSection, Recipe

if TYPE_CHECKING:
    from kedro_hone.recipe.plan import RouteStep

MOST_VARIANTS: Final = 16
"""The most variants of one adaptor."""
MOST_STEPS: Final = 3000
"""The most steps of all routes of a recipe; all built-in adaptors together have fewer than 2,500."""

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Variant:
    """One choice of an adaptor's options.

    Attributes:
        options: All options.
        chosen: The values of those for which the recipe lists several.
        label: The suffix of the adaptor in the namespace of a step, such as ``+activations=uint8``. It is part of file
            names, of words in a shell and of fragments of URLs.
    """

    options: Options
    chosen: Mapping[str, Json] = field(default_factory=dict)
    label: str = ""


def select_variants(recipe: Recipe) -> dict[str, tuple[Variant, ...]]:
    """Return the adaptors that take part in a recipe, by name, each with its variants of options.

    Raises:
        HoneError: ``adaptor-unknown``, ``toolchain-unknown`` or ``recipe-invalid``: bad options, or too many of them.
    """
    catalogue = read_catalogue()
    named = [name for route in recipe.routes for name in route]
    for name in (*named, *recipe.adaptors):
        catalogue.find_adaptor(name)
    for name in recipe.environments:
        catalogue.find_toolchain(name)
    toolchains = _select_toolchains(recipe, catalogue)
    variants: dict[str, tuple[Variant, ...]] = {}
    for name, adaptor in catalogue.adaptors.items():
        section = recipe.adaptors.get(name, AdaptorSection())
        by_default = adaptor.toolchain.name in toolchains and (adaptor.default or name in named or section.options)
        if by_default if section.enabled is None else section.enabled:
            variants[name] = list_variants(adaptor, section.options, clients=max(recipe.clients.values()))
    return variants


def _select_toolchains(recipe: Recipe, catalogue: Catalogue) -> frozenset[str]:
    if recipe.toolchains == "all":
        return frozenset(catalogue.toolchains)
    if recipe.toolchains == "default":
        known = catalogue.toolchains.values()
        return frozenset(each.name for each in known if each.default and each.licence is not Licence.EVALUATION)
    return frozenset(catalogue.find_toolchain(name).name for name in recipe.toolchains)


def list_variants(adaptor: Adaptor, options: Mapping[str, Json], *, clients: int = 1) -> tuple[Variant, ...]:
    """Return the variants of an adaptor's options in a recipe, each once: only one if no values are listed.

    The adaptor's own ``strengths`` are listed values, unless the recipe has values for these options.

    For several clients at once, the adaptor's own options for throughput follow, unless the recipe has values for them.

    Raises:
        HoneError: ``recipe-invalid``: invalid options, or more than ``MOST_VARIANTS``.
    """
    options = {name: list(values) for name, values in adaptor.strengths.items()} | dict(options)
    more = _list_throughput(adaptor, clients)
    more = {name: values for name, values in more.items() if name not in options}
    found = _list_listed(adaptor, options)
    return (*found, *_list_listed(adaptor, {**options, **more})) if more else found


def _list_throughput(adaptor: Adaptor, clients: int) -> Mapping[str, list[Json]]:
    """Return the values that an adaptor proposes for several clients; a ``HoneError`` if its own function fails."""
    if clients == 1:
        return {}
    mend = "Correct the adaptor, or leave it out: `enabled: false` under its name in the recipe."
    what = f"The options of the adaptor {adaptor.name} for throughput cannot be read."
    with guard("recipe-invalid", what, culprit=locate_function(adaptor.throughput), hint=mend):
        return {name: [*values] for name, values in adaptor.throughput(clients).items()}


def _list_listed(adaptor: Adaptor, options: Mapping[str, Json]) -> tuple[Variant, ...]:
    listed = {name: value for name, value in options.items() if isinstance(value, list) and len(value) > 0}
    listed = {name: values for name, values in listed.items() if not _takes(adaptor, name, values)}
    if (count := math.prod(map(len, listed.values()))) > MOST_VARIANTS:
        raise HoneError(
            "recipe-invalid",
            f"Too many options of the adaptor {adaptor.name}.",
            why=f"hone.adaptors.{adaptor.name}.options: the lists of {', '.join(listed)} have {count:,} combinations, "
            f"each is a route, and {MOST_VARIANTS} are the most.",
            hint="List fewer values.",
        )
    found: dict[str, Variant] = {}
    for values in itertools.product(*listed.values()):
        chosen = dict(zip(listed, values, strict=True))
        read = _read_options(adaptor, {**options, **chosen})
        known = json.dumps(read.model_dump(mode="json"), sort_keys=True)
        found.setdefault(known, Variant(read, chosen, _make_label(chosen)))
    labels = [variant.label for variant in found.values()]
    if len({*labels}) < len(labels):  # values that differ only in signs
        return tuple(Variant(one.options, one.chosen, f"{one.label}-{n}") for n, one in enumerate(found.values(), 1))
    return tuple(found.values())


def name_variant(name: str, chosen: Mapping[str, Mapping[str, Json]]) -> str:
    """Return an adaptor's name with the values of those options that have several in the recipe.

    Args:
        name: The adaptor.
        chosen: The options that were chosen from lists, by the adaptor's name.
    """
    values = [f"{option}={json.dumps(value)}" for option, value in chosen.get(name, {}).items()]
    return f"{name} ({', '.join(values)})" if values else name


def check_converters(variants: Mapping[str, Sequence[Variant]], converters: Collection[str]) -> None:
    """Check that converters to a backend, which run once for all routes, have only one variant of options.

    Raises:
        HoneError: ``recipe-invalid``.
    """
    several = next((name for name in variants if name in converters and len(variants[name]) > 1), None)
    if several is None:
        return
    names = ", ".join(variants[several][0].chosen)
    raise HoneError(
        "recipe-invalid",
        f"The adaptor {several} takes one value of each option.",
        why=f"hone.adaptors.{several}.options: {names} has several, and the model is converted once for all routes.",
        hint="Name one value, and try another in a separate run.",
    )


def check_count(steps: Iterable[RouteStep]) -> Iterator[RouteStep]:
    """Yield steps of routes, and raise if there are too many.

    Raises:
        HoneError: ``recipe-invalid``.
    """
    for count, step in enumerate(steps, 1):
        if count > MOST_STEPS:
            raise HoneError(
                "recipe-invalid",
                "The recipe has too many routes.",
                why=f"Its adaptors and the values that it lists of their options make more than {MOST_STEPS:,} steps.",
                hint="List fewer values under hone.adaptors, or select fewer toolchains.",
            )
        yield step


def _takes(adaptor: Adaptor, option: str, value: Json) -> bool:
    """Return whether an option takes a value, with the defaults of the others."""
    return not isinstance(_read(adaptor, {option: value}), ValidationError)


def _read_options(adaptor: Adaptor, options: Mapping[str, Json]) -> Options:
    read, name = _read(adaptor, options), adaptor.name
    if not isinstance(read, ValidationError):
        return read
    known = ", ".join(adaptor.options.model_fields) or "none"
    where, hint = f"hone.adaptors.{name}.options", f"Its options are: {known}; see docs/adaptors/{name}.md."
    why = "; ".join(f"{'.'.join((where, *map(str, p['loc'])))}: {p['msg']}" for p in read.errors())
    raise HoneError("recipe-invalid", f"Bad options of the adaptor {name}.", why=why, hint=hint) from read


def _read(adaptor: Adaptor, options: Mapping[str, Json]) -> Options | ValidationError:
    mend = "Correct the adaptor, or leave it out: `enabled: false` under its name in the recipe."
    what, culprit = f"The options of the adaptor {adaptor.name} cannot be read.", locate_function(adaptor.options)
    with guard("recipe-invalid", what, culprit=culprit, hint=mend):  # its own validator may raise any exception
        try:
            return adaptor.options.model_validate(options)
        except ValidationError as error:
            return error


def _make_label(chosen: Mapping[str, Json]) -> str:
    return "".join(f"+{option}={_write(value)}" for option, value in sorted(chosen.items()))


def _write(value: Json) -> str:
    """Return an option's value as part of a name."""
    text = "-".join(map(str, value)) if isinstance(value, list) else json.dumps(value)
    return _ODD.sub("-", text.strip('"')) or "none"
