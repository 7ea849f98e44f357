"""Robots cached in a worker process, and the random numbers of a case."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..robot import Robot, load
from .campaign import hash_texts


@functools.lru_cache(maxsize=64)
def load_cached_robot(source: str, **options: Any) -> Robot:
    """Loads a robot by `quaddyn.load`, once per process.

    Args:
        source: a catalogue name, a path or URDF text.
        **options: options of `quaddyn.load`, hashable.
    """
    return load(source, **options)


def hash_robot(source: str, **options: Any) -> str:
    """Returns a hash of the resolved source of a robot and the options, for `Campaign.model_hash`.

    Args:
        source: a catalogue name, a path or URDF text.
        **options: options of `quaddyn.load`, hashable.
    """
    return hash_texts(load_cached_robot(source, **options).source, repr(sorted(options.items())))


def case_rng(seed: int, *case: int) -> np.random.Generator:
    """Returns the random generator of one case: ``SeedSequence(entropy=seed, spawn_key=case)``.

    Args:
        seed: seed of the campaign.
        *case: indices of the case; each combination has independent random numbers.
    """
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=case))
