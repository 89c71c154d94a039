"""Replaying traces through the real `BlockPool`: hit rates, evictions, occupancy, residency, speed.

`curve` and `study` tell the hits at every size of the pool from one pass, and let the pool vouch for them.
`replay_timed` lets requests run side by side and hold their blocks meanwhile.
`plan_capacity` says how much of a model's cache fits into a GPU, and what a trace makes of it.
"""

from blockpool.replay.curves.curve_pass import curve
from blockpool.replay.curves.curve_report import study_as_dict
from blockpool.replay.curves.curve_study import CurveRow, CurveStudy, study
from blockpool.replay.curves.hit_curve import CurvePoint, HitCurve
from blockpool.replay.curves.policy_points import PolicyPoint
from blockpool.replay.curves.sampled_hits import ErrorBound, SampledHits
from blockpool.replay.driver import replay
from blockpool.replay.misses.miss_report import (
    EvictedMisses,
    MissCase,
    MissReport,
    ReasonMisses,
    TagMisses,
)
from blockpool.replay.misses.reasons import REASONS
from blockpool.replay.occupancy import OccupancyMeans, OccupancyPoint
from blockpool.replay.parallel import replay_many
from blockpool.replay.plans.model_catalog import load_model_shape
from blockpool.replay.plans.model_config import shape_from_config
from blockpool.replay.plans.model_shape import ModelShape
from blockpool.replay.plans.plan import plan_capacity
from blockpool.replay.plans.plan_result import FleetPlan, Plan, PlanPoint, plan_as_dict
from blockpool.replay.plans.plan_settings import PlanSettings
from blockpool.replay.pool_run import PoolRun
from blockpool.replay.report import report_as_dict
from blockpool.replay.residency import Quantiles, Residency
from blockpool.replay.result import ReplayResult, WindowCounts
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.timed.timed_driver import replay_timed, replay_timed_many
from blockpool.replay.timed.timed_report import timed_report_as_dict
from blockpool.replay.timed.timed_result import PreemptionCounts, TimedResult
from blockpool.replay.timed.timed_settings import TimedSettings

__all__ = [
    "CurvePoint",
    "CurveRow",
    "CurveStudy",
    "ErrorBound",
    "EvictedMisses",
    "FleetPlan",
    "HitCurve",
    "MissCase",
    "MissReport",
    "ModelShape",
    "OccupancyMeans",
    "OccupancyPoint",
    "Plan",
    "PlanPoint",
    "PlanSettings",
    "PolicyPoint",
    "PoolRun",
    "PreemptionCounts",
    "REASONS",
    "Quantiles",
    "ReasonMisses",
    "ReplayResult",
    "ReplaySettings",
    "Residency",
    "SampledHits",
    "TagMisses",
    "TimedResult",
    "TimedSettings",
    "WindowCounts",
    "curve",
    "load_model_shape",
    "plan_as_dict",
    "plan_capacity",
    "replay",
    "replay_many",
    "replay_timed",
    "replay_timed_many",
    "report_as_dict",
    "shape_from_config",
    "study",
    "study_as_dict",
    "timed_report_as_dict",
]
