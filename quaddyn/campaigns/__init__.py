"""Thousands of runs of one experiment on one core, all cores or a cluster, with results that survive crashes.

A `Campaign` defines cases and a pure function of a case; `run` evaluates it on any executor and stores the records in a
`Store`.
"""

from ..deprecation import renamed_names
from .campaign import Campaign, Failure, Record, hash_texts
from .campaign_runner import Progress, Summary, run
from .dask_cluster import DaskExecutor, InsecureClusterWarning, dask_executor
from .outcome_counts import OutcomeCounts
from .plain_values import PlainValue
from .store import Store, StoredCase
from .worker_calls import rerun_case
from .worker_memory import case_rng, hash_robot, load_cached_robot
from .worker_processes import process_pool

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
    "case_rng",
    "dask_executor",
    "hash_robot",
    "hash_texts",
    "load_cached_robot",
    "process_pool",
    "rerun_case",
    "run",
]

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
