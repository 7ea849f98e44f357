"""Thousands of runs of one experiment on one core, all cores or a cluster, with results that survive crashes.

A `Campaign` defines cases and a pure function of a case; `run` evaluates it on any executor and stores the records in a
`Store`.
"""

from ..deprecation import renamed_modules, renamed_names
from .campaign import (
    Campaign,
    Failure,
    PlainValue,
    Record,
    campaign_option,
    case_rng,
    count_option,
    hash_robot,
    hash_texts,
    load_cached_robot,
    rerun_case,
)
from .campaign_runner import OutcomeCounts, Progress, Summary, run
from .executors import DaskExecutor, InsecureClusterWarning, dask_executor, process_pool
from .store import Store, StoredCase

__all__ = [
    "Campaign",
    "DaskExecutor",
    "Failure",
    "InsecureClusterWarning",
    "OutcomeCounts",
    "PlainValue",
    "Progress",
    "Record",
    "Store",
    "StoredCase",
    "Summary",
    "campaign_option",
    "case_rng",
    "count_option",
    "dask_executor",
    "hash_robot",
    "hash_texts",
    "load_cached_robot",
    "process_pool",
    "rerun_case",
    "run",
]

_WALKING = (
    "friction_drop", "gaits", "obstacles", "pushes", "reach", "robustness", "slippery", "slopes", "sweep",
    "velocity_limits",
)  # fmt: skip
renamed_modules(
    __name__,
    {
        **dict.fromkeys(_WALKING, "walking_campaigns"),
        "agreement": "verification",
        "plain_values": "campaign",
        "threshold_search": "binomial_bounds",
        "trial_batch": "trial_campaign",
        "worker": "campaign",
        "dask_cluster": "executors",
        "driving": "trial_runner",
        "outcome_counts": "campaign_runner",
        "sheet_text": "sheet_page",
        "statistics": "binomial_bounds",
        "trial_terrain": "trial_runner",
        "worker_calls": "campaign",
        "worker_failures": "executors",
        "worker_memory": "campaign",
        "worker_processes": "executors",
    },
)
__getattr__ = renamed_names(
    __name__,
    {
        "Cluster": "DaskExecutor",
        "Plain": "PlainValue",
        "Row": "StoredCase",
        "Tally": "OutcomeCounts",
        "again": "rerun_case",
        "cluster": "dask_executor",
        "digest": "hash_texts",
        "generator": "case_rng",
        "robot": "load_cached_robot",
        "robot_hash": "hash_robot",
        "workers": "process_pool",
    },
)
