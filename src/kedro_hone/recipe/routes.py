"""Routes: every path from the source model to something that can run, generated from the adaptors' formats.

The paths depend on the recipe alone, never on the model: ``convert → compress* → convert* → compile`` over the
adaptors whose formats fit. Steps whose formats do not fit are not generated; an adaptor that does not take this
model refuses it during the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from kedro_hone.core.contract.adaptor import Adaptor
from kedro_hone.core.errors import HoneError
from kedro_hone.core.values.artifact import Stage
from kedro_hone.core.values.base import BACKENDS, Format

SOURCE = "source"
"""The namespace of the source model itself; the steps below it take the model as it was pulled."""


@dataclass(frozen=True, kw_only=True)
class RouteStep:
    """One adaptor at its place in a route.

    Attributes:
        namespace: Mirrors the route, such as ``onnx.onnxruntime_int8_static``.
        parent: The namespace whose artifact it takes.
        adaptor: The adaptor.
        route: The names of all adaptors of the route so far.
    """

    namespace: str
    parent: str
    adaptor: Adaptor
    route: tuple[str, ...]

    @property
    def ends(self) -> bool:
        """Whether the route ends here, at a runtime."""
        return self.adaptor.stage is Stage.COMPILE


@dataclass(frozen=True, kw_only=True)
class Routes:
    """All routes of a recipe, as a forest.

    Attributes:
        backends: The backends that have steps, in the order of conversion.
        converters: For each backend, the adaptors that could convert a source model to it.
        steps: Every step, parents before children.
    """

    backends: tuple[Format, ...]
    converters: dict[Format, tuple[Adaptor, ...]]
    steps: tuple[RouteStep, ...]

    @property
    def ends(self) -> tuple[RouteStep, ...]:
        """The steps that end a route: one candidate each."""
        return tuple(step for step in self.steps if step.ends)


def generate_routes(adaptors: Sequence[Adaptor], *, chains: Iterable[Sequence[str]] = ()) -> Routes:
    """Generate every route over some adaptors.

    Args:
        adaptors: The adaptors that take part.
        chains: Routes with more than one compressor, as adaptor names; each is followed by every conversion and
            compiler that fits. Conversions to a backend at its beginning may be named or left out.

    Raises:
        HoneError: ``recipe-invalid``: a chain is no route over these adaptors.
    """
    converts = [a for a in adaptors if a.stage is Stage.CONVERT]
    converters = {backend: tuple(a for a in converts if a.produces == backend) for backend in BACKENDS}
    to_backend = {a.name for a in converts if a.produces in BACKENDS}  # each backend's own converters do those
    starts = {tuple(chain): tuple(dropwhile(to_backend.__contains__, chain)) for chain in chains}
    roots = [(SOURCE, form) for form in sorted(_source_formats(adaptors))] + [
        (backend, backend) for backend in BACKENDS
    ]
    grown = (_grow(_Path(name, (form,)), adaptors, tuple(starts.values())) for name, form in roots)
    kept = _prune(tuple({step.namespace: step for steps in grown for step in steps}.values()))
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
    route: tuple[Adaptor, ...] = ()

    @property
    def is_compressed(self) -> bool:
        return any(a.stage is Stage.COMPRESS for a in self.route)


def _explain_unfit(chain: tuple[str, ...], adaptors: Sequence[Adaptor]) -> HoneError:
    why = "An adaptor in it does not take the format of the one before, or nothing runs its end."
    if absent := [name for name in chain if name not in {a.name for a in adaptors}]:
        why = f"{', '.join(absent)} takes no part: it is switched off, or its toolchain is not selected."
    return HoneError(
        "recipe-invalid",
        f"hone.routes: {' ▸ '.join(chain)} is no route.",
        why=why,
        hint="`kedro hone routes` lists the routes that there are; a chain extends one of them.",
    )


def _source_formats(adaptors: Sequence[Adaptor]) -> set[Format]:
    """Formats that only a source has: no adaptor produces them from another one, and they are no backend."""
    made = {a.produces for a in adaptors if a.produces not in a.accepts}
    return {fmt for a in adaptors for fmt in a.accepts} - made - set(BACKENDS)


def _grow(path: _Path, adaptors: Sequence[Adaptor], chains: tuple[tuple[str, ...], ...]) -> Iterator[RouteStep]:
    for adaptor in adaptors:
        if path.formats[-1] in adaptor.accepts and _may_follow(path, adaptor, chains):
            namespace, route = f"{path.namespace}.{adaptor.segment}", (*path.route, adaptor)
            names = tuple(each.name for each in route)
            yield RouteStep(namespace=namespace, parent=path.namespace, adaptor=adaptor, route=names)
            if adaptor.stage is not Stage.COMPILE:
                yield from _grow(_Path(namespace, (*path.formats, adaptor.produces), route), adaptors, chains)


def _may_follow(path: _Path, adaptor: Adaptor, chains: tuple[tuple[str, ...], ...]) -> bool:
    if adaptor.stage is Stage.COMPILE or path.namespace.split(".")[0] == SOURCE:
        return adaptor.stage is Stage.COMPILE
    if adaptor.stage is Stage.COMPRESS:
        names = (*(a.name for a in path.route), adaptor.name)
        return not path.is_compressed or any(names == chain[: len(names)] for chain in chains)
    # Converting back, or straight to another backend, is already done by that backend's own namespace.
    return adaptor.produces not in path.formats and (path.is_compressed or adaptor.produces not in BACKENDS)


def _prune(steps: tuple[RouteStep, ...]) -> tuple[RouteStep, ...]:
    """Drop the steps that lead to no runtime."""
    useful: set[str] = set()
    for step in reversed(steps):
        if step.ends or step.namespace in useful:
            useful |= {step.namespace, step.parent}
    return tuple(step for step in steps if step.namespace in useful)
