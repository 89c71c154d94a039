"""The paged model against a plain one, and each token's bits against all ways to cut a sequence."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

pytest.importorskip("numpy", reason="the extra demo is not installed")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from blockpool.demo.arithmetic import Floats
from blockpool.demo.kv_groups import LayerPlace, group_windows, layer_places
from blockpool.demo.model import Batch, Model, sample_greedily
from blockpool.demo.model_config import ModelConfig
from blockpool.demo.paged_attention import PagedKVCache
from blockpool.demo.weights import random_weights
from blockpool.errors import ArgumentError, ConfigError

from .reference_model import reference_logits

BLOCK_SIZE = 4
FULL = ModelConfig((None, None), vocab_size=64, hidden_size=16, intermediate_size=24, max_model_len=64)
HYBRID = ModelConfig(
    (None, 6, None, 6), vocab_size=64, hidden_size=16, intermediate_size=24, max_model_len=64
)
configs = pytest.mark.parametrize("config", [FULL, HYBRID], ids=["full", "hybrid"])


def chunked_logits(
    model: Model, sequences: Sequence[Sequence[int]], cuts: Sequence[Sequence[int]]
) -> list[Floats]:
    """Computes sequences side by side, a chunk of each per step; each has all the blocks that it needs.

    Args:
        cuts: Of each sequence, the lengths of its chunks, which add up to its length.
    """
    groups = len(group_windows(model.config.windows))
    per_sequence = 1 + max(len(tokens) for tokens in sequences) // BLOCK_SIZE
    num_blocks = 1 + groups * len(sequences) * per_sequence
    config = model.config
    cache = PagedKVCache(len(config.windows), num_blocks, BLOCK_SIZE, config.num_kv_heads, config.head_size)
    free = iter(range(num_blocks - 1, 0, -1))
    tables = [[[next(free) for _ in range(per_sequence)] for _ in sequences] for _ in range(groups)]
    logits: list[list[Floats]] = [[] for _ in sequences]
    starts = [0] * len(sequences)
    for step in itertools.zip_longest(*cuts, fillvalue=0):
        rows = [
            (number, position)
            for number, length in enumerate(step)
            for position in range(starts[number], starts[number] + length)
        ]
        slots = tuple(
            np.array([table[n][p // BLOCK_SIZE] * BLOCK_SIZE + p % BLOCK_SIZE for n, p in rows])
            for table in tables
        )
        batch = Batch(
            token_ids=np.array([sequences[n][p] for n, p in rows]),
            positions=np.array([p for _, p in rows]),
            slots=slots,
            block_tables=tuple(np.array([table[n] for n, _ in rows]) for table in tables),
            sampled_rows=np.arange(len(rows)),
        )
        for (number, _), row in zip(rows, model.forward(batch, cache), strict=True):
            logits[number].append(row)
        starts = [start + length for start, length in zip(starts, step, strict=True)]
    return [np.stack(rows) for rows in logits]


@st.composite
def cut_sequences(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    sequences = draw(st.lists(st.lists(st.integers(0, 63), min_size=1, max_size=30), min_size=1, max_size=3))
    cuts = []
    for tokens in sequences:
        ends = draw(st.sets(st.integers(1, len(tokens)))) | {len(tokens)}
        cuts.append([stop - start for start, stop in itertools.pairwise([0, *sorted(ends)])])
    return sequences, cuts


@configs
def test_the_logits_are_those_of_the_plain_model(config: ModelConfig) -> None:
    random = np.random.default_rng(5)
    tokens = random.integers(0, config.vocab_size, 50).tolist()
    (logits,) = chunked_logits(Model(config), [tokens], [[17, 1, 32]])
    np.testing.assert_allclose(logits, reference_logits(config, tokens), rtol=1e-3, atol=1e-4)


@configs
@settings(max_examples=25)
@given(cut=cut_sequences())
def test_no_cut_and_no_company_changes_a_bit(
    config: ModelConfig, cut: tuple[list[list[int]], list[list[int]]]
) -> None:
    model = Model(config)
    sequences, cuts = cut
    together = chunked_logits(model, sequences, cuts)
    for tokens, logits in zip(sequences, together, strict=True):
        (whole,) = chunked_logits(model, [tokens], [[len(tokens)]])
        assert whole.tobytes() == logits.tobytes()


def test_the_logits_depend_on_all_that_is_seen_and_on_nothing_else() -> None:
    """Else equal bits would prove nothing."""
    model = Model(ModelConfig((6,), vocab_size=64, hidden_size=16, max_model_len=64))
    tokens = list(range(20))
    changed = [63, *tokens[1:]]
    (first,), (second,) = (chunked_logits(model, [each], [[20]]) for each in (tokens, changed))
    differs = (first != second).any(axis=1).tolist()
    assert differs == [True] * 6 + [False] * 14, "one layer with a window of 6 looks back 6 tokens"
    full = Model(FULL)
    (first,), (second,) = (chunked_logits(full, [each], [[20]]) for each in (tokens, changed))
    assert (first != second).any(axis=1).all()


def test_places_of_layers() -> None:
    assert layer_places((None, 8, None, 8, 4)) == [
        LayerPlace(0, 0), LayerPlace(1, 0), LayerPlace(0, 1), LayerPlace(1, 1), LayerPlace(2, 0)
    ]  # fmt: skip
    assert group_windows((8, None, 8)) == [8, None]


def test_weights_are_those_of_the_seed() -> None:
    first, again, other = (random_weights(ModelConfig(seed=seed)) for seed in (1, 1, 2))
    assert first.head.tobytes() == again.head.tobytes()
    assert first.head.tobytes() != other.head.tobytes()
    assert first.head.dtype == np.float32
    spread = random_weights(ModelConfig()).head.std() * np.sqrt(ModelConfig().hidden_size)
    assert 0.95 < spread < 1.05


def test_greedy_sampling_takes_the_first_of_the_highest_and_refuses_nan() -> None:
    assert sample_greedily(np.array([[0, 2, 2], [3, 1, 2]], np.float32)) == [1, 0]
    with pytest.raises(AssertionError, match="does not have"):
        sample_greedily(np.array([[0, np.nan]], np.float32))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"windows": ()}, "windows"),
        ({"windows": (None, 0)}, "windows"),
        ({"num_heads": 3}, "num_heads"),
        ({"head_size": 7}, "head_size"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_sizes(change: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**change)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hidden_size": 1.5}, "hidden_size"),
        ({"windows": 3}, "windows"),
        ({"windows": None}, "windows"),
        ({"windows": "ab"}, "windows"),
        ({"windows": (None, "3")}, "windows"),
        ({"windows": (None, [3])}, "windows"),
        ({"seed": None}, "seed"),
    ],
)
def test_wrong_types(change: dict[str, object], field: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        ModelConfig(**change)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_windows_become_a_tuple_of_plain_integers() -> None:
    listed = ModelConfig(windows=[None, np.int64(8)])  # type: ignore[arg-type]
    assert listed == ModelConfig(windows=(None, 8))
    assert hash(listed) == hash(ModelConfig(windows=(None, 8)))
