"""What a recipe selects: the adaptors with their options, and the routes over them.

Routes are every path from the source model to something that can run, generated from the adaptors' formats:
``convert → compress* → convert* → compile``. A converter that is an alternative begins routes of its own at the
source. They depend on the recipe alone, never on the model: an adaptor that does
not take this model refuses it during the run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from kedro_hone.core.contract.adaptor import Adaptor, Options
from kedro_hone.core.contract.catalogue import Catalogue, read_catalogue
from kedro_hone.core.contract.toolchain import Licence, Toolchain
from kedro_hone.core.errors import HoneError
from kedro_hone.core.plugins import guard, name_function
from kedro_hone.core.values.artifact import Stage
from kedro_hone.core.values.base import BACKENDS, Format
from kedro_hone.recipe.schema import AdaptorSection, Recipe
from kedro_hone.recipe.space import Space, read_space

SOURCE = "source"
"""The namespace of the source model itself; the steps right below it take the model as it was pulled."""


@dataclass(frozen=True, kw_only=True)
class RouteStep:
    """One adaptor at its place in a route."""

    namespace: str  # mirrors the route, such as ``onnx.onnxruntime_int8_static``
    parent: str  # the namespace whose artifact it takes
    adaptor: Adaptor
    route: tuple[str, ...]  # the names of all adaptors so far

    @property
    def ends(self) -> bool:
        """Whether the route ends here, at a runtime."""
        return self.adaptor.stage is Stage.COMPILE

    def leads_to(self, other: RouteStep) -> bool:
        """Whether another step is this one, or comes after it on a route."""
        return f"{other.namespace}.".startswith(f"{self.namespace}.")


@dataclass(frozen=True, kw_only=True)
class Routes:
    """All routes of a recipe, as a forest."""

    backends: tuple[Format, ...]  # those that have steps, in the order of conversion
    converters: dict[Format, tuple[Adaptor, ...]]  # those that could convert a source model to each backend
    steps: tuple[RouteStep, ...]  # parents before children

    @property
    def ends(self) -> tuple[RouteStep, ...]:
        """The steps that end a route: one candidate each."""
        return tuple(step for step in self.steps if step.ends)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of the adaptors that take part, and every route over them."""

    options: dict[str, Options]
    routes: Routes
    challenges: bool  # whether a winner has to beat the published version, too
    spaces: dict[str, Space]  # what else is worth trying of the adaptors' options: of those that the recipe leaves open


def make_plan(recipe: Recipe) -> Plan:
    """Return what a recipe selects: the same in any process.

    Raises:
        HoneError: ``adaptor-unknown``, ``toolchain-unknown``, ``recipe-invalid`` (bad options) or
            ``capabilities-invalid``.
    """
    catalogue = read_catalogue()
    named = [name for route in recipe.routes for name in route]
    for name in (*named, *recipe.adaptors):
        catalogue.find_adaptor(name)
    for name in recipe.environments:
        catalogue.find_toolchain(name)
    toolchains = _select_toolchains(recipe, catalogue)
    options: dict[str, Options] = {}
    for name, adaptor in catalogue.adaptors.items():
        section = recipe.adaptors.get(name, AdaptorSection())
        by_default = adaptor.toolchain.name in toolchains and (adaptor.default or name in named)
        if by_default if section.enabled is None else section.enabled:
            options[name] = _read_options(section, adaptor)
    adaptors = [catalogue.adaptors[name] for name in options]
    spaces = {one.name: space for one in adaptors if (space := _leave_open(one, recipe))} if recipe.explores else {}
    routes = generate_routes(adaptors, chains=recipe.routes)
    return Plan(options=options, routes=routes, spaces=spaces, challenges=recipe.gates.beat_published)


def reach_toolchains(plan: Plan, source: Format) -> tuple[Toolchain, ...]:
    """Return the toolchains that a plan may need for a source model of a format, each once, in its order."""
    adaptors = [
        *itertools.chain.from_iterable(plan.routes.converters.values()),
        *(step.adaptor for step in plan.routes.steps),
    ]
    reached, found = {source}, dict[str, Toolchain]()
    while fresh := [one for one in adaptors if one.accepts & reached]:
        adaptors = [one for one in adaptors if one not in fresh]
        reached |= {one.produces for one in fresh}
        found |= {one.toolchain.name: one.toolchain for one in fresh}
    return tuple(found.values())


def _select_toolchains(recipe: Recipe, catalogue: Catalogue) -> frozenset[str]:
    if recipe.toolchains == "all":
        return frozenset(catalogue.toolchains)
    if recipe.toolchains == "default":
        known = catalogue.toolchains.values()
        return frozenset(each.name for each in known if each.default and each.licence is not Licence.EVALUATION)
    return frozenset(catalogue.find_toolchain(name).name for name in recipe.toolchains)


def _read_options(section: AdaptorSection, adaptor: Adaptor) -> Options:
    name, known = adaptor.name, ", ".join(adaptor.options.model_fields) or "none"
    mend = "Mend the adaptor, or leave it out: `enabled: false` under its name in the recipe."
    what, culprit = f"The options of the adaptor {name} cannot be read.", name_function(adaptor.options)
    with guard("recipe-invalid", what, culprit=culprit, hint=mend):  # a validator of its own may raise anything
        try:
            return adaptor.options.model_validate(section.options)
        except ValidationError as error:
            where, hint = f"hone.adaptors.{name}.options", f"Its options are: {known}; see docs/adaptors/{name}.md."
            why = "; ".join(f"{'.'.join((where, *map(str, p['loc'])))}: {p['msg']}" for p in error.errors())
            raise HoneError("recipe-invalid", f"Bad options of the adaptor {name}.", why=why, hint=hint) from error


def _leave_open(adaptor: Adaptor, recipe: Recipe) -> Space:
    """Return what is worth trying of an adaptor's options, without those that the recipe sets."""
    chosen = recipe.adaptors[adaptor.name].options if adaptor.name in recipe.adaptors else {}
    return {option: choices for option, choices in read_space(adaptor).items() if option not in chosen}


def generate_routes(adaptors: Sequence[Adaptor], *, chains: Iterable[Sequence[str]] = ()) -> Routes:
    """Generate every route over some adaptors.

    Chains are routes with more than one compressor, as adaptor names; each is followed by every conversion and compiler
    that fits. Conversions to a backend at its beginning may be named or left out.

    Raises:
        HoneError: ``recipe-invalid``: a chain is no route over these adaptors.
    """
    converts = [a for a in adaptors if a.stage is Stage.CONVERT]
    converters = {
        backend: tuple(a for a in converts if a.produces == backend and not a.alternative) for backend in BACKENDS
    }
    to_backend = {a.name for some in converters.values() for a in some}  # each backend's own converters do those
    starts = {tuple(chain): tuple(itertools.dropwhile(to_backend.__contains__, chain)) for chain in chains}
    made = {a.produces for a in adaptors if a.produces not in a.accepts} | set(BACKENDS)
    only_sources = sorted({form for a in adaptors for form in a.accepts} - made)  # no adaptor makes one of another
    roots = [*((SOURCE, form) for form in only_sources), *zip(BACKENDS, BACKENDS, strict=True)]
    grown = (_grow(_Path(name, (form,)), adaptors, tuple(starts.values())) for name, form in roots)
    steps = {step.namespace: step for branch in grown for step in branch}
    useful: set[str] = set()  # namespaces that lead to a runtime
    for step in reversed(steps.values()):
        if step.ends or step.namespace in useful:
            useful |= {step.namespace, step.parent}
    kept = tuple(step for step in steps.values() if step.namespace in useful)
    for chain, rest in starts.items():
        if not any(step.route[: len(rest)] == rest for step in kept):
            raise _explain_unfit(chain, adaptors)
    used = {step.namespace.split(".")[0] for step in kept}
    backends = tuple(
        b for b in BACKENDS if b in used or any(b in a.accepts for c in used & set(BACKENDS) for a in converters[c])
    )
    return Routes(backends=backends, converters=converters, steps=kept)


@dataclass(frozen=True)
class _Path:
    namespace: str
    formats: tuple[Format, ...]  # from the start's to the present one
    route: tuple[str, ...] = ()
    compressed: bool = False


def _explain_unfit(chain: tuple[str, ...], adaptors: Sequence[Adaptor]) -> HoneError:
    why = "An adaptor in it does not take the format of the one before, or nothing runs its end."
    if absent := [name for name in chain if name not in {a.name for a in adaptors}]:
        why = f"{', '.join(absent)} takes no part: it is switched off, or its toolchain is not selected."
    hint = "`kedro hone routes` lists the routes that there are; a chain extends one of them."
    return HoneError("recipe-invalid", f"hone.routes: {' ▸ '.join(chain)} is no route.", why=why, hint=hint)


def _grow(path: _Path, adaptors: Sequence[Adaptor], chains: tuple[tuple[str, ...], ...]) -> Iterator[RouteStep]:
    for adaptor in adaptors:
        if path.formats[-1] in adaptor.accepts and _may_follow(path, adaptor, chains):
            namespace = f"{path.namespace}.{re.sub('[.-]', '_', adaptor.name)}"
            route = (*path.route, adaptor.name)
            yield RouteStep(namespace=namespace, parent=path.namespace, adaptor=adaptor, route=route)
            if adaptor.stage is not Stage.COMPILE:
                compressed = path.compressed or adaptor.stage is Stage.COMPRESS
                longer = _Path(namespace, (*path.formats, adaptor.produces), route, compressed)
                yield from _grow(longer, adaptors, chains)


def _may_follow(path: _Path, adaptor: Adaptor, chains: tuple[tuple[str, ...], ...]) -> bool:
    if adaptor.stage is Stage.COMPILE:
        return True
    if path.namespace == SOURCE or adaptor.alternative:
        return path.namespace == SOURCE and adaptor.alternative
    if path.namespace.split(".")[0] == SOURCE and adaptor.stage is Stage.CONVERT:
        return False  # each alternative leads to one format; the others have routes of their own
    if adaptor.stage is Stage.COMPRESS:
        route = (*path.route, adaptor.name)
        return not path.compressed or any(route == chain[: len(route)] for chain in chains)
    # Converting back, or straight to another backend, is already done by that backend's own namespace.
    return adaptor.produces not in path.formats and (path.compressed or adaptor.produces not in BACKENDS)
