"""``python -m benchmarks.fuzz_events [SECONDS]``: the decoder of events under atheris, guided by the branches it takes.

Every input must give a batch or an `EventDecodeError`; what is decoded must be encodable in both dialects and come back
equal. Needs ``pip install atheris`` (Linux). Runs for ten minutes, or for the seconds given; a finding is written to
``crash-...`` in the working directory and ends the run with an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

MAX_BYTES = 4096


def make_check() -> Callable[[bytes], None]:
    """The check of one input; what it tests is imported here, so that it can be instrumented while that happens."""
    from blockpool.errors import EventDecodeError
    from blockpool.events import EventBatch, EventDecoder, EventEncoder

    decoder = EventDecoder()
    encoders = EventEncoder("array"), EventEncoder("map")

    def check(payload: bytes) -> None:
        try:
            batch = decoder.decode(payload)
        except EventDecodeError:
            return
        rank = batch.data_parallel_rank
        array, maps = (encoder.encode(batch.ts, batch.events, rank) for encoder in encoders)
        decoder.decode(array)
        again = decoder.decode(maps)
        if batch.ts == batch.ts and again != EventBatch(batch.ts, batch.events, rank):
            raise AssertionError(f"{batch} came back as {again}")

    return check


def seeds() -> list[bytes]:
    """Batches of both dialects to start from."""
    from blockpool.core.events import AllBlocksCleared, BlockRemoved, BlockStored, KVCacheEvent
    from blockpool.events import EventEncoder

    events: list[KVCacheEvent] = [
        BlockStored([2**64 - 1, 7], None, [1, 2, 3, 300], 2, None, "GPU", "lora"),
        BlockRemoved([b"\x01" * 32], "GPU"),
        AllBlocksCleared(),
    ]
    return [EventEncoder(dialect).encode(1.5, events, 0) for dialect in ("array", "map")]


def main() -> int:
    """Runs atheris; it ends the process itself."""
    try:
        import atheris
    except ImportError:
        print("this needs atheris: pip install atheris", file=sys.stderr)
        return 1
    seconds = sys.argv[1] if len(sys.argv) > 1 else "600"
    with atheris.instrument_imports(include=["blockpool.events"]):
        check = make_check()
    with TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds()):
            (Path(corpus) / str(number)).write_bytes(seed)
        arguments = [sys.argv[0], f"-max_total_time={seconds}", f"-max_len={MAX_BYTES}", corpus]
        atheris.Setup(arguments, check)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
