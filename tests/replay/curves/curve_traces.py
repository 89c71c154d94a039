"""Random small traces, and the real pool's answer at every capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from blockpool.replay import CurvePoint, PoolRun, ReplaySettings
from blockpool.trace import TraceRequest

FOLLOW_NOTHING = 1e-9


@st.composite
def token_traces(draw: Any) -> list[TraceRequest]:
    """Prompts that share prefixes, repeat, and go on where an earlier request ended; with outputs, LoRA and salts."""
    block_size = draw(st.sampled_from([1, 2, 3]))
    token = st.integers(0, draw(st.sampled_from([0, 1, 2])))
    roots = draw(st.lists(st.lists(token, min_size=1, max_size=12), min_size=1, max_size=4))
    requests: list[TraceRequest] = []
    for _ in range(draw(st.integers(1, 40))):
        if requests and draw(st.integers(0, 3)) == 0:
            last = requests[-1]
            prompt = ((last.token_ids or []) + (last.output_token_ids or []))[:14]
        else:
            root = draw(st.sampled_from(roots))
            prompt = root[: draw(st.integers(1, len(root)))] + draw(st.lists(token, max_size=3))
        requests.append(
            TraceRequest(
                None,
                len(prompt),
                block_size,
                token_ids=prompt,
                output_token_ids=draw(st.one_of(st.none(), st.lists(token, max_size=5))),
                lora=draw(st.sampled_from([None, None, None, "a"])),
                salt=draw(st.sampled_from([None, None, None, "s"])),
            )
        )
    return requests


@st.composite
def id_traces(draw: Any) -> list[TraceRequest]:
    """Chains of ids, with blocks of equal or of unequal size."""
    names: dict[tuple[int, ...], int] = {}
    requests: list[TraceRequest] = []
    unequal = draw(st.booleans())
    for _ in range(draw(st.integers(1, 40))):
        steps = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=1, max_size=6))
        ids = [names.setdefault(tuple(steps[: end + 1]), len(names)) for end in range(len(steps))]
        if unequal:
            sizes = draw(st.lists(st.sampled_from([2, 3, 3]), min_size=len(ids), max_size=len(ids)))
            block_size = draw(st.sampled_from([None, 3]))
            requests.append(TraceRequest(None, sum(sizes), block_size, block_ids=ids, block_tokens=sizes))
        else:
            prompt_tokens = 4 * len(ids) - draw(st.sampled_from([0, 0, 1, 3]))
            requests.append(TraceRequest(None, prompt_tokens, 4, block_ids=ids))
    return requests


any_traces = st.one_of(token_traces(), id_traces())


def replayed(requests: Sequence[TraceRequest], capacity: int, settings: ReplaySettings) -> CurvePoint:
    """What the real pool finds."""
    run = PoolRun(capacity, settings)
    for number, request in enumerate(requests):
        if settings.window == "last-half" and number == len(requests) // 2:
            run.restart_window()
        run.play(request)
    counts = run.counts
    return CurvePoint(
        capacity,
        counts.requests,
        counts.refused,
        counts.prompt_tokens,
        counts.hit_tokens,
        counts.prompt_blocks,
        counts.hit_blocks,
    )
