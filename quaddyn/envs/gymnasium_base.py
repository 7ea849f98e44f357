"""Classes and functions of Gymnasium, an optional dependency, or a base class that names the missing package."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from ..errors import QuaddynError

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
