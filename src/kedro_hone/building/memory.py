"""What is remembered of earlier searches, ours and this store's: how long a step takes, and which routes can win."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from kedro_hone.building.routes import (
    NO_CHANGES,
    Changes,
    describe_changes,
    describe_options,
    digest_versions,
    drop_defaults,
    is_usual,
    name_route,
)
from kedro_hone.core.contract.adaptor import Options
from kedro_hone.core.contract.host import Host
from kedro_hone.core.store.artifacts import Store
from kedro_hone.core.store.costs import (
    CANDIDATES,
    WAS_CUT,
    WAS_INVALID,
    WAS_RACED,
    Cost,
    Share,
    guess_chance,
    guess_ratio,
    guess_seconds,
    guess_share,
    keep_similar,
    read_costs,
    stamp_costs,
    write_cost,
)
from kedro_hone.core.text import open_logger
from kedro_hone.core.values.artifact import Artifact, StepFacts
from kedro_hone.core.values.base import Format
from kedro_hone.core.values.measurement import RACED, Standing, Validation
from kedro_hone.core.values.outcome import Candidate
from kedro_hone.recipe.schema import Recipe

logger = open_logger(__name__)

SHIPPED: Final = Path(__file__).with_name("costs.jsonl")
"""Rows that were measured by us; how is in docs/concepts/search.md."""
LEAST_ROWS: Final = 2
"""From fewer rows nothing is left out: one slow build or race would leave it out for good."""
UNKNOWN: Final = Share(0.7, 0.5, 0)
"""What is expected of a candidate of which nothing is remembered."""
_SAME: Final = Share(1.0, 0.0, 0)
LEAST_SECONDS: Final = 1.0
"""What came to nothing sooner cost nothing, and leaves no row."""


class Memory:
    """What a store remembers, and what is shipped, as it was when this was made: seen from one model and machine.

    Args:
        store: The store whose rows are read and written.
        source: The model.
        host: The machine.
        recipe: Whose options of adaptors a route has: what was measured with others says nothing of it. Its shapes are
            those of the races.

    Attributes:
        batches: The batch sizes of the recipe, in rows, by the name of the shape.
    """

    def __init__(self, store: Store, source: Artifact, host: Host, recipe: Recipe | None = None) -> None:
        self._root, self.source = store.memory, source
        self._options = {name: own.options for name, own in recipe.adaptors.items()} if recipe else {}
        self._changed = {name: drop_defaults(name, options) for name, options in self._options.items()}
        self.batches = {shape.name: shape.batch for shape in recipe.all_shapes} if recipe else {}
        self._read = stamp_costs(store.memory)
        # A search asks for all of its candidates at each of its turns.
        self._chances: dict[tuple[str, ...], float] = {}
        self._steps: dict[tuple[str, Format, str, int], float | None] = {}
        self._routes: dict[tuple[str, ...], float | None] = {}
        self._shares: dict[tuple[tuple[str, ...], int | None], Share | None] = {}
        self._ratios: dict[tuple[tuple[str, ...], tuple[str, ...], int | None], Share | None] = {}
        self._gains: dict[tuple[tuple[str, ...], tuple[str, ...], int | None], float] = {}
        inputs = " ".join(f"{spec.dtype}/{len(spec.shape)}" for spec in source.inputs)
        self._like = Cost(
            what="",
            format=source.format,
            inputs=inputs,
            operators=tuple(map(str, source.metadata.get("operators", ()))),
            size=store.measure(source),
            host=host.instructions,
            threads=recipe.thread_count if recipe else 0,
            elements=_count_elements(source, recipe) if recipe else 0,
            seconds=0.0,
            outcome="",
        )
        self._rows: dict[tuple[str, str, str], list[Cost]] = {}
        raced = set[tuple[str, ...]]()
        for row in (*reversed(read_costs(store.memory)), *_read_shipped()):  # of equals the newest count
            once = row.race, row.what, row.format, row.options
            if once in raced:  # stores that were put together may have a race twice
                continue
            if row.race:
                raced.add(once)
            self._rows.setdefault((row.what, row.format, row.options), []).append(row)

    def is_current(self) -> bool:
        """Return whether the store has no newer rows."""
        return stamp_costs(self._root) == self._read

    @property
    def size(self) -> int:
        """The source model's bytes."""
        return self._like.size

    def guess_step(self, adaptor: str, form: Format, options: Options | None = None, *, least: int = 1) -> float | None:
        """Return the seconds that an adaptor is expected to take on an input of a format; None where fewer rows tell.

        Its options are the recipe's where none are given. With those of which too little is remembered it takes what it
        takes by default.
        """
        chosen = describe_changes(self._changed.get(adaptor, {}))
        key = adaptor, form, chosen if options is None else describe_options(options), least
        if key not in self._steps:
            own = guess_seconds(*self._look_up_step(*key[:3]), least=least)
            usual = self._look_up_step(adaptor, form)
            self._steps[key] = guess_seconds(*usual, least=least) if own is None else own
        return self._steps[key]

    def guess_route(self, route: Iterable[str]) -> float | None:
        """Return the seconds that a candidate's validation is expected to take; None where nothing tells."""
        key = tuple(route)
        if key not in self._routes:
            self._routes[key] = guess_seconds(*self._look_up_route(key))
        return self._routes[key]

    def guess_validation(self, route: Iterable[str], changes: Changes = NO_CHANGES) -> float | None:
        """Return the seconds that a validation is expected to take, by similar models; None where too few tell."""
        rows, like = self._look_up_route(tuple(route), changes)
        similar = keep_similar(rows, like)
        return guess_seconds(similar, like, least=LEAST_ROWS)

    def find_chance(self, route: Iterable[str]) -> float:
        """Return how likely a candidate is to race at all, as ``guess_chance`` has it."""
        key = tuple(route)
        if key not in self._chances:
            self._chances[key] = guess_chance(*self._look_up_route(key))
        return self._chances[key]

    def find_share(self, route: Iterable[str], batch: int | None = None) -> Share | None:
        """Return which share of the best speed-up a candidate is expected to have; None where nothing tells.

        It is that at a batch size, of so many rows, or where it is largest.
        """
        key = tuple(route), batch
        if key not in self._shares:
            self._shares[key] = guess_share(*self._look_up_route(key[0]), batch)
        return self._shares[key]

    def find_gain(self, route: Iterable[str], best: Sequence[str] | None, batch: int | None) -> float:
        """Return by how much a candidate's share is expected to exceed another one's; all of it where there is none.

        Where both were raced together on similar models, it follows from their ratio there.
        """
        key = tuple(route), tuple(best or ()), batch
        if key not in self._gains:
            self._gains[key] = self._guess_gain(*key)
        return self._gains[key]

    def find_best(self, routes: Iterable[Sequence[str]], batch: int | None, *, least: int = 1) -> Sequence[str] | None:
        """Return which of some routes is expected to be the fastest at a batch size.

        It is the one with the largest share, unless another one was faster where both raced together: shares of races
        that others took part in are not of the same best. None where fewer rows than ``least`` tell of each.
        """
        shares = ((one, self.find_share(one, batch)) for one in routes)
        known = sorted((-share.share, tuple(one)) for one, share in shares if share and share.rows >= least)
        best = known[0][1] if known else None
        for _, one in known[1:]:
            ratio = self.find_ratio(one, best or (), batch)
            best = one if ratio is not None and ratio.share > 1 else best
        return best

    def find_ratio(self, route: Sequence[str], other: Sequence[str], batch: int | None) -> Share | None:
        """Return how many times the speed of another route one is expected to have; None where too few races tell."""
        key = tuple(route), tuple(other), batch
        if key not in self._ratios:
            rows, like = self._look_up_route(key[0])
            self._ratios[key] = guess_ratio(rows, self._look_up_route(key[1])[0], like, batch)
        return self._ratios[key]

    def keep_step(self, facts: StepFacts, form: Format, options: Options | None = None, *, cut: bool = False) -> None:
        """Keep what a step took on an input of a format, with options or the defaults; at least, if it was ``cut``."""
        outcome = WAS_CUT if cut else facts.outcome
        self._keep(facts.adaptor, form, seconds=facts.seconds, outcome=outcome, options=describe_options(options))

    def keep_fruitless(self, validations: Iterable[Validation]) -> None:
        """Keep which candidates came to nothing after a while, in this run."""
        for one in validations:
            if one.fruitless and one.renewed and one.own_seconds >= LEAST_SECONDS:
                self._keep_candidate(one.candidate, seconds=one.seconds, outcome=WAS_INVALID)

    def keep_race(self, validations: Mapping[str, Validation], standings: Iterable[Standing]) -> None:
        """Keep which share of the best one's speed-up each candidate of a race had, by the objective or at a shape.

        The best one is that of the default toolchains where any of them raced: in races with more toolchains as well,
        so that shares of several races can be compared. The largest share counts: who is the fastest at one shape only
        can be a part of the winner.
        """
        raced = [one for one in standings if one.status in RACED and one.objective and one.objective.estimate > 0]
        speeds = {one.id: {"": one.objective.estimate, **one.ratios} for one in raced if one.objective}
        usual = [name for name in speeds if is_usual(validations[name].candidate.route)]
        best: dict[str, float] = {}
        race = token_hex(8)
        for name in usual or speeds:
            best |= {shape: max(speed, best.get(shape, 0.0)) for shape, speed in speeds[name].items()}
        rows = Counter(self.batches.values())  # two shapes of one batch size may have two fastest candidates
        known: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        for name, mine in sorted(speeds.items(), key=lambda one: one[1][""]):
            parts = {shape: speed / best[shape] for shape, speed in mine.items() if best.get(shape)}
            told = {self.batches[shape]: parts[shape] for shape in self.batches if shape in parts}
            shares = {batch: share for batch, share in told.items() if rows[batch] == 1}
            # Of two that have one route, such as of the source and of a conversion of it, the faster one counts.
            candidate = validations[name].candidate
            key = name_route(candidate.route), self._describe_route(candidate.route, candidate.options)
            known[key] = name, {"share": max(parts.values()), "shares": shares}
        for name, facts in known.values():
            one = validations[name]
            self._keep_candidate(one.candidate, seconds=one.seconds, race=race, outcome=WAS_RACED, **facts)

    def _guess_gain(self, route: tuple[str, ...], best: tuple[str, ...], batch: int | None) -> float:
        mine, other = self.find_share(route, batch) or UNKNOWN, self.find_share(best, batch) if best else None
        if other is None:
            return mine.find_gain(None)
        ratio = self.find_ratio(route, best, batch)
        return mine.find_gain(other) if ratio is None else other.mean * ratio.find_gain(_SAME)

    def _look_up_route(self, route: tuple[str, ...], changes: Changes = NO_CHANGES) -> tuple[list[Cost], Cost]:
        rows, like = self._look_up(name_route(route), self.source.format, self._describe_route(route, changes))
        return [row for row in rows if row.outcome in CANDIDATES], like

    def _look_up_step(self, adaptor: str, form: Format, options: str = "") -> tuple[list[Cost], Cost]:
        """Return the rows of an adaptor's steps; a route of this adaptor alone has its name, too."""
        rows, like = self._look_up(adaptor, form, options)
        return [row for row in rows if row.outcome not in CANDIDATES], like

    def _describe_route(self, route: Iterable[str], changes: Changes) -> str:
        """Return the options of a route's adaptors that the recipe or a trial sets to what is not their default."""
        changed = {name: self._changed.get(name, {}) for name in route}
        changed |= {name: drop_defaults(name, {**self._options.get(name, {}), **own}) for name, own in changes.items()}
        return describe_changes({name: own for name, own in changed.items() if own})

    def _look_up(self, what: str, form: Format, options: str = "") -> tuple[list[Cost], Cost]:
        return self._rows.get((what, form, options), []), self._describe(what, form)

    def _keep_candidate(self, candidate: Candidate, **facts: Any) -> None:
        facts["options"] = self._describe_route(candidate.route, candidate.options)
        self._keep(name_route(candidate.route), self.source.format, **facts)

    def _keep(self, what: str, form: Format, **facts: Any) -> None:
        try:
            write_cost(self._root, self._describe(what, form, **facts))
        except OSError as error:  # a search does without; what cannot do without the disk says so
            logger.warning("memory    keeps nothing of %s: %s", what, error)

    def _describe(self, what: str, form: Format, **facts: Any) -> Cost:
        versions = digest_versions(what)
        return self._like.model_copy(update={"what": what, "format": form, "versions": versions, **facts})


def _count_elements(source: Artifact, recipe: Recipe) -> int:
    """Return how many elements the inputs of one row have, at the recipe's largest shape."""
    dims = [spec.shape[1:] for spec in source.inputs]
    rows = (
        sum(math.prod(dim if isinstance(dim, int) else shape.sizes.get(dim, 1) for dim in each) for each in dims)
        for shape in recipe.all_shapes
    )
    return max(rows, default=0)


@lru_cache(maxsize=1)
def _read_shipped() -> tuple[Cost, ...]:
    return read_costs(SHIPPED)
