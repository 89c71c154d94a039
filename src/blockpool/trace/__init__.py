"""Traces of requests: reading them, writing them, and making up workloads worth replaying."""

from blockpool.trace.generator import WORKLOAD_KINDS, generate
from blockpool.trace.reader import TraceReader, count_requests
from blockpool.trace.request import TraceRequest
from blockpool.trace.source import TracePath
from blockpool.trace.writer import WRITABLE_FORMATS, open_trace_for_writing, write_trace

__all__ = [
    "WORKLOAD_KINDS",
    "WRITABLE_FORMATS",
    "TracePath",
    "TraceReader",
    "TraceRequest",
    "count_requests",
    "generate",
    "open_trace_for_writing",
    "write_trace",
]
