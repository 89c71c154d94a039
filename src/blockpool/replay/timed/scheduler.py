"""`Scheduler`: continuous batching over a block pool, step by step.

A step computes one token for every decoding request and as many tokens of prompts as its budget allows. It is made in
the order in which vLLM's scheduler makes it: running requests first, oldest first, then admissions from the head of
the queue. All times are integers, nanoseconds, so that many equal steps at once are exactly as long as one by one.

A decoding request is looked at only when something happens to it: step s computes its token s - `step_offset`, and a
heap has the step at which it next fills a block, needs one or ends. So a step costs what happens in it, not what runs.
"""

from __future__ import annotations

import heapq
from collections import deque

from blockpool.replay.keys import KeyMaker
from blockpool.replay.rules import plan_request
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.timed.arrivals import Arrivals
from blockpool.replay.timed.manager_access import access_for
from blockpool.replay.timed.timed_request import TimedRequest
from blockpool.replay.timed.timed_settings import TimedSettings
from blockpool.replay.timed.timed_statistics import TimedStatistics


class _Step:
    """What one step does.

    Attributes:
        left: Tokens that prompts may still get.
        prefill_tokens: Tokens that they have got.
        prefilled: Admission and request of those whose prefill is complete, in order of admission.
        ended: The same of those that decode their last token; all older than `prefilled`.
        preempted: A request was preempted.
        happened: Something happened that the next step might not repeat.
    """

    __slots__ = ("ended", "happened", "left", "preempted", "prefill_tokens", "prefilled")

    def __init__(self) -> None:
        self.left = 0
        self.prefill_tokens = 0
        self.prefilled: list[tuple[int, TimedRequest]] = []
        self.ended: list[tuple[int, TimedRequest]] = []
        self.preempted = False
        self.happened = False


class Scheduler:
    """Plays all arrivals on a cold pool.

    Attributes:
        pool: The pool, with `blocks` usable blocks and the null block.
        statistics: What has been counted.
        taken: Requests taken from the arrivals.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        blocks: int,
        timed: TimedSettings,
        settings: ReplaySettings,
        *,
        first_measured: int = 0,
        pictures: bool = False,
        one_by_one: bool = False,
    ) -> None:
        """Makes the pool.

        Args:
            arrivals: The requests.
            blocks: Usable blocks, at least 1.
            timed: The engine.
            settings: The rules, and how the pool is checked and followed.
            first_measured: Number of the first request of the window, from 0.
            pictures: Collect what only a report draws, too.
            one_by_one: Take no steps together: slow, and the same.
        """
        self._key_maker = KeyMaker(settings.hash_algorithm)
        self.statistics = TimedStatistics(
            blocks, settings, first_measured, self._key_maker, pictures=pictures
        )
        self._access = access_for(
            blocks, settings, self.statistics, arrivals.first, step_tokens=timed.max_batched_tokens
        )
        self.pool = self._access.pool
        self.taken = 0
        self._arrivals = arrivals
        self._blocks = blocks
        self._timed = timed
        self._settings = settings
        self._one_by_one = one_by_one
        self._clock = self.statistics.clock
        self._decode_step_ns = timed.decode_step_ns
        self._step_number = 0
        self._num_played = 0  # without those that were taken together
        self._num_admissions = 0
        # Requests that have come and do not run. Most have been preempted; whoever comes later stays
        # in the arrivals, as nobody overtakes.
        self._waiting: deque[TimedRequest] = deque()
        # By the number of their admission, so the oldest is first and the youngest last.
        self._running: dict[int, TimedRequest] = {}
        # (step, admission) of what is next for each decoding request; of requests that have gone, too.
        self._events: list[tuple[int, int]] = []
        # The request whose prompt is being computed in chunks: always the youngest.
        self._prefilling: int | None = None

    def step(self) -> bool:
        """Plays one step, and those after it in which nothing happens; or waits for the next arrival.

        Returns:
            False: everything has been played, and nothing was done.

        Raises:
            InvariantError: With `check_every`, when the pool contradicts itself.
            TraceError, OSError: As reading the trace does.
        """
        if not self._running and self._head() is None:
            return self._wait()
        self._step_number += 1
        step = _Step()
        self._decode(step)
        num_decoding = len(self._running) - (self._prefilling is not None)
        # At least 1 when a prompt is unfinished: it is one of the running, and each of those has a token.
        step.left = self._timed.max_batched_tokens - num_decoding
        self._continue_prefill(step)
        if not step.preempted:
            self._admit(step)
        self.statistics.step_done(self.pool)
        decode_ns = self._decode_step_ns if num_decoding else 0
        self._pass_time(self._timed.prefill_ns(step.prefill_tokens) + decode_ns)
        self._end(step)
        self._num_played += 1
        check_every = self._settings.check_every
        if check_every and self._num_played % check_every == 0:
            self.pool.check_invariants()
        if not self._one_by_one:
            if self._prefilling is not None:
                self._skip_equal_chunks(self._running[self._prefilling])
            elif not step.happened:
                self._skip_quiet_steps()
        return True

    def _wait(self) -> bool:
        next_ns = self._arrivals.next_ns
        if next_ns is None:
            return False
        self._pass_time(next_ns - self.statistics.clock.now_ns)
        return True

    def _head(self) -> TimedRequest | None:
        """Who would be admitted next; refuses those that could never be."""
        if self._waiting:
            return self._waiting[0]
        arrivals, statistics = self._arrivals, self.statistics
        now_ns = self._clock.now_ns
        while arrivals.next_ns is not None and arrivals.next_ns <= now_ns:
            timed = TimedRequest(arrivals.pop(), self.taken, self._settings.rules)
            self.taken += 1
            statistics.arrived(timed.number, now_ns, self.pool)
            timed.num_blocks = self._access.num_blocks(timed)
            if timed.num_blocks <= self._blocks:
                timed.plan = plan_request(timed.request, self._settings.rules, self._key_maker)
                self._waiting.append(timed)
                return timed
            statistics.refused(timed)
        return None

    def _decode(self, step: _Step) -> None:
        """Gives every decoding request its token; looks only at those to which something happens."""
        number, events = self._step_number, self._events
        while events and events[0][0] == number:
            admission = heapq.heappop(events)[1]
            timed = self._running.get(admission)
            if timed is None:
                continue  # it was preempted
            step.happened = True
            token = number - timed.step_offset
            if not self._allocate(step, admission, timed, token):
                continue
            if token == timed.total_tokens:
                step.ended.append((admission, timed))
            else:
                self._note_next_event(admission, timed, token)

    def _continue_prefill(self, step: _Step) -> None:
        admission = self._prefilling
        if admission is None:
            return
        step.happened = True
        timed = self._running[admission]
        num_tokens = min(timed.prefill_target - timed.computed, step.left)
        if self._allocate(step, admission, timed, timed.computed + num_tokens):
            self._prefill(step, admission, timed, num_tokens)

    def _admit(self, step: _Step) -> None:
        """Admits from the head of the queue until one finds no room."""
        while len(self._running) < self._timed.max_running and step.left > 0:
            timed = self._head()
            if timed is None:
                return
            found = self._access.look_up(timed)
            timed.computed = timed.layout.tokens_in(found.num_blocks)
            num_tokens = min(timed.prefill_target - timed.computed, step.left)
            if not self._access.has_room(timed, timed.computed + num_tokens, found):
                return
            step.happened = True
            self.statistics.admitted(timed, found.num_blocks, self._access.is_resident)
            self._access.admit(timed, timed.computed + num_tokens, found)
            self._waiting.popleft()
            self._num_admissions += 1
            self._running[self._num_admissions] = timed
            timed.was_admitted = True
            self._prefill(step, self._num_admissions, timed, num_tokens)

    def _prefill(self, step: _Step, admission: int, timed: TimedRequest, num_tokens: int) -> None:
        step.left -= num_tokens
        step.prefill_tokens += num_tokens
        stop = timed.computed + num_tokens
        self.statistics.computed(timed, stop)
        timed.computed = stop
        timed.most_computed = max(timed.most_computed, stop)
        if stop == timed.prefill_target:
            self._prefilling = None
            step.prefilled.append((admission, timed))
        else:
            self._prefilling = admission

    def _allocate(self, step: _Step, admission: int, timed: TimedRequest, num_tokens: int) -> bool:
        """Makes a running request's blocks cover its first tokens, whoever is younger must go, and else itself.

        Returns:
            False: it has been preempted.
        """
        while not self._access.grow(timed, num_tokens):
            youngest = next(reversed(self._running))
            self._preempt(youngest)
            step.preempted = True
            if youngest == admission:
                return False
        return True

    def _preempt(self, admission: int) -> None:
        timed = self._running.pop(admission)
        if admission == self._prefilling:
            self._prefilling = None
        else:
            # What it has generated is kept, but its blocks are not: next time it is all a prompt.
            computed = self._step_number - 1 - timed.step_offset
            timed.most_computed = max(timed.most_computed, computed)
            timed.prefill_target = computed + 1
        self._access.free(timed)
        self._waiting.appendleft(timed)
        self.statistics.preemption.preemptions += 1

    def _end(self, step: _Step) -> None:
        """The step is over: tokens have been generated, and who has all of his gives his blocks back."""
        for admission, timed in step.ended:
            del self._running[admission]
            self._access.free(timed)
        for admission, timed in step.prefilled:
            if not timed.has_first_token:
                timed.has_first_token = True
                self.statistics.first_token(timed)
            if timed.prefill_target == timed.total_tokens:
                del self._running[admission]
                self._access.free(timed)
            else:
                timed.step_offset = self._step_number - timed.prefill_target
                self._note_next_event(admission, timed, timed.prefill_target)

    def _note_next_event(self, admission: int, timed: TimedRequest, token: int) -> None:
        next_token = self._access.next_event(timed, token)
        heapq.heappush(self._events, (next_token + timed.step_offset, admission))

    def _skip_quiet_steps(self) -> None:
        """Takes all steps at once that repeat the last one, in which requests decoded and nothing else happened.

        As nothing changes in the pool, who found no room finds none; only an arrival can make a difference, and that
        only when nobody waits and there is a place.
        """
        num_steps = self._events[0][0] - self._step_number - 1
        next_ns = self._arrivals.next_ns
        has_place = not self._waiting and len(self._running) < self._timed.max_running
        if has_place and next_ns is not None:
            num_steps = min(num_steps, -((self._clock.now_ns - next_ns) // self._decode_step_ns))
        if num_steps > 0:
            self._take_together(num_steps, self._decode_step_ns)

    def _skip_equal_chunks(self, timed: TimedRequest) -> None:
        """Takes all steps at once that compute a chunk of this prompt and change no block.

        The chunk is all that a step has left, so nobody can be admitted meanwhile, whoever comes.
        """
        num_decoding = len(self._running) - 1
        chunk = self._timed.max_batched_tokens - num_decoding
        num_steps = (self._access.next_change(timed) - timed.computed - 1) // chunk
        if self._events:
            num_steps = min(num_steps, self._events[0][0] - self._step_number - 1)
        if num_steps > 0:
            stop = timed.computed + num_steps * chunk
            self.statistics.computed(timed, stop)
            timed.computed = stop
            timed.most_computed = max(timed.most_computed, stop)
            decode_ns = self._decode_step_ns if num_decoding else 0
            self._take_together(num_steps, self._timed.prefill_ns(chunk) + decode_ns)

    def _take_together(self, num_steps: int, duration_ns: int) -> None:
        """Passes over equal steps, each as long as `duration_ns`."""
        self._step_number += num_steps
        self.statistics.steps += num_steps
        self._pass_time(num_steps * duration_ns)

    def _pass_time(self, duration_ns: int) -> None:
        self.statistics.held(duration_ns, self.pool, len(self._running))
        self._clock.now_ns += duration_ns
