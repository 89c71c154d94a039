"""Measurements against vLLM 0.16.0: see docs/benchmarks.md."""
