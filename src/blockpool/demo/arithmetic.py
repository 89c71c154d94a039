"""Arithmetic whose bits depend on nothing but the numbers: not on the batch, the chunk or the padding.

A matrix product of NumPy calls a BLAS, which may add in another order for one row than for eight; so a token could get
other bits when it is computed alone than in a chunk. Here everything is made of operations on single elements, each of
which IEEE 754 defines to the last bit (+ - * / sqrt, maximum, rounding, scaling by powers of two), and every sum is
taken in one order that follows from the places of the terms alone. That is why a token's keys, values and logits are
the same bits however its prompt was cut, whoever ran beside it, and wherever its blocks lie.

All arrays are float32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts: the first has few enough bits that n * _LN2_HIGH is exact.
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
# exp(r) on |r| <= ln(2) / 2 as a polynomial, highest power first: 1 / n! is near enough for float32.
_EXP_TERMS = tuple(np.float32(value) for value in (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1, 1))
_LOWEST_EXPONENT = np.float32(-87.0)


def ordered_sum(terms: Floats, axis: int) -> Floats:
    """Sums along an axis: neighbours first, then the neighbours among those sums, and so on.

    The order depends on the place of a term on this axis alone. Zeros after the last term change nothing: they only
    ever add a zero. (The last addition turns a sum of -0.0 into 0.0, for a padded one would come out as that.)

    Args:
        terms: Any shape; at least one term on the axis.
        axis: Which one; the result lacks it.
    """
    sums = np.moveaxis(terms, axis, 0) if axis else terms
    while len(sums) > 1:
        pairs = sums[0 : len(sums) - 1 : 2] + sums[1::2]
        sums = np.concatenate([pairs, sums[-1:]]) if len(sums) % 2 else pairs
    total: Floats = sums[0] + np.float32(0.0)
    return total


def multiply_rows(rows: Floats, weights: Floats) -> Floats:
    """`rows @ weights`, each row for itself: [tokens, inputs] by [inputs, outputs] gives [tokens, outputs]."""
    return ordered_sum(rows.T[:, :, None] * weights[:, None, :], axis=0)


def exp_of_negative(x: Floats) -> Floats:
    """The exponential of x <= 0, to about one unit in the last place; below -87 as for -87, which is next to nothing.

    NaN gives NaN.
    """
    x = np.maximum(x, _LOWEST_EXPONENT)
    powers = np.rint(x * _LOG2_E)
    rest = (x - powers * _LN2_HIGH) - powers * _LN2_LOW
    result = np.full_like(rest, _EXP_TERMS[0])
    for term in _EXP_TERMS[1:]:
        result = result * rest + term
    with np.errstate(invalid="ignore"):  # a NaN becomes any integer, and stays NaN in `result`
        scaled: Floats = np.ldexp(result, powers.astype(np.int32))
    return scaled


def softmax_weights(scores: Floats, seen: NDArray[np.bool_], axis: int) -> Floats:
    """Softmax along an axis over the scores that are `seen`; the others get exactly 0, whatever stands there.

    Args:
        scores: Any shape; may hold NaN where not seen.
        seen: Of a shape that broadcasts to that of the scores; at least one per line of the axis.
        axis: Which one.
    """
    scores = np.where(seen, scores, np.float32(-np.inf))
    scores = scores - scores.max(axis=axis, keepdims=True)
    weights: Floats = np.where(seen, exp_of_negative(scores), np.float32(0.0))
    totals: Floats = np.expand_dims(ordered_sum(weights, axis), axis)
    return weights / totals


def rms_norm(rows: Floats, gain: Floats) -> Floats:
    """Scales each row to a root mean square of 1, then by the gain of each column."""
    mean_square = ordered_sum((rows * rows).T, axis=0) / np.float32(rows.shape[1])
    scaled: Floats = rows / np.sqrt(mean_square + np.float32(1e-6))[:, None] * gain
    return scaled


def silu(x: Floats) -> Floats:
    """The activation x / (1 + exp(-x))."""
    small = exp_of_negative(-np.abs(x))
    one = np.float32(1.0)
    activated: Floats = x * np.where(x >= 0, one, small) / (one + small)
    return activated
