"""Replaying traces through the real `BlockPool`: hit rates, evictions, occupancy, residency, speed.

`curve` and `study` tell the hits at every size of the pool from one pass, and let the pool vouch for them.
`plan_capacity` says how much of a model's cache fits into a GPU, and what a trace makes of it.
"""

from blockpool.replay.curves.curve_pass import curve
from blockpool.replay.curves.curve_report import study_as_dict
from blockpool.replay.curves.curve_study import CurveRow, CurveStudy, study
from blockpool.replay.curves.hit_curve import CurvePoint, HitCurve
from blockpool.replay.curves.policy_points import PolicyPoint
from blockpool.replay.curves.sampled_hits import ErrorBound, SampledHits
from blockpool.replay.driver import replay
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

__all__ = [
    "CurvePoint",
    "CurveRow",
    "CurveStudy",
    "ErrorBound",
    "FleetPlan",
    "HitCurve",
    "ModelShape",
    "OccupancyMeans",
    "OccupancyPoint",
    "Plan",
    "PlanPoint",
    "PlanSettings",
    "PolicyPoint",
    "PoolRun",
    "Quantiles",
    "ReplayResult",
    "ReplaySettings",
    "Residency",
    "SampledHits",
    "WindowCounts",
    "curve",
    "load_model_shape",
    "plan_as_dict",
    "plan_capacity",
    "replay",
    "replay_many",
    "report_as_dict",
    "shape_from_config",
    "study",
    "study_as_dict",
]
