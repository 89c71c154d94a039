"""Sums and products whose bits do not depend on company, and functions that are near enough to the true ones."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy", reason="the extra demo is not installed")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blockpool.demo.arithmetic import (
    Floats,
    exp_of_negative,
    multiply_rows,
    ordered_sum,
    rms_norm,
    silu,
    softmax_weights,
)


def numbers(seed: int, *shape: int) -> Floats:
    """Of very different sizes, so that the order of a sum shows in its bits."""
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) * 10.0 ** random.integers(-3, 4, shape)).astype(np.float32)


def same_bits(first: Floats, second: Floats) -> bool:
    return first.shape == second.shape and np.ascontiguousarray(first).tobytes() == second.tobytes()


seeds = st.integers(0, 2**32 - 1)


def test_an_ordered_sum_adds_neighbours_first() -> None:
    a, b, c, d, e = terms = numbers(0, 5)
    assert ordered_sum(terms, 0) == ((a + b) + (c + d)) + e


@given(seeds, st.integers(1, 70), st.integers(0, 70))
def test_zeros_at_the_end_of_a_sum_change_nothing(seed: int, length: int, padding: int) -> None:
    terms = numbers(seed, 3, length)
    padded = np.concatenate([terms, np.zeros((3, padding), np.float32)], axis=1)
    assert same_bits(ordered_sum(terms, 1), ordered_sum(padded, 1))
    np.testing.assert_allclose(
        ordered_sum(terms, 1), terms.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5 * np.abs(terms).max()
    )


def test_a_sum_of_negative_zeros_is_zero_however_long() -> None:
    for length in (1, 2, 3):
        assert not np.signbit(ordered_sum(np.full((length,), -0.0, np.float32), 0))


@given(seeds, st.integers(1, 20), st.integers(1, 33), st.data())
def test_a_row_of_a_product_has_the_bits_that_it_has_alone(
    seed: int, num_rows: int, inputs: int, data: st.DataObject
) -> None:
    rows, weights = numbers(seed, num_rows, inputs), numbers(seed + 1, inputs, 12)
    product = multiply_rows(rows, weights)
    start = data.draw(st.integers(0, num_rows - 1))
    stop = data.draw(st.integers(start + 1, num_rows))
    assert same_bits(product[start:stop], multiply_rows(rows[start:stop], weights))
    strided = np.asfortranarray(np.repeat(rows, 2, axis=0))[::2]
    assert same_bits(product, multiply_rows(strided, weights)), "nor do they depend on the layout in memory"
    exact = rows.astype(np.float64) @ weights.astype(np.float64)
    bound = np.abs(rows).astype(np.float64) @ np.abs(weights).astype(np.float64)
    assert (np.abs(product - exact) <= 1e-5 * bound).all()


def test_a_library_product_would_not_do() -> None:
    """Why `multiply_rows` exists: the order of a plain sum shows, so a BLAS that changes it changes bits."""
    rows, weights = numbers(1, 1, 32), numbers(2, 32, 12)
    terms = rows[0][:, None] * weights
    one_by_one = np.zeros(12, np.float32)
    for term in terms:
        one_by_one = one_by_one + term
    assert not same_bits(multiply_rows(rows, weights)[0], one_by_one)


@given(seeds, st.integers(1, 50))
def test_the_exponential_is_near(seed: int, length: int) -> None:
    x = -np.abs(numbers(seed, length))
    exact = np.exp(np.maximum(x, -87).astype(np.float64))
    np.testing.assert_allclose(exp_of_negative(x), exact, rtol=2.0**-22)


def test_the_exponential_at_its_ends() -> None:
    x = np.array([0.0, -0.0, -87.0, -88.0, -np.inf], np.float32)
    assert exp_of_negative(x).tolist()[:2] == [1.0, 1.0]
    assert (exp_of_negative(x)[2:] < 2e-38).all()


@given(seeds, st.integers(1, 20), st.integers(0, 20))
def test_softmax_looks_at_what_is_seen_only(seed: int, length: int, padding: int) -> None:
    scores = numbers(seed, 2, length)
    weights = softmax_weights(scores, np.ones_like(scores, dtype=bool), axis=1)
    padded = np.concatenate([scores, np.full((2, padding), np.nan, np.float32)], axis=1)
    seen = np.arange(length + padding)[None, :] < length
    assert same_bits(softmax_weights(padded, seen, axis=1)[:, :length], weights)
    assert (softmax_weights(padded, seen, axis=1)[:, length:] == 0).all()
    exact = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    np.testing.assert_allclose(weights, exact / exact.sum(1, keepdims=True), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("seed", range(3))
def test_norm_and_silu_are_near(seed: int) -> None:
    rows = numbers(seed, 4, 16)
    exact = rows.astype(np.float64)
    root = np.sqrt((exact**2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(rms_norm(rows, np.full(16, 2, np.float32)), 2 * exact / root, rtol=1e-5)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(silu(rows), exact / (1 + np.exp(-exact)), rtol=1e-5, atol=1e-30)
