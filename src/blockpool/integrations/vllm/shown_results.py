"""Results of vLLM's pool and of ours in a form in which they can be compared: blocks by id, events block by block."""

from __future__ import annotations

from typing import Any, Final

ABOUT_EVENT: Final = ("block_size", "medium", "lora_id", "lora_name", "group_idx", "session_id")


def shown(result: Any) -> Any:
    """A result as both pools can give it."""
    if isinstance(result, (list, tuple)):
        flat: list[Any] = []
        for one in result:
            said = _event(one)
            flat += [shown(one)] if said is None else said
        return flat
    return getattr(result, "block_id", result)


def only_hashes(result: Any) -> Any:
    """What `shown` gives, without anything of events but which blocks they name."""
    return [one[:2] if isinstance(one, tuple) else one for one in shown(result)]


def has_gaps(events: list[Any]) -> bool:
    """Whether an event has tokens of blocks that it does not name, as those of 0.16 have where null blocks stand."""
    return any(type(event).__name__ == "BlockStored" and not _is_whole(event) for event in events)


def _is_whole(event: Any) -> bool:
    return bool(len(event.token_ids) == len(event.block_hashes) * event.block_size)


def _event(event: Any) -> list[tuple[Any, ...]] | None:
    """What an event says of each block: several may say what one does, or one nothing. None if it is no event."""
    kind = type(event).__name__
    if kind == "AllBlocksCleared":
        return [(kind,)]
    if kind not in ("BlockStored", "BlockRemoved"):
        return None
    about = tuple(getattr(event, name, None) for name in ABOUT_EVENT)
    if kind == "BlockRemoved":
        return [(kind, digest, about) for digest in event.block_hashes]
    size = event.block_size
    keys = getattr(event, "extra_keys", None)
    parent = event.parent_block_hash
    said = []
    for number, digest in enumerate(event.block_hashes):
        tokens = tuple(event.token_ids[number * size : (number + 1) * size])
        said.append((kind, digest, about, parent, tokens, keys[number] if keys else None))
        parent = digest
    return said
