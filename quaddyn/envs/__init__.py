"""Environments for reinforcement learning in the form of Gymnasium, on batches of simulated robots.

``import quaddyn.envs`` registers "quaddyn/QuadrupedVelocity-v0", "quaddyn/Go2Velocity-v0" and others in Gymnasium, if
the extra ``quaddyn[envs]`` is installed. `VelocityTask` works without Gymnasium.
"""

import importlib.util

from .registration import register_environments
from .velocity_env import QuadrupedVelocityEnv, QuadrupedVelocityVectorEnv
from .velocity_task import VelocityTask

__all__ = ["QuadrupedVelocityEnv", "QuadrupedVelocityVectorEnv", "VelocityTask", "register_environments"]

if importlib.util.find_spec("gymnasium") is not None:
    register_environments()
