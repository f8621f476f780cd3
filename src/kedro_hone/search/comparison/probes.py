"""Probes: inputs that may not be in any split but may occur in use, made from the specifications of the inputs.

The source runs them first (``probe_runs``). If it returns finite numbers, a candidate must return the same. A route
that only converts must do so on all probes; any other, within its own error on the splits, on those that are not
extreme.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hone_runtime.values.artifact import TensorSpec
from kedro_hone.search.comparison.crops import ODD_BATCH, crop

Arrays = Mapping[str, NDArray[Any]]

ROWS: Final = ODD_BATCH
"""Rows of each probe, made from the first ones of the search split: a batch size that candidates were already run with.
"""

BANDS: Final = ((0, 8), (8, 15), (15, 24), (24, 31), (31, 32), (32, 53), (53, 61))
"""Powers of two between which integers are drawn: float32 (2^24), int32 and float64 (2^53) round above their limits."""

_ALONE: Final = 8
"""This many inputs of a kind have separate probes; the others share one."""

_LEFT: Final = "left padding"
_RIGHT: Final = "right padding"
_HOLE: Final = "a hole"
_SINGLE: Final = "a single one"
NOTHING: Final = "only zeros"
_OF_TOKENS: Final = "attention_mask"
"""A tokenizer marks at least one token, so no text leads to a row without any."""

_MOST_TIMES: Final = 4
"""A probe is at most this many times as large as the data in one dimension: the cost of attention is quadratic."""

_MOST_ELEMENTS: Final = 4_000_000
"""A probe that is larger than the data has at most this many numbers."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Rows that test one property of a model.

    Attributes:
        name: The property of the rows, as a noun, such as ``attention_mask with left padding``.
        feeds: All inputs by name, rows first.
        extreme: Whether only routes that only convert must agree on them.
        lenient: Whether a difference is only listed and drops no candidate: such rows do not occur in use.
        unlike_data: Whether no row of the data is like them, such as zeros in place of all numbers, a mask with a hole,
            or a text of one token.
        sizes: The dimensions with another size than in the data.
        group: Probes of one group become harder; if the source does not take one, later ones are left out.
    """

    name: str
    feeds: Arrays
    extreme: bool = False
    lenient: bool = False
    unlike_data: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)
    group: str = ""


def make_probes(
    specs: Sequence[TensorSpec],
    base: Arrays,
    *,
    masks: Mapping[str, Collection[str]],
    limits: Mapping[str, int],
    seed: int,
) -> list[Probe]:
    """Return the probes for a model with these inputs.

    Args:
        specs: The model's inputs.
        base: The first rows of a split for them, at most ``ROWS``.
        masks: The inputs that are masks along their last axis (see ``is_mask``), each with what its data have; see
            ``list_patterns``.
        limits: The largest size of a dimension, if the model has a limit.
        seed: The seed of the random integers.
    """
    random, make = np.random.default_rng(seed), partial(_make, base)
    others = {name: array for name, array in base.items() if name not in masks and array.size}
    found: list[Probe] = []
    for name in masks:
        for what, made in _list_masks(base[name]):
            lenient = what == NOTHING and name == _OF_TOKENS
            found.append(
                make(f"{name} with {what}", {name: made}, lenient=lenient, unlike_data=what not in masks[name])
            )
    for names in _group(name for name, array in others.items() if array.dtype.kind == "b"):
        for what, value in (("True", True), ("False", False)):
            found.append(make(f"{what} in {_join(names)}", {name: np.full_like(base[name], value) for name in names}))
    for names in _group(name for name, array in others.items() if array.dtype.kind == "U"):
        for what, text in (("empty text", ""), ("unseen text", "\u2042 unseen")):
            found.append(make(f"{what} in {_join(names)}", {name: np.full(base[name].shape, text) for name in names}))
    found += _list_floats({name: array for name, array in others.items() if array.dtype.kind == "f"}, make)
    found += _resize(specs, base, limits, masks=masks)
    for names in _group(name for name, array in others.items() if array.dtype.kind in "iu"):
        found += _list_integers({name: base[name] for name in names}, random, make)
    return found  # integers are last: a source may interpret them as sizes


def _make(base: Arrays, name: str, changed: Arrays, **more: Any) -> Probe:
    """Return the first rows of a split with other values for some inputs."""
    return Probe(name=name, feeds={**base, **changed}, **more)


def _group(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield inputs one by one, and all after the first few together: tables have hundreds of columns."""
    listed = [*names]
    yield from ((name,) for name in listed[:_ALONE])
    if rest := tuple(listed[_ALONE:]):
        yield rest


def _join(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more inputs"


def is_mask(spec: TensorSpec, array: NDArray[Any]) -> bool:
    """Return whether an input is a mask along its last axis: truth values, or 0 and 1 in an input named as a mask."""
    if array.ndim < 2 or array.shape[-1] < 3:
        return False
    return array.dtype.kind == "b" or ("mask" in spec.name.lower() and bool(np.isin(array, (0, 1)).all()))


def list_patterns(masks: NDArray[Any]) -> frozenset[str]:
    """Return which of the patterns that are tried occur in the lines of a mask, along its last axis."""
    lines = (masks != 0).reshape(-1, masks.shape[-1])
    begins = lines[:, 0].astype(int) + (lines[:, 1:] & ~lines[:, :-1]).sum(axis=1)  # the number of runs of ones
    found = {
        _LEFT: (begins > 0) & ~lines[:, 0],
        _RIGHT: lines[:, 0] & ~lines[:, -1],
        _HOLE: begins > 1,
        _SINGLE: lines.sum(axis=1) == 1,
        NOTHING: begins == 0,
    }
    return frozenset(what for what, there in found.items() if there.any())


def _list_masks(rows: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    length = rows.shape[-1]
    third = max(length // 3, 1)
    for what, kept in (
        (_LEFT, range(third, length)),
        (_RIGHT, range(2 * third)),
        (_HOLE, [*range(third), *range(2 * third, length)]),
        (_SINGLE, [0]),
        (NOTHING, []),
    ):
        made = np.zeros_like(rows)
        made[..., list(kept)] = 1
        yield what, made


def _list_integers(base: Arrays, random: np.random.Generator, make: Callable[..., Probe]) -> Iterator[Probe]:
    """Yield integers between powers of two, for all inputs of one probe, up to the range of the narrowest type."""
    lowest = max(int(np.iinfo(array.dtype).min) for array in base.values())
    highest = min(int(np.iinfo(array.dtype).max) for array in base.values())
    seen = max(int(array.max()) for array in base.values())
    near = [(seen * 2**power, seen * 2 ** (power + 1)) for power in range(4)] if seen > 0 else []
    for sign, most in ((1, highest), (-1, -lowest)):
        wide = [(2**low if low else 0, 2**high) for low, high in BANDS]
        for first, last in sorted({*(near if sign > 0 else ()), *((low, min(high, most)) for low, high in wide)}):
            if first < last <= most:
                drawn = {name: sign * _draw(random, first, last, array.shape) for name, array in base.items()}
                made = {name: array.astype(base[name].dtype) for name, array in drawn.items()}
                names = _join([*base])
                yield make(f"{names} of {sign * first} to {sign * last}", made, group=f"{names} {sign}")


def _draw(random: np.random.Generator, first: int, last: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return integers with uniform logarithms: otherwise nearly all would be close to the largest."""
    powers = random.uniform(np.log2(max(first, 1)), np.log2(last), shape)
    return np.clip(np.exp2(powers).astype(np.int64), first, last)


def _list_floats(base: Arrays, make: Callable[..., Probe]) -> Iterator[Probe]:
    if not base:
        return
    yield make("zeros", {name: np.zeros_like(array) for name, array in base.items()}, unlike_data=True)
    tiny = {name: np.full_like(array, np.finfo(array.dtype).smallest_subnormal * 64) for name, array in base.items()}
    yield make("denormal numbers", tiny, extreme=True)
    for what, value in (("NaN", np.nan), ("infinity", np.inf), ("-infinity", -np.inf)):
        for names in _group(base):
            made = {name: base[name].reshape(len(base[name]), -1).copy() for name in names}
            for row in range(ROWS):  # one number in each row
                table = made[names[row % len(names)]]
                table[row : row + 1, row % table.shape[1]] = value
            shaped = {name: table.reshape(base[name].shape) for name, table in made.items()}
            yield make(f"{what} in {_join(names)}", shaped, extreme=True)


def _list_single(specs: Sequence[TensorSpec], masks: Mapping[str, Collection[str]]) -> set[str]:
    """Return the dimensions in which a row of the data has one element, by a mask over them."""
    return {str(spec.shape[-1]) for spec in specs if _SINGLE in masks.get(spec.name, ())}


def _resize(
    specs: Sequence[TensorSpec], base: Arrays, limits: Mapping[str, int], *, masks: Mapping[str, Collection[str]]
) -> Iterator[Probe]:
    """Yield the rows with one dimension at other sizes: 1, half and twice that of the data, or its largest.

    Signals and images have a minimum size that no file states: a kernel that is larger than the input is meaningless.
    So only tokens and other integers, such as a text of one token, must be right at the size 1; it is unlike the data
    unless a mask has a single one.
    """
    single = _list_single(specs, masks)
    known: dict[str, int] = {}
    tokens: set[str] = set()
    for spec in specs:
        for axis, dim in enumerate(spec.shape):
            if axis and isinstance(dim, str):
                known.setdefault(dim, base[spec.name].shape[axis])
                tokens |= {dim} if base[spec.name].dtype.kind in "iu" else set()
    for dim, size in known.items():
        for small in sorted({1, size // 2} - {0, size}):
            cut = {spec.name: crop(base[spec.name], spec.shape, {dim: small}, rows=base) for spec in specs}
            lenient = small == 1 and dim not in tokens
            unlike = small == 1 and dim not in single
            yield Probe(name=f"{dim} of {small}", feeds=cut, sizes={dim: small}, lenient=lenient, unlike_data=unlike)
        large = min(limits.get(dim, 2 * size), _MOST_TIMES * size)
        stretch = any(spec.name in masks and spec.shape[-1] == dim for spec in specs)
        grown = {spec.name: _grow(base[spec.name], spec, dim, large, stretch=stretch) for spec in specs}
        if large > size and sum(array.size for array in grown.values()) <= _MOST_ELEMENTS:
            yield Probe(name=f"{dim} of {large}", feeds=grown, sizes={dim: large})


def _grow(array: NDArray[Any], spec: TensorSpec, dim: str, size: int, *, stretch: bool) -> NDArray[Any]:
    """Return an input that is larger in a dimension: its elements again and again, or each several times (``stretch``).

    Beside a mask each is repeated: right padding remains right padding, and belongs to the same tokens.
    """
    for axis, name in enumerate(spec.shape):
        if axis and name == dim:
            places = np.arange(size)
            stretched = places * array.shape[axis] // size
            array = np.take(array, stretched if stretch else places % array.shape[axis], axis=axis)
    return np.ascontiguousarray(array)
