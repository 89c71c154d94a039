"""`study`: a curve, the capacities worth a look, other policies there, and the real pool as its witness.

What it returns is all that a table, a file or a report needs: see `CurveStudy`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from blockpool.core.arguments import as_int, as_list, as_size
from blockpool.errors import BlockPoolError, ConfigError
from blockpool.replay.arguments import instance_or
from blockpool.replay.curves.curve_pass import curve_of_file
from blockpool.replay.curves.hit_curve import CurvePoint, HitCurve
from blockpool.replay.curves.policy_points import PolicyPoint, PolicyRecorder, check_policies
from blockpool.replay.curves.policy_table import LRU, other_policies
from blockpool.replay.curves.sampled_hits import ErrorBound
from blockpool.replay.driver import Progress, find_window
from blockpool.replay.parallel import replay_many
from blockpool.replay.settings import FOLLOW_NOTHING, LAST_HALF, NO_CURVE, ReplaySettings, check_pool_blocks
from blockpool.trace.source import TracePath, check_path, spooled

SHARES = (0.5, 0.9, 0.99)
MAX_VERIFIED = 10_000


@dataclass(frozen=True, slots=True)
class CurveRow:
    """One chosen capacity.

    Attributes:
        point: What the pool hits there.
        notes: Why it was chosen, in words; empty for a power of two.
        bound: With sampling, between which numbers the truth is to be expected; else None.
        others: What the other policies hit there.
    """

    point: CurvePoint
    notes: tuple[str, ...]
    bound: ErrorBound | None
    others: tuple[PolicyPoint, ...]


@dataclass(frozen=True, slots=True)
class CurveStudy:
    """Everything about one trace.

    Attributes:
        trace: As it was named.
        settings: How it was played.
        one_in: R of the sample; 1 without sampling.
        seed: Of the sample and of the verified capacities.
        policies: Which policies were asked for.
        curve: The hits at every capacity.
        knee: Where more blocks begin to bring less than they did on average.
        rows: The chosen capacities, ascending.
        verified: Capacities at which the real pool was replayed and found the same integers.
    """

    trace: str
    settings: ReplaySettings
    one_in: int
    seed: int
    policies: tuple[str, ...]
    curve: HitCurve
    knee: int
    rows: tuple[CurveRow, ...]
    verified: tuple[int, ...]


def study(
    trace: TracePath,
    settings: ReplaySettings | None = None,
    *,
    blocks: Sequence[int] = (),
    policies: Sequence[str] = (LRU,),
    verify: int = 0,
    one_in: int = 1,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
    finished: Callable[[int], None] | None = None,
) -> CurveStudy:
    """Makes the curve of a trace and looks at it.

    Args:
        trace: A file, or the strings "-" (standard input) or "demo" (the bundled trace).
        settings: By default trace rules over the whole trace.
        blocks: Capacities to be among the chosen ones. Those below the largest request, where pools refuse requests,
            are replayed.
        policies: Some of `POLICIES`, "lru", "fifo" and "optimal". The curve itself is LRU. The others keep the trace in
            memory.
        verify: Replay the real pool at so many random capacities of the curve, 0 … 10,000.
        one_in: Look at one of so many blocks only; not together with other policies, `verify` or small `blocks`.
        seed: Of the sample and of the random capacities.
        jobs: Processes for what is replayed; by default one per processor.
        progress: As `replay` calls it, while the curve is made.
        finished: As `replay_many` calls it, while it is verified.

    Raises:
        BlockPoolError: As `curve` and `replay_many` do; and when the real pool finds something else than the curve.
        OSError: The trace cannot be read.
    """
    settings = instance_or("settings", settings, ReplaySettings)
    settings.require_full_attention(NO_CURVE)
    check_path(trace)
    check_policies(policies)
    _check_numbers(blocks, verify, seed, jobs)
    others = other_policies(policies)
    if as_int("sample", one_in) > 1 and (verify or others):
        field, value = ("verify", str(verify)) if verify else ("policies", ",".join(policies))
        raise ConfigError(field, value, "needs the whole trace, not a sample")
    again = bool(blocks or verify or settings.window == LAST_HALF)
    with spooled(trace, again=again) as (path, name):
        first_measured = find_window(path, name, settings)
        recorder = PolicyRecorder()
        curve = curve_of_file(
            path,
            name,
            settings,
            first_measured,
            one_in=one_in,
            seed=seed,
            others=[recorder] if others else [],
            progress=progress,
        )
        noted = _chosen_capacities(curve, blocks)
        small = sorted(capacity for capacity in noted if capacity < curve.largest_request_blocks)
        if small and one_in > 1:
            reason = (
                f"is below the largest request of {curve.largest_request_blocks:,} blocks; not with a sample"
            )
            raise ConfigError("blocks", small[0], reason)
        to_verify = _random_capacities(curve, verify, seed)
        points = {point.capacity: point for point in _replayed(path, settings, small, jobs)}
        if to_verify:
            _compare_with_replay(path, settings, map(curve.at, to_verify), jobs, finished)
    rows = [
        CurveRow(
            points.get(capacity) or curve.at(capacity),
            tuple(noted[capacity]),
            curve.sampled.bound(capacity) if curve.sampled else None,
            tuple(recorder.point(policy, capacity) for policy in others),
        )
        for capacity in sorted(noted)
    ]
    return CurveStudy(
        str(trace),
        settings,
        one_in,
        seed,
        tuple(policies),
        curve,
        curve.knee(),
        tuple(rows),
        tuple(to_verify),
    )


def _check_numbers(blocks: Sequence[int], verify: int, seed: int, jobs: int | None) -> None:
    as_list("blocks", blocks)
    for capacity in blocks:
        check_pool_blocks(capacity)
    if not 0 <= as_int("verify", verify) <= MAX_VERIFIED:
        raise ConfigError("verify", verify, f"must be 0 … {MAX_VERIFIED:,}")
    as_int("seed", seed)
    if jobs is not None:
        as_size("jobs", jobs)


def _chosen_capacities(curve: HitCurve, blocks: Sequence[int]) -> dict[int, list[str]]:
    """Capacities for the table, and why each is there."""
    first, last = curve.largest_request_blocks, curve.capacity_for_share(1.0)
    noted: dict[int, list[str]] = {capacity: [] for capacity in blocks}
    power = 1 << first.bit_length()
    while power < last:
        noted.setdefault(power, [])
        power *= 2
    noted.setdefault(first, []).append("smallest")
    for share in SHARES:
        noted.setdefault(curve.capacity_for_share(share), []).append(f"{share:.0%} of max")
    noted.setdefault(curve.knee(), []).append("knee")
    noted.setdefault(last, []).append("max")
    return noted


def _random_capacities(curve: HitCurve, count: int, seed: int) -> list[int]:
    """Capacities of the curve spread evenly over the orders of magnitude, to a little above what changes anything."""
    source = random.Random(seed)
    first, top = curve.largest_request_blocks, curve.last_capacity + curve.last_capacity // 8 + 1
    chosen: set[int] = set()
    while len(chosen) < min(count, top + 1 - first):
        chosen.add(max(first, min(top, int(math.exp(source.uniform(math.log(first), math.log(top + 1)))))))
    return sorted(chosen)


def _replayed(
    path: TracePath,
    settings: ReplaySettings,
    capacities: Sequence[int],
    jobs: int | None,
    finished: Callable[[int], None] | None = None,
) -> Iterator[CurvePoint]:
    """What the real pool finds, which needs no more memory than its blocks."""
    if not capacities:
        return
    settings = replace(settings, sample_rate=FOLLOW_NOTHING, explain=False, tag=None)
    for result in replay_many(path, capacities, settings, jobs=jobs, finished=finished):
        counts = result.counts
        yield CurvePoint(
            result.blocks,
            counts.requests,
            counts.refused,
            counts.prompt_tokens,
            counts.hit_tokens,
            counts.prompt_blocks,
            counts.hit_blocks,
        )


def _compare_with_replay(
    path: TracePath,
    settings: ReplaySettings,
    expected: Iterable[CurvePoint],
    jobs: int | None,
    finished: Callable[[int], None] | None,
) -> None:
    expected = list(expected)
    capacities = [point.capacity for point in expected]
    for point, found in zip(expected, _replayed(path, settings, capacities, jobs, finished), strict=True):
        if found != point:
            raise BlockPoolError(
                f"the curve is wrong, please report it: {point.hit_blocks:,} blocks and {point.hit_tokens:,} tokens "
                f"hit at {point.capacity:,} blocks, but replay finds {found.hit_blocks:,} and {found.hit_tokens:,}"
            )
