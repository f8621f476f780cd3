"""The plan of a recipe: the adaptors with their options, and the routes over them.

Routes are every path from the source model to something that can run, generated from the adaptors' formats: ``convert →
compress* → convert* → compile``. An alternative converter begins its own routes at the source. Routes depend only on
the recipe, never on the model: an adaptor that does not take this model refuses it during the run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from hone_runtime.contract.adaptor import Adaptor, Need, Options, Place
from hone_runtime.contract.catalogue import read_catalogue
from hone_runtime.contract.toolchain import Toolchain
from hone_runtime.errors import HoneError
from hone_runtime.values.artifact import Stage
from hone_runtime.values.base import BACKENDS, Format, Json
from kedro_hone.recipe.schema import Recipe
from kedro_hone.recipe.variants import Variant, check_converters, check_count, select_variants

SOURCE = "source"
"""The namespace of the source model itself; the steps directly below it take the pulled model unchanged."""


BUILD = "build"
"""The namespace of the stage that builds and validates, before those of the routes in the names of its nodes."""

TRAINS = "trains"
"""The tag of nodes that train."""

UNDISTURBED = "undisturbed"
"""The tag of nodes that train, or that measure the times of operators. They run alone as those that race, but start in
their turn. The threads of a training wait for each other in each layer: with a neighbour on the same cores one took
four to ten times as long."""


def read_route(namespace: str | None) -> str:
    """Return the namespace of a route's step from that of its node; empty for a node of another stage."""
    stage, _, route = (namespace or "").partition(".")
    return route if stage == BUILD else ""


@dataclass(frozen=True, kw_only=True)
class RouteStep:
    """One adaptor at its position in a route."""

    namespace: str  # mirrors the route, such as ``onnx.onnxruntime_int8_static``
    parent: str  # the namespace of its input artifact
    adaptor: Adaptor
    options: Options
    route: tuple[str, ...]  # the names of all adaptors so far
    chosen: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)  # their options that were chosen from lists

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

    variants: dict[str, tuple[Variant, ...]]  # by the adaptor's name: one, or several if the recipe lists values
    routes: Routes
    challenges: bool  # whether a winner must also beat the published version
    serves: bool = False  # whether the winner and the source are also measured through the wire
    exports: bool = False  # whether a winner is published in other forms, too

    @property
    def trains(self) -> bool:
        """Whether a step needs the split ``training``."""
        return any(Need.TRAINING_DATA in step.adaptor.needs for step in self.routes.steps)

    @property
    def options(self) -> dict[str, Options]:
        """The options of each adaptor; if it has several variants, those of the first."""
        return {name: variants[0].options for name, variants in self.variants.items()}


def make_plan(recipe: Recipe) -> Plan:
    """Return the plan of a recipe: the same in any process.

    Raises:
        HoneError: ``adaptor-unknown``, ``toolchain-unknown`` or ``recipe-invalid``: bad options, or too many of them.
    """
    variants, adaptors = select_variants(recipe), read_catalogue().adaptors
    routes = generate_routes([adaptors[name] for name in variants], chains=recipe.routes, variants=variants)
    return Plan(
        variants=variants,
        routes=routes,
        challenges=recipe.gates.beat_published,
        serves=recipe.serving,
        exports=recipe.publish.enabled and bool(recipe.publish.export),
    )


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


def reach_backends(routes: Routes, source: Format) -> frozenset[Format]:
    """Return the format of a source model, and the backends that it can be converted to."""
    formats = {source}
    for backend in routes.backends:
        if any(adaptor.accepts & formats for adaptor in routes.converters[backend]):
            formats.add(backend)
    return frozenset(formats)


def reach_steps(routes: Routes, source: Format) -> tuple[RouteStep, ...]:
    """Return the steps that a source model of a format can reach through the converters of these routes."""
    reached, places = list[RouteStep](), set[str](reach_backends(routes, source) & {*routes.backends})
    for step in routes.steps:
        if step.parent in places or (step.parent == SOURCE and source in step.adaptor.accepts):
            places.add(step.namespace)
            reached.append(step)
    return tuple(reached)


def list_idle(recipe: Recipe, plan: Plan, source: Format) -> tuple[str, ...]:
    """Return the toolchains that a recipe names but that no route of a source model of a format contains."""
    if not isinstance(recipe.toolchains, tuple):
        return ()
    formats = reach_backends(plan.routes, source)
    converters = itertools.chain.from_iterable(plan.routes.converters.values())
    used = {one.toolchain.name for one in converters if one.accepts & formats}
    used |= {step.adaptor.toolchain.name for step in reach_steps(plan.routes, source)}
    return tuple(name for name in dict.fromkeys(recipe.toolchains) if name not in used)


def generate_routes(
    adaptors: Sequence[Adaptor],
    *,
    chains: Iterable[Sequence[str]] = (),
    variants: Mapping[str, Sequence[Variant]] = MappingProxyType({}),
) -> Routes:
    """Generate every route over some adaptors, each for every variant of its adaptors' options.

    Chains are routes with more than one compressor, as adaptor names; each is followed by every matching conversion and
    compiler. Conversions to a backend at its beginning may be given or left out. Adaptors without variants have their
    default options.

    Raises:
        HoneError: ``recipe-invalid``: a chain is not a route over these adaptors; or there are too many routes. Or an
            adaptor that converts to a backend, which is done once for all routes, has several variants.
    """
    converts = [a for a in adaptors if a.stage is Stage.CONVERT]
    converters = {
        backend: tuple(a for a in converts if a.produces == backend and not a.alternative) for backend in BACKENDS
    }
    to_backend = {a.name for some in converters.values() for a in some}  # done by each backend's own converters
    starts = {tuple(chain): tuple(itertools.dropwhile(to_backend.__contains__, chain)) for chain in chains}
    made = {a.produces for a in adaptors if a.produces not in a.accepts} | set(BACKENDS)
    only_sources = sorted({form for a in adaptors for form in a.accepts} - made)  # not made by an adaptor
    roots = [*((SOURCE, form) for form in only_sources), *zip(BACKENDS, BACKENDS, strict=True)]
    known = {one.name: variants.get(one.name) or (Variant(one.options()),) for one in adaptors}
    grown = (_grow(_Path(name, (form,)), adaptors, tuple(starts.values()), known) for name, form in roots)
    steps = {step.namespace: step for step in check_count(itertools.chain.from_iterable(grown))}
    useful: set[str] = set()  # namespaces that lead to a runtime
    for step in reversed(steps.values()):
        if step.ends or step.namespace in useful:
            useful |= {step.namespace, step.parent}
    kept = tuple(step for step in steps.values() if step.namespace in useful)
    for chain, rest in starts.items():
        if not any(step.route[: len(rest)] == rest for step in kept):
            raise _explain_unfit(chain, adaptors)
    check_converters(known, to_backend)
    used = {step.namespace.split(".")[0] for step in kept}
    backends = tuple(
        b for b in BACKENDS if b in used or any(b in a.accepts for c in used & set(BACKENDS) for a in converters[c])
    )
    return Routes(backends=backends, converters=converters, steps=kept)


@dataclass(frozen=True)
class _Path:
    namespace: str
    formats: tuple[Format, ...]  # from the first to the current one
    route: tuple[str, ...] = ()
    places: tuple[Place | None, ...] = ()  # of its compressors
    chosen: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)


def _explain_unfit(chain: tuple[str, ...], adaptors: Sequence[Adaptor]) -> HoneError:
    why = "An adaptor in it does not take the format of the one before, or nothing runs its end."
    if absent := [name for name in chain if name not in {a.name for a in adaptors}]:
        why = f"{', '.join(absent)} is not used: it is switched off, or its toolchain is not selected."
    hint = "`kedro-hone routes` lists all routes; a chain extends one of them."
    return HoneError("recipe-invalid", f"hone.routes: {' ▸ '.join(chain)} is not a route.", why=why, hint=hint)


def _grow(
    path: _Path,
    adaptors: Sequence[Adaptor],
    chains: tuple[tuple[str, ...], ...],
    variants: Mapping[str, Sequence[Variant]],
) -> Iterator[RouteStep]:
    for adaptor in adaptors:
        if path.formats[-1] not in adaptor.accepts or not _may_follow(path, adaptor, chains):
            continue
        for variant in _choose_variants(path, adaptor, variants[adaptor.name]):
            namespace = f"{path.namespace}.{re.sub('[.-]', '_', adaptor.name)}{variant.label}"
            route = (*path.route, adaptor.name)
            chosen = {**path.chosen, **({adaptor.name: variant.chosen} if variant.chosen else {})}
            yield RouteStep(
                namespace=namespace,
                parent=path.namespace,
                adaptor=adaptor,
                options=variant.options,
                route=route,
                chosen=chosen,
            )
            if adaptor.stage is not Stage.COMPILE:
                compresses = adaptor.stage is Stage.COMPRESS
                places = (*path.places, adaptor.place) if compresses else path.places
                # What a compressor writes in another format is not what a converter would have written.
                known = (adaptor.produces,) if compresses else (*path.formats, adaptor.produces)
                longer = _Path(namespace, known, route, places, chosen)
                yield from _grow(longer, adaptors, chains, variants)


def _choose_variants(path: _Path, adaptor: Adaptor, variants: Sequence[Variant]) -> Sequence[Variant]:
    """Return the variants of an adaptor at the end of a path: in a chain only that with its default strength."""
    if not (path.places and adaptor.strengths):
        return variants
    usual = {name: getattr(adaptor.options(), name) for name in adaptor.strengths}
    return [one for one in variants if usual.items() <= one.options.model_dump().items()] or variants


def _is_next(places: tuple[Place | None, ...], adaptor: Adaptor) -> bool:
    """Return whether a compressor follows others without a chain of the recipe: by their places, or as the first."""
    ordered = [one for one in (*places, adaptor.place) if one is not None]
    return not places or (len(ordered) == len(places) + 1 and ordered == sorted({*ordered}))


def _may_follow(path: _Path, adaptor: Adaptor, chains: tuple[tuple[str, ...], ...]) -> bool:
    if adaptor.stage is Stage.COMPILE:
        return True
    if path.namespace == SOURCE or adaptor.alternative:
        return path.namespace == SOURCE and adaptor.alternative
    if path.namespace.split(".")[0] == SOURCE and adaptor.stage is Stage.CONVERT:
        return False  # each alternative leads to one format; the others have their own routes
    if adaptor.stage is Stage.COMPRESS:
        route = (*path.route, adaptor.name)
        return _is_next(path.places, adaptor) or any(route == chain[: len(route)] for chain in chains)
    # Converting back, or straight to another backend, is already done by that backend's own namespace.
    return adaptor.produces not in path.formats and (bool(path.places) or adaptor.produces not in BACKENDS)
