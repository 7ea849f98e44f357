"""`register_environments`: the environments of this package by name in Gymnasium.

Gymnasium is an optional dependency: without it the classes have a base class whose error names the missing package.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from ..errors import QuaddynError
from ..robot.catalogue import CATALOGUE

#: Message for a missing package.
INSTALL_TEXT = "Gymnasium is not installed; install it with: pip install 'quaddyn[envs]'"


class MissingGymnasium:
    """Base class of environments where Gymnasium is not installed; its constructor raises.

    Raises:
        QuaddynError: always.
    """

    def __init__(self) -> None:
        raise QuaddynError(INSTALL_TEXT)


Env: Any = MissingGymnasium
VectorEnv: Any = MissingGymnasium
#: Entry of the metadata of vector environments: an episode begins again at the step after its end.
AUTORESET_METADATA: dict[str, Any] = {}

if importlib.util.find_spec("gymnasium") is not None:
    import gymnasium
    import gymnasium.vector

    Env, VectorEnv = gymnasium.Env, gymnasium.vector.VectorEnv
    AUTORESET_METADATA = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}


def make_box(limit: float, size: int) -> Any:
    """Returns the space of float32 arrays (size,) with entries from -`limit` to `limit`."""
    from gymnasium.spaces import Box

    return Box(-limit, limit, (size,), np.float32)


def repeat_space(space: Any, n: int) -> Any:
    """Returns the space of n elements of a space."""
    from gymnasium.vector.utils import batch_space

    return batch_space(space, n)


#: Name of the environment in Gymnasium.
ENVIRONMENT_ID = "quaddyn/QuadrupedVelocity-v0"


def register_environments() -> None:
    """Registers "quaddyn/QuadrupedVelocity-v0" in Gymnasium; ``import quaddyn.envs`` calls it.

    Afterwards ``gymnasium.make_vec(name, num_envs=1000, robot="go2")`` and ``gymnasium.make(name, robot="go2")`` accept
    the arguments of `VelocityTask`.  Each quadruped of the catalogue also has a name with its robot, such as
    "quaddyn/Go2Velocity-v0" and "quaddyn/AnymalCVelocity-v0".

    Raises:
        QuaddynError: Gymnasium is not installed.
    """
    try:
        from gymnasium.envs.registration import register, registry
    except ImportError:
        raise QuaddynError(INSTALL_TEXT) from None
    names: dict[str, dict[str, str]] = {ENVIRONMENT_ID: {}}
    for robot, entry in CATALOGUE.items():
        if entry.kind == "quadruped" and robot != "quadruped":  # its name would equal ENVIRONMENT_ID
            names[f"quaddyn/{robot.title().replace('_', '')}Velocity-v0"] = {"robot": robot}
    for name, arguments in names.items():
        if name not in registry:
            register(
                name,
                entry_point="quaddyn.envs.velocity_env:QuadrupedVelocityEnv",
                vector_entry_point="quaddyn.envs.velocity_env:QuadrupedVelocityVectorEnv",
                kwargs=arguments,
            )
