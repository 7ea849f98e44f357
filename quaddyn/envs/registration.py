"""`register_environments`: the environments of this package by name in Gymnasium."""

from __future__ import annotations

from ..errors import QuaddynError
from .gymnasium_base import INSTALL_TEXT

#: Name of the environment in Gymnasium.
ENVIRONMENT_ID = "quaddyn/QuadrupedVelocity-v0"


def register_environments() -> None:
    """Registers "quaddyn/QuadrupedVelocity-v0" in Gymnasium; ``import quaddyn.envs`` calls it.

    Afterwards ``gymnasium.make_vec(name, num_envs=1000, robot="go2")`` and ``gymnasium.make(name, robot="go2")`` accept
    the arguments of `VelocityTask`.

    Raises:
        QuaddynError: Gymnasium is not installed.
    """
    try:
        from gymnasium.envs.registration import register, registry
    except ImportError:
        raise QuaddynError(INSTALL_TEXT) from None
    if ENVIRONMENT_ID not in registry:
        register(
            ENVIRONMENT_ID,
            entry_point="quaddyn.envs.velocity_env:QuadrupedVelocityEnv",
            vector_entry_point="quaddyn.envs.velocity_env:QuadrupedVelocityVectorEnv",
        )
