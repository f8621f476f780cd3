"""What a recipe selects: the adaptors with their options, and the routes over them."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from kedro_hone.core.contract.adaptor import Adaptor, Options
from kedro_hone.core.contract.catalogue import Catalogue, read_catalogue
from kedro_hone.core.contract.toolchain import Licence, Toolchain
from kedro_hone.core.errors import HoneError
from kedro_hone.recipe.routes import Routes, generate_routes
from kedro_hone.recipe.schema import Recipe


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The adaptors that take part, their options, and every route over them."""

    adaptors: tuple[Adaptor, ...]
    options: dict[str, Options]
    routes: Routes


def make_plan(recipe: Recipe) -> Plan:
    """Return what a recipe selects.

    Args:
        recipe: The recipe.

    Returns:
        The plan; the same recipe gives the same plan, in any process.

    Raises:
        HoneError: ``adaptor-unknown``, ``toolchain-unknown`` or ``recipe-invalid`` (bad options).
    """
    catalogue = read_catalogue()
    for chain in recipe.routes:
        for name in chain:
            catalogue.find_adaptor(name)
    adaptors = select_adaptors(recipe, catalogue)
    options = {adaptor.name: read_options(recipe, adaptor) for adaptor in adaptors}
    return Plan(adaptors=adaptors, options=options, routes=generate_routes(adaptors, chains=recipe.routes))


def select_adaptors(recipe: Recipe, catalogue: Catalogue) -> tuple[Adaptor, ...]:
    """Return the adaptors that take part, in the order of the catalogue.

    Args:
        recipe: The recipe.
        catalogue: All that is installed.

    Returns:
        Those of the selected toolchains that are on by default or switched on by name.

    Raises:
        HoneError: ``adaptor-unknown`` or ``toolchain-unknown``.
    """
    for name in recipe.adaptors:
        catalogue.find_adaptor(name)
    toolchains = _select_toolchains(recipe, catalogue)
    return tuple(adaptor for adaptor in catalogue.adaptors.values() if _is_selected(adaptor, recipe, toolchains))


def _select_toolchains(recipe: Recipe, catalogue: Catalogue) -> frozenset[str]:
    if recipe.toolchains == "all":
        return frozenset(catalogue.toolchains)
    if recipe.toolchains == "default":
        return frozenset(name for name, toolchain in catalogue.toolchains.items() if _is_default(toolchain))
    return frozenset(catalogue.find_toolchain(name).name for name in recipe.toolchains)


def _is_default(toolchain: Toolchain) -> bool:
    return toolchain.default and toolchain.licence is not Licence.EVALUATION


def _is_selected(adaptor: Adaptor, recipe: Recipe, toolchains: frozenset[str]) -> bool:
    section = recipe.adaptors.get(adaptor.name)
    if section is not None and section.enabled is not None:
        return section.enabled
    named = any(adaptor.name in chain for chain in recipe.routes)
    return adaptor.toolchain.name in toolchains and (adaptor.default or named)


def read_options(recipe: Recipe, adaptor: Adaptor) -> Options:
    """Return an adaptor's options as the recipe sets them.

    Raises:
        HoneError: ``recipe-invalid``, naming the option.
    """
    section = recipe.adaptors.get(adaptor.name)
    try:
        return adaptor.options.model_validate(dict(section.options) if section else {})
    except ValidationError as error:
        problems = "; ".join(
            f"hone.adaptors.{adaptor.name}.options.{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors()
        )
        raise HoneError(
            "recipe-invalid",
            f"Bad options of the adaptor {adaptor.name}.",
            why=problems,
            hint=f"Its options are: {', '.join(adaptor.options.model_fields) or 'none'}; "
            f"see docs/adaptors/{adaptor.name}.md.",
        ) from error
