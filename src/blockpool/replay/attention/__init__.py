"""Replay of other attention than full: the pool behind the KV cache manager, with the groups of a model."""
