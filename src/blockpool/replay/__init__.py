"""Replaying traces through the real `BlockPool`: hit rates, evictions, occupancy, residency, speed."""

from blockpool.replay.driver import replay
from blockpool.replay.occupancy import OccupancyMeans, OccupancyPoint
from blockpool.replay.parallel import replay_many
from blockpool.replay.pool_run import PoolRun
from blockpool.replay.report import report_as_dict
from blockpool.replay.residency import Quantiles, Residency
from blockpool.replay.result import ReplayResult, WindowCounts
from blockpool.replay.settings import ReplaySettings

__all__ = [
    "OccupancyMeans",
    "OccupancyPoint",
    "PoolRun",
    "Quantiles",
    "ReplayResult",
    "ReplaySettings",
    "Residency",
    "WindowCounts",
    "replay",
    "replay_many",
    "report_as_dict",
]
