"""Thousands of runs of one experiment: on one core, all cores or a cluster; nothing is lost when a process dies.

A `Campaign` gives cases and a pure function of a case; `run` drives it on any executor and keeps records in a `Store`.
"""

from .campaign import Campaign, Failure, Record, digest
from .campaign_runner import Progress, Summary, run
from .dask_cluster import Cluster, InsecureClusterWarning, cluster
from .outcome_counts import Tally
from .plain_values import Plain
from .store import Row, Store
from .worker_calls import again
from .worker_memory import generator, robot, robot_hash
from .worker_processes import workers

__all__ = [
    "Campaign",
    "Cluster",
    "Failure",
    "InsecureClusterWarning",
    "Plain",
    "Progress",
    "Record",
    "Row",
    "Store",
    "Summary",
    "Tally",
    "again",
    "cluster",
    "digest",
    "generator",
    "robot",
    "robot_hash",
    "run",
    "workers",
]
