"""Exact reading of decimal text into scaled integers, a column at a time.

Owns the arithmetic that keeps a 7-digit fraction of a second exact; no float is involved. Leaves
row numbers and messages to its callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_DIGITS = 19
"""Digits that always fit uint64; longer numbers take the slow path."""
MAX_WIDTH = 40
"""Characters the fast path looks at; longer texts take the slow path."""
INT64_MAX = np.iinfo(np.int64).max


Numbers = Sequence[str | int] | NDArray[np.object_]


class Decimals(NamedTuple):
    """A column of numbers times 10 ** places, as int64; `valid` and `exact` are per row."""

    values: NDArray[np.int64]
    valid: NDArray[np.bool_]
    """Whether the text is a finite decimal number whose scaled value fits int64."""
    exact: NDArray[np.bool_]
    """Whether nothing was rounded away (half to even)."""


def read_decimals(numbers: Numbers, places: int) -> Decimals:
    """`numbers`, texts or ints, times 10 ** places, rounded half to even; as read_decimal on every row."""
    if set(map(type, numbers)) == {int}:
        whole = _from_ints(numbers, places)
        if whole is not None:
            return whole
    column = np.asarray(numbers, dtype=object)
    try:
        packed = column.astype("S")
    except UnicodeEncodeError:
        return _slow(column, places, np.ones(len(column), dtype=bool), _blank(len(column)))
    if packed.itemsize > MAX_WIDTH:
        return _slow(column, places, np.ones(len(column), dtype=bool), _blank(len(column)))
    fast, odd = _fast(packed, places)
    return _slow(column, places, odd, fast) if odd.any() else fast


def read_decimal(text: str, places: int) -> tuple[int, bool] | None:
    """One number times 10 ** places and whether that is exact; None if it is no finite decimal."""
    if "/" in text or "_" in text:
        return None
    try:
        scaled = Fraction(text.strip()) * 10**places
    except ValueError:
        return None
    rounded = round(scaled)
    return (rounded, rounded == scaled) if abs(rounded) <= INT64_MAX else None


def _from_ints(numbers: Numbers, places: int) -> Decimals | None:
    """Ints need no reading; None if one of them is too large when scaled."""
    try:
        values = np.asarray(numbers, dtype=np.int64)
    except OverflowError:
        return None
    if np.abs(values).max() > INT64_MAX // 10**places:
        return None
    sure = np.ones(len(values), dtype=bool)
    return Decimals(values * 10**places, sure, sure)


def _blank(rows: int) -> Decimals:
    return Decimals(np.zeros(rows, np.int64), np.zeros(rows, bool), np.zeros(rows, bool))


def _slow(column: NDArray[np.object_], places: int, odd: NDArray[np.bool_], base: Decimals) -> Decimals:
    """`base` with the `odd` rows read one by one: exponents, spaces, very long numbers, nonsense."""
    for row in np.flatnonzero(odd):
        read = read_decimal(str(column[row]), places)
        base.valid[row] = read is not None
        base.values[row], base.exact[row] = read or (0, False)
    return base


def _fast(packed: NDArray[np.bytes_], places: int) -> tuple[Decimals, NDArray[np.bool_]]:
    """The rows that are sign, digits, point, digits; and a mask of those that are not."""
    rows = len(packed)
    letters = packed.view(np.uint8).reshape(rows, packed.itemsize).T
    value = np.zeros(rows, np.uint64)
    digits, fraction = np.zeros(rows, np.int16), np.zeros(rows, np.int16)
    pointed, odd = np.zeros(rows, bool), np.zeros(rows, bool)
    half, beyond = np.zeros(rows, np.uint8), np.zeros(rows, bool)
    signed = np.isin(letters[0], (ord("-"), ord("+"))) if rows else odd
    for position, letter in enumerate(letters):
        digit = letter - np.uint8(ord("0"))
        is_digit = digit <= 9
        point = (letter == ord(".")) & ~pointed
        odd |= ~(is_digit | point | (letter == 0) | (signed if position == 0 else False))
        keep = is_digit & (fraction < places) if places else is_digit & ~pointed
        value = np.where(keep, value * np.uint64(10) + digit, value)
        digits += keep
        cut = is_digit & ~keep
        if cut.any():
            first = cut & (fraction == places)
            half = np.where(first, digit, half)
            beyond |= cut & ~first & (digit > 0)
        fraction += is_digit & pointed
        pointed |= point
    missing = np.maximum(places - fraction, 0)
    odd |= (fraction + digits == 0) | (digits + missing > MAX_DIGITS)
    value *= np.power(np.uint64(10), np.where(odd, 0, missing).astype(np.uint64))
    value += (half > 5) | ((half == 5) & (beyond | (value % np.uint64(2) == 1)))
    odd |= value > np.uint64(INT64_MAX)
    values = np.where(odd, np.uint64(0), value).astype(np.int64)
    values = np.where(letters[0] == ord("-"), -values, values) if rows else values
    return Decimals(values, ~odd, ~odd & (half == 0) & ~beyond), odd
