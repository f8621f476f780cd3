"""What a recipe selects: the adaptors with their options, and the routes over them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from pydantic import ValidationError

from kedro_hone.core.contract.adaptor import Adaptor, Options
from kedro_hone.core.contract.catalogue import Catalogue, read_catalogue
from kedro_hone.core.contract.toolchain import Licence
from kedro_hone.core.errors import HoneError
from kedro_hone.recipe.routes import Routes, generate_routes
from kedro_hone.recipe.schema import AdaptorSection, Recipe


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The adaptors that take part, their options, and every route over them."""

    adaptors: tuple[Adaptor, ...]
    options: dict[str, Options]
    routes: Routes


def make_plan(recipe: Recipe) -> Plan:
    """Return what a recipe selects: the same in any process.

    Raises:
        HoneError: ``adaptor-unknown``, ``toolchain-unknown`` or ``recipe-invalid`` (bad options).
    """
    catalogue = read_catalogue()
    for name in (*chain.from_iterable(recipe.routes), *recipe.adaptors):
        catalogue.find_adaptor(name)
    toolchains = _select_toolchains(recipe, catalogue)
    adaptors = tuple(a for a in catalogue.adaptors.values() if _is_selected(a, recipe, toolchains))
    options = {adaptor.name: _read_options(recipe, adaptor) for adaptor in adaptors}
    return Plan(adaptors=adaptors, options=options, routes=generate_routes(adaptors, chains=recipe.routes))


def _select_toolchains(recipe: Recipe, catalogue: Catalogue) -> frozenset[str]:
    if recipe.toolchains == "all":
        return frozenset(catalogue.toolchains)
    if recipe.toolchains == "default":
        known = catalogue.toolchains.values()
        return frozenset(each.name for each in known if each.default and each.licence is not Licence.EVALUATION)
    return frozenset(catalogue.find_toolchain(name).name for name in recipe.toolchains)


def _is_selected(adaptor: Adaptor, recipe: Recipe, toolchains: frozenset[str]) -> bool:
    section = recipe.adaptors.get(adaptor.name, AdaptorSection())
    named = adaptor.name in chain.from_iterable(recipe.routes)
    by_default = adaptor.toolchain.name in toolchains and (adaptor.default or named)
    return by_default if section.enabled is None else section.enabled


def _read_options(recipe: Recipe, adaptor: Adaptor) -> Options:
    section = recipe.adaptors.get(adaptor.name, AdaptorSection())
    try:
        return adaptor.options.model_validate(section.options)
    except ValidationError as error:
        where = f"hone.adaptors.{adaptor.name}.options"
        raise HoneError(
            "recipe-invalid",
            f"Bad options of the adaptor {adaptor.name}.",
            why="; ".join(f"{'.'.join((where, *map(str, p['loc'])))}: {p['msg']}" for p in error.errors()),
            hint=f"Its options are: {', '.join(adaptor.options.model_fields) or 'none'}; "
            f"see docs/adaptors/{adaptor.name}.md.",
        ) from error
