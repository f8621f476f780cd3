"""What a recipe selects: the adaptors with their options, and the routes over them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from pydantic import ValidationError

from kedro_hone.core.contract.adaptor import Adaptor, Options
from kedro_hone.core.contract.catalogue import Catalogue, read_catalogue
from kedro_hone.core.contract.toolchain import Licence
from kedro_hone.core.errors import HoneError
from kedro_hone.core.plugins import describe_exception, name_function
from kedro_hone.recipe.routes import Routes, generate_routes
from kedro_hone.recipe.schema import AdaptorSection, Recipe


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of the adaptors that take part, and every route over them."""

    options: dict[str, Options]
    routes: Routes


def make_plan(recipe: Recipe) -> Plan:
    """Return what a recipe selects: the same in any process.

    Raises:
        HoneError: ``adaptor-unknown``, ``toolchain-unknown`` or ``recipe-invalid`` (bad options).
    """
    catalogue = read_catalogue()
    named = tuple(chain.from_iterable(recipe.routes))
    for name in (*named, *recipe.adaptors):
        catalogue.find_adaptor(name)
    toolchains = _select_toolchains(recipe, catalogue)
    options: dict[str, Options] = {}
    for name, adaptor in catalogue.adaptors.items():
        section = recipe.adaptors.get(name, AdaptorSection())
        by_default = adaptor.toolchain.name in toolchains and (adaptor.default or name in named)
        if by_default if section.enabled is None else section.enabled:
            options[name] = _read_options(section, adaptor)
    adaptors = [catalogue.adaptors[name] for name in options]
    return Plan(options=options, routes=generate_routes(adaptors, chains=recipe.routes))


def _select_toolchains(recipe: Recipe, catalogue: Catalogue) -> frozenset[str]:
    if recipe.toolchains == "all":
        return frozenset(catalogue.toolchains)
    if recipe.toolchains == "default":
        known = catalogue.toolchains.values()
        return frozenset(each.name for each in known if each.default and each.licence is not Licence.EVALUATION)
    return frozenset(catalogue.find_toolchain(name).name for name in recipe.toolchains)


def _read_options(section: AdaptorSection, adaptor: Adaptor) -> Options:
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
    except (Exception, SystemExit) as error:  # by a validator of its own, as no validator should
        raise HoneError(
            "recipe-invalid",
            f"The options of the adaptor {adaptor.name} cannot be read.",
            why=f"{name_function(adaptor.options)} failed: {describe_exception(error)}",
            hint="Mend the adaptor, or leave it out: `enabled: false` under its name in the recipe.",
        ) from error
