"""``python -m benchmarks.fuzz_events [SECONDS]``: the decoder of events under atheris, guided by the branches it takes.

Every input must give a batch or an `EventDecodeError`; what is decoded must be encodable in both dialects and come back
equal. Needs ``pip install atheris`` (Linux). Runs for ten minutes, or for the seconds given; a finding is written to
``crash-...`` in the working directory and ends the run with an error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from blockpool import AllBlocksCleared, BlockRemoved, BlockStored, EventDecodeError, KVCacheEvent
from blockpool.events import EventBatch, EventDecoder, EventEncoder

MAX_BYTES = 4096
decoder = EventDecoder()
encoders = [EventEncoder("array"), EventEncoder("map")]


def check(payload: bytes) -> None:
    """One input.

    Raises:
        AssertionError: If a batch does not survive being written as maps and read again.
    """
    try:
        batch = decoder.decode(payload)
    except EventDecodeError:
        return
    array, maps = (encoder.encode(batch.ts, batch.events, batch.data_parallel_rank) for encoder in encoders)
    decoder.decode(array)
    again = decoder.decode(maps)
    if batch.ts == batch.ts and again != EventBatch(batch.ts, batch.events, batch.data_parallel_rank):
        raise AssertionError(f"{batch} came back as {again}")


def seeds() -> list[bytes]:
    """Batches of both dialects to start from."""
    events: list[KVCacheEvent] = [
        BlockStored([2**64 - 1, 7], None, [1, 2, 3, 300], 2, None, "GPU", "lora"),
        BlockRemoved([b"\x01" * 32], "GPU"),
        AllBlocksCleared(),
    ]
    return [encoder.encode(1.5, events, 0) for encoder in encoders]


def main() -> int:
    """Runs atheris; it ends the process itself."""
    try:
        import atheris
    except ImportError:
        print("this needs atheris: pip install atheris", file=sys.stderr)
        return 1
    seconds = sys.argv[1] if len(sys.argv) > 1 else "600"
    with TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds()):
            (Path(corpus) / str(number)).write_bytes(seed)
        atheris.instrument_all()
        arguments = [sys.argv[0], f"-max_total_time={seconds}", f"-max_len={MAX_BYTES}", corpus]
        atheris.Setup(arguments, check)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
