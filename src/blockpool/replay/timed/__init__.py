"""Replay with time: requests arrive, wait, run side by side and hold their blocks while they run."""
