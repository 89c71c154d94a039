"""What the engine looks like after a step: plain data for the view."""

from __future__ import annotations

from typing import NamedTuple

from blockpool.core.occupancy import Occupancy
from blockpool.demo.engine import Engine, StepResult
from blockpool.demo.request import EngineRequest
from blockpool.demo.watcher import BlockWatcher

BLANK, IDLE = "blank", "idle"
NEW, HIT, EVICTED = "new", "hit", "evicted"


class Cell(NamedTuple):
    """One block.

    Attributes:
        content: The letter of the request that holds it, in capitals when for a group with a window; the number of
            requests when several share it, at most 9; `IDLE` when only the cache has it; `BLANK` when nobody.
        mark: What this step did to it: `HIT`, `EVICTED` (its content made room for another), `NEW`, or "".
    """

    content: str
    mark: str


class RequestRow(NamedTuple):
    """One request that runs or waits; numbers are tokens.

    Attributes:
        state: "prefill", "decode", "waiting" or "preempted".
        cached: Found in the cache at its admission.
        computed: Whose keys and values it has, those included.
        prompt: Of its prompt.
        output: Generated so far.
        max_tokens: To be generated.
    """

    request_id: str
    state: str
    cached: int
    computed: int
    prompt: int
    output: int
    max_tokens: int


class Frame(NamedTuple):
    """The engine after a step.

    Attributes:
        step: Its number, from 0.
        cells: All blocks but the null block, by id.
        occupancy: Where they are.
        rows: Requests that run, oldest first, then those that wait.
        num_tokens: Tokens that the step computed.
        found: Tokens that the requests it admitted found in the cache.
        hits: Blocks they found.
        evicted: Blocks evicted in the step.
        preempted: Requests preempted in the step.
        finished: Requests that the step finished.
    """

    step: int
    cells: list[Cell]
    occupancy: Occupancy
    rows: list[RequestRow]
    num_tokens: int
    found: int
    hits: int
    evicted: int
    preempted: list[str]
    finished: list[str]


def take_frame(number: int, engine: Engine, result: StepResult, watcher: BlockWatcher) -> Frame:
    """Notes what there is to see after a step; the watcher then begins the next one."""
    pool = engine.manager.block_pool
    owners = _owners(engine)
    cells = []
    for block in pool.blocks[1:]:
        letters = owners.get(block.block_id, "")
        if block.ref_cnt > 1:
            content = str(min(block.ref_cnt, 9))
        elif letters:
            content = letters
        else:
            content = BLANK if block.block_hash is None else IDLE
        # What a request took and gave back in the same step is no news.
        mark = _mark(block.block_id, watcher) if block.ref_cnt else ""
        cells.append(Cell(content, mark))
    running, waiting = engine.scheduler.running, engine.scheduler.waiting
    frame = Frame(
        step=number,
        cells=cells,
        occupancy=pool.occupancy(),
        rows=[*map(_running_row, running), *map(_waiting_row, waiting)],
        num_tokens=result.num_tokens,
        found=result.stats.hits + result.stats.preempted_hits,
        hits=len(watcher.hit),
        evicted=len(watcher.evicted),
        preempted=[request.request_id for request in result.schedule.preempted],
        finished=[request.request_id for request in result.finished],
    )
    watcher.begin_step()
    return frame


def _owners(engine: Engine) -> dict[int, str]:
    """The letter of the request that holds each block; of the youngest of several."""
    owners = {}
    for request in engine.scheduler.running:
        letter = request.request_id[0]
        for group, block_ids in enumerate(engine.manager.get_block_ids(request.request_id)):
            sees_all = engine.windows[group] is None
            owners.update(dict.fromkeys(block_ids, letter if sees_all else letter.upper()))
    return owners


def _mark(block_id: int, watcher: BlockWatcher) -> str:
    if block_id in watcher.hit:
        return HIT
    if block_id in watcher.evicted:
        return EVICTED
    return NEW if block_id in watcher.allocated else ""


def _running_row(request: EngineRequest) -> RequestRow:
    # One token behind is the normal state of decoding: the last one generated is computed in the next step.
    ahead = request.num_tokens - request.num_computed_tokens
    return _row(request, "decode" if ahead == 1 and request.output_token_ids else "prefill")


def _waiting_row(request: EngineRequest) -> RequestRow:
    return _row(request, "preempted" if request.num_preemptions else "waiting")


def _row(request: EngineRequest, state: str) -> RequestRow:
    return RequestRow(
        request.request_id,
        state,
        min(request.num_cached_tokens, request.num_computed_tokens),
        request.num_computed_tokens,
        request.num_prompt_tokens,
        len(request.output_token_ids),
        request.max_tokens,
    )
