"""What earlier steps, validations and races took and gained: rows next to the store, and what follows from them.

What a step takes is the median of the rows that are nearest in size, a share is their geometric mean (k nearest
neighbours, T. Cover and P. Hart, "Nearest neighbor pattern classification", IEEE Transactions on Information Theory,
1967): few rows, and each can be looked at.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import Field, ValidationError

from kedro_hone.core.store.disk import append_line
from kedro_hone.core.values.base import Value
from kedro_hone.core.values.regular import open_regular

_Part = Annotated[float, Field(gt=0, le=1000)]
_Rows = Annotated[int, Field(ge=1, le=1 << 31)]

NEIGHBOURS: Final = 5
LEAST_DEVIATION: Final = 0.2
"""Of the logarithm of a share: from model to model candidates change places within about a fifth."""
LEAST_PAIRS: Final = 2
LEAST_PAIRED: Final = 0.1
"""The least deviation of the logarithm of a ratio of two candidates that were raced together, and of how many races one
is taken. Predicted so from others, 184 ratios in thirteen races of convolutional networks were wrong by 0.061 in the
root mean square, and by 0.24 at most (``benchmarks/memory.py``). Two races do not tell of a deviation: it is then at
least that of two shares."""
FAR_BATCH: Final = 16
"""Beyond this factor between two batch sizes the one says nothing of the other: the demo's network has one winner at
1 row, and another at 64."""
_SAME: Final = 0.01
"""A model that is no further away is the same one, perhaps with other weights."""
_LEAST_SHARE: Final = 1e-6
"""No candidate that was measured is as slow; a row that says less is no reason to fail."""
WAS_RACED: Final = "raced"
WAS_INVALID: Final = "invalid"
CANDIDATES: Final = frozenset({WAS_RACED, WAS_INVALID})
"""The outcomes in the rows of candidates, who raced or came to nothing before; those of steps have others."""
WAS_CUT: Final = "cut"
"""The outcome of a step that the budget ended: it takes as long at least."""
_FRUITLESS: Final = frozenset({"refused", "failed", WAS_INVALID})
"""The outcomes of what came to nothing."""
_LONGEST: Final = 86_400.0
"""Seconds: the limits of workers are far below a day."""
_LEAST_PLAUSIBLE: Final = 1e-3
"""The least share of a row that is read: of 1,729 that are shipped, the least is 0.02."""
_FILE: Final = "costs.jsonl"
_MOST_ROWS: Final = 5000
_MOST_BYTES: Final = 8 << 20
"""The newest rows that are read."""
_FAR: Final = math.log(3.0)
"""The logarithm of the factor in size from which on a model is not similar. A row of another kind of processor, or of a
model with other inputs, or of other versions of the toolchains, is so much further away; one of other operators by the
share of them that only one of both has (P. Jaccard, "The distribution of the flora in the alpine zone", New Phytologist
11, 1912); and one that was measured with other threads, or with larger rows, by the logarithm of the factor."""


class Cost(Value):
    """What one step took, or what one candidate gained.

    Attributes:
        what: An adaptor, or a candidate's route as adaptors joined by ``>``.
        format: The format of the model: of the step's input, or the source's.
        inputs: The source model's inputs, by type and rank, such as ``float32/4`` for images.
        operators: The kinds of layers or operators that the source model computes with; empty where nothing tells.
        size: The source model's bytes.
        seconds: What a step took; of a candidate, its validation.
        outcome: ``artifact``, ``refused``, ``failed``, or ``cut`` where the budget ended it; of a candidate, ``raced``,
            or ``invalid`` where building or validating it came to nothing.
        share: Of a candidate that was raced: its speed-up over that of the best of the default toolchains in its race,
            by the objective or at a shape, whichever is most; above 1 where another toolchain was faster.
        shares: The same at each batch size that was raced, by its rows; empty where nothing tells.
        race: The same for all candidates of one race; empty where nothing tells.
        host: The processor's vector instructions.
        threads: How many a runtime could use; 0 where nothing tells.
        elements: Of all inputs of one row, such as the length of a text, at the largest shape; 0 where nothing tells.
        versions: Of the toolchains of the adaptors; empty where nothing tells.
        options: The options that differ from the adaptors' defaults, as JSON; empty where none does. A row of others
            says nothing of the defaults.
    """

    what: str
    format: str
    inputs: str = ""
    operators: tuple[str, ...] = ()
    size: int = Field(ge=0, le=1 << 62)
    seconds: float = Field(ge=0, le=1e7, allow_inf_nan=False)
    outcome: str
    share: _Part | None = None
    shares: dict[_Rows, _Part] = Field(default_factory=dict)
    race: str = ""
    host: str = ""
    threads: int = Field(0, ge=0, le=1 << 31)
    elements: int = Field(0, ge=0, le=1 << 62)
    versions: str = ""
    options: str = ""

    def find_share(self, batch: int | None) -> float | None:
        """Return the share at the batch size that is nearest to some rows, or at the best shape where none is told.

        None where the nearest is further than a factor of ``FAR_BATCH``.
        """
        if batch is None or not self.shares:
            return self.share
        distances = {rows: abs(math.log(rows / batch)) for rows in self.shares}
        nearest = min(distances, key=lambda rows: (distances[rows], rows))
        return self.shares[nearest] if distances[nearest] <= math.log(FAR_BATCH) else None


class Share(NamedTuple):
    """A share of the best's speed-up, or a ratio to another one's, that is expected, and how uncertain it is.

    ``deviation`` is that of its logarithm, and ``rows`` is how many tell of it.
    """

    share: float
    deviation: float
    rows: int

    def find_gain(self, best: Share | None) -> float:
        """Return by how much it is expected to exceed the best share so far; all of it where there is none.

        Neither is exact. This is the expected improvement (D. R. Jones, M. Schonlau and W. J. Welch, "Efficient global
        optimization of expensive black-box functions", J. Global Optimization 13, 1998, section 4.1) over a best that
        is a guess itself, the mean of max(X - Y, 0) of two logarithmic normal variables (W. Margrabe, "The value of an
        option to exchange one asset for another", J. Finance 33, 1978).
        """
        if best is None:
            return self.mean
        deviation = math.hypot(self.deviation, best.deviation)
        above = math.log(self.mean / best.mean) / deviation + deviation / 2
        standard = statistics.NormalDist()
        # Far below the best the products are nearly equal, and their difference may be rounded to less than nothing.
        return max(0.0, self.mean * standard.cdf(above) - best.mean * standard.cdf(above - deviation))

    @property
    def mean(self) -> float:
        """The mean of a logarithmic normal variable, whose median is the share."""
        return self.share * math.exp(self.deviation**2 / 2)


def write_cost(root: Path, cost: Cost) -> None:
    """Add a row to those of a store's folder, in one write.

    Raises:
        OSError: It cannot be written, or what is there is no regular file: a pipe would be waited for.
    """
    root.mkdir(parents=True, exist_ok=True)  # on a worker of a cluster nobody made it
    file = root / _FILE
    if os.path.lexists(file) and not stat.S_ISREG(file.lstat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(file))
    append_line(file, json.dumps(cost.model_dump(mode="json")))


def stamp_costs(root: Path) -> tuple[int, int] | None:
    """Return what changes with the rows of a store's folder; None where there are none."""
    try:
        found = (root / _FILE).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def read_costs(path: Path) -> tuple[Cost, ...]:
    """Return the rows of a store's folder, or of a file that is shipped; those that cannot be read are left out.

    So are all of a store's that another user owns, of what is no regular file, and those that nobody can have measured:
    they decide what is not tried.
    """
    own = path.is_dir()
    try:
        with open_regular(path / _FILE if own else path) as stream:
            found = os.fstat(stream.fileno())
            if own and found.st_uid != os.geteuid():
                return ()
            stream.seek(-min(_MOST_BYTES, found.st_size), os.SEEK_END)
            lines = stream.read(_MOST_BYTES).decode(errors="replace").splitlines()[-_MOST_ROWS:]
    except (OSError, ValueError):
        return ()
    return tuple(row for row in map(_parse, lines) if row is not None and _is_plausible(row))


def _parse(line: str) -> Cost | None:
    try:
        return Cost.model_validate_json(line)
    except ValidationError:
        return None


def _is_plausible(row: Cost) -> bool:
    shares = (*row.shares.values(), *([] if row.share is None else [row.share]))
    return row.seconds <= _LONGEST and all(share >= _LEAST_PLAUSIBLE for share in shares)


def guess_seconds(rows: Iterable[Cost], like: Cost, *, least: int = 1) -> float | None:
    """Return the seconds that a step or a candidate is expected to take, from rows of it; None where fewer tell.

    Where two similar models tell, others do not count: another kind of processor took 8 s for what takes 60 s here;
    and where two of the same one do on such a machine, as before it was trained again, nothing else counts. Nor
    do refusals and failures count where something was made: what is refused at once says not how long it builds. What
    the budget cut takes as long at least: it counts among those that tell, and its seconds where nothing was finished.
    """
    known = [*rows]
    known = [row for row in known if row.outcome not in _FRUITLESS] or known
    similar = keep_similar(known, like)
    near = find_nearest(similar if len(similar) > 1 else known, like)
    if len(near) < max(least, 1):
        return None
    same = [row for row in near if _measure_distance(row, like) < _SAME]
    near = same if len(same) > 1 else near  # one alone may be of a busy run
    finished = [row.seconds for row in near if row.outcome != WAS_CUT]
    return statistics.median(finished) if finished else max(row.seconds for row in near)


def guess_chance(rows: Iterable[Cost], like: Cost) -> float:
    """Return how likely a candidate is to race at all, from rows of it; 1 where nothing tells.

    It is the share that raced of the nearest rows of similar models, and of one more that did (additive smoothing), so
    that what failed once is still tried.
    """
    near = find_nearest(keep_similar((row for row in rows if row.outcome in CANDIDATES), like), like)
    return (1 + sum(row.outcome == WAS_RACED for row in near)) / (1 + len(near))


def guess_share(rows: Iterable[Cost], like: Cost, batch: int | None = None) -> Share | None:
    """Return which share of the best's speed-up a candidate is expected to have; None where no row tells.

    With ``batch`` it is the share at a batch size, of so many rows; else that at the shape where it is largest.

    It is the geometric mean over the nearest rows of similar models, with their deviation, or ``LEAST_DEVIATION`` where
    that is less.
    """
    similar = keep_similar((row for row in rows if row.find_share(batch) is not None), like)
    shares = filter(None, (row.find_share(batch) for row in find_nearest(similar, like)))
    near = [math.log(max(share, _LEAST_SHARE)) for share in shares]
    if not near:
        return None
    return Share(math.exp(statistics.fmean(near)), max(LEAST_DEVIATION, _deviate(near)), len(near))


def guess_ratio(rows: Iterable[Cost], others: Iterable[Cost], like: Cost, batch: int | None) -> Share | None:
    """Return how many times the speed of another candidate one is expected to have at a batch size.

    It is taken from the nearest races of similar models in which both were. What one model does to the speed of both is
    not in it, so that it deviates less than two shares do; and neither is who else raced, of whose best each share is.
    None where fewer than ``LEAST_PAIRS`` tell.
    """
    known = {row.race: row for row in others if row.race and row.shares}
    similar = keep_similar((row for row in rows if row.shares and row.race in known), like)
    pairs = [(row.find_share(batch), known[row.race].find_share(batch)) for row in find_nearest(similar, like)]
    logs = [math.log(max(mine, _LEAST_SHARE) / max(other, _LEAST_SHARE)) for mine, other in pairs if mine and other]
    if len(logs) < LEAST_PAIRS:
        return None
    deviation = _deviate(logs) * math.sqrt(1 + 1 / len(logs))  # of the next one, not of the mean
    least = LEAST_PAIRED if len(logs) > LEAST_PAIRS else math.hypot(LEAST_DEVIATION, LEAST_DEVIATION)
    return Share(math.exp(statistics.fmean(logs)), max(least, deviation), len(logs))


def _deviate(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def find_nearest(rows: Iterable[Cost], like: Cost) -> list[Cost]:
    """Return the rows that are nearest: in size, with such inputs, on such a processor."""
    return sorted(rows, key=lambda row: _measure_distance(row, like))[:NEIGHBOURS]


def keep_similar(rows: Iterable[Cost], like: Cost) -> list[Cost]:
    """Return the rows of similar models, which are nearer than one of three times the size."""
    return [row for row in rows if _measure_distance(row, like) < _FAR]


def _measure_distance(row: Cost, like: Cost) -> float:
    differs = (row.host != like.host) + (row.inputs != like.inputs) + _compare(row.operators, like.operators)
    differs += bool(row.versions and like.versions) and row.versions != like.versions
    scaled = [(row.size + 1, like.size + 1), (row.threads, like.threads), (row.elements, like.elements)]
    return sum(abs(math.log(mine / other)) for mine, other in scaled if mine and other) + differs * _FAR


def _compare(some: tuple[str, ...], others: tuple[str, ...]) -> float:
    """Return the share of two models' operators that only one of them has; 0 where those of one are not known."""
    if not some or not others:
        return 0.0
    return len(set(some) ^ set(others)) / len({*some, *others})
