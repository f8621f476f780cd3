"""Confidence levels: their quantiles, and how a level is shared among looks and among finalists."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_POINTS = 160
"""Quadrature points for each look: the bounds of Pocock's table come out to ten digits with them."""


def check_confidence(confidence: float) -> None:
    """Raise a ``ValueError`` if a number is not strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence level is between 0 and 1, not {confidence!r}")


@lru_cache(maxsize=1024)
def find_t(confidence: float, degrees: int) -> float:
    """The two-sided quantile of Student's t with some degrees of freedom: standard errors on either side."""
    check_confidence(confidence)
    from scipy import special  # noqa: PLC0415 - half a second, which no command but a run needs

    return float(special.stdtrit(degrees, (1 + confidence) / 2))


@lru_cache(maxsize=256)
def find_z(confidence: float) -> float:
    """The two-sided quantile of the normal distribution: standard deviations on either side."""
    check_confidence(confidence)
    from scipy import special  # noqa: PLC0415 - see above

    return float(special.ndtri((1 + confidence) / 2))


@lru_cache(maxsize=256)
def correct_for_looks(confidence: float, *, looks: int) -> float:
    """The level that each look needs so that all looks together have the requested level.

    Pocock's bound (Pocock 1977, *Biometrika* 64:191-199), from the recursion of Armitage, McPherson and Rowe (1969, *J.
    R. Stat. Soc. A* 132:235-244): the same level at every look, milder than Bonferroni's (98.4 % for five looks instead
    of 99 %), since looks at growing data agree with each other. It is exact for looks after equal numbers of new data.
    It is conservative when ``n[i] / n[j] >= i / j`` for every look i before look j, as with a first look at seven
    launches and later ones every three or four. Each side's looks then agree even more (Slepian 1962, *Bell Syst. Tech.
    J.* 41:463-501). Used as the level of Student's t (Jennison and Turnbull 2000, *Group Sequential Methods*, section
    4.4); ``benchmarks/error_rates.py`` measures the resulting error at so few degrees of freedom.

    Raises:
        ValueError: No looks, or no confidence level.
    """
    check_confidence(confidence)
    if looks < 1:
        raise ValueError(f"data are looked at once at least, not {looks} times")
    if looks == 1:
        return confidence
    from scipy import optimize, special  # noqa: PLC0415 - see above

    highest = find_z(1 - (1 - confidence) / looks)  # Bonferroni's bound is always beyond Pocock's
    bound = optimize.brentq(lambda z: _ever_outside(z, looks) - (1 - confidence), find_z(confidence), highest)
    return float(special.erf(bound / np.sqrt(2)))


def _ever_outside(bound: float, looks: int) -> float:
    """The probability that a standardized random walk leaves ``[-bound, bound]`` at one of its first steps."""
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    sums = nodes * bound
    density = np.exp(-(sums**2) / 2) / np.sqrt(2 * np.pi)
    for step in range(2, looks + 1):
        mass = density * weights * bound * np.sqrt(step - 1)
        later = nodes * bound * np.sqrt(step)
        density = np.exp(-((later[:, None] - sums) ** 2) / 2) @ mass / np.sqrt(2 * np.pi)
        sums = later
    return 1 - float(density @ (weights * bound * np.sqrt(looks)))


def share_confidence(confidence: float, *, finalists: int) -> float:
    """The confidence of each of at most ``finalists``, tested until one passes, from the confidence of all together.

    Equal shares of the error level (Bonferroni). Testing in the order of speed until the first success gives every
    finalist a chance to pass by error, so the full level cannot be spent on each. A fixed sequence that spends it again
    (Maurer, Hothorn and Lehmacher 1995) must stop at the first *failure* instead. The fallback procedure (Wiens 2003,
    *Pharm. Stat.* 2:211-215) passes a share on only after a success, at which this procedure ends.

    Raises:
        ValueError: No finalists, or no confidence level.
    """
    check_confidence(confidence)
    if finalists < 1:
        raise ValueError(f"there is one finalist at least, not {finalists}")
    return 1 - (1 - confidence) / finalists


def share_among_slices(confidence: float, *, slices: int) -> float:
    """The confidence of the interval of each slice, from the confidence that all of them together contain the truth.

    Equal shares of the error level (Bonferroni; as simultaneous intervals: Dunn 1961, "Multiple comparisons among
    means", *J. Am. Stat. Assoc.* 56:52-64). Slices may depend on each other. Holm's procedure rejects more, but has no
    intervals of the same form, and the worst slice is reported with its interval. That every slice passes would be
    valid without the correction (Berger 1982, intersection-union tests). That some slice fails would not be: among many
    slices without a loss, one fails by chance.

    Raises:
        ValueError: No slices, or no confidence level.
    """
    check_confidence(confidence)
    if slices < 1:
        raise ValueError(f"there is one slice at least, not {slices}")
    return 1 - (1 - confidence) / slices


def spend_on_choice(confidence: float, *, number: int) -> float:
    """The confidence of the n-th candidate that a person chooses of one search, from that of all choices together.

    A person can choose again after each verdict, and so test any number of times on the same gate split. So each choice
    gets half the error level of the one before, ``alpha / 2**n``, and the sum never exceeds ``alpha``. This is alpha
    spending for a number of tests that is not known in advance (D. Foster and R. Stine, "Alpha-investing: a procedure
    for sequential control of expected false discoveries", J. R. Stat. Soc. B 70:429-444, 2008, without its returns).

    Raises:
        ValueError: ``number`` is less than 1, or ``confidence`` is not a confidence level.
    """
    check_confidence(confidence)
    if number < 1:
        raise ValueError(f"choices are counted from 1, not {number}")
    return 1 - (1 - confidence) * 0.5**number
