"""`VerificationReport`: results of a cross-check as data, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..deprecation import renamed_attributes
from ..urdf.tree import Array

#: Maximum number of deviations that are printed.
MAX_PRINTED_DEVIATIONS = 20


@dataclass(frozen=True, slots=True)
class Deviation:
    """Quantity in which the robot differs from the independent reading of its file.

    Attributes:
        name: the link, joint or frame; "world" for gravity.
        quantity: the quantity that differs, such as "inertia" or "axis".
        robot: the robot's value.
        reference: the reference's value.
        error: relative difference; infinite if something is missing on one side.
    """

    name: str
    quantity: str
    robot: str
    reference: str
    error: float

    def __str__(self) -> str:
        if not np.isfinite(self.error):
            return f"{self.name}: {self.quantity}: {self.robot}, {self.reference} in the file"
        return (
            f"{self.name}: {self.quantity} differs by {self.error:.1e}: {self.robot} here, {self.reference} in the file"
        )


@dataclass(frozen=True, eq=False)
class WorstSample:
    """Random state with the largest ratio of error to tolerance.

    Attributes:
        algorithm: the algorithm with that error.
        ratio: its error divided by its tolerance.
        q: (nq,) configuration.
        v: (nv,) velocity [rad/s, m/s].
        a: (nv,) acceleration [rad/s^2, m/s^2].
        tau: (nv,) generalized force [N m, N].
        fext: (6,) force and torque on the robot by frame, world axes [N, N m].
    """

    algorithm: str
    ratio: float
    q: Array
    v: Array
    a: Array
    tau: Array
    fext: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class ThirdOpinion:
    """Comparison of the reference's joint-space inertia M with the one that MuJoCo's importer yields.

    Attributes:
        verdict: "agrees", "disagrees", "refused: ..." with its reason, or "not compared".
        error: largest difference of the joints' block of M, as a fraction of the largest entry of the reference's
            block; None if not compared.
    """

    verdict: str
    error: float | None = None


@renamed_attributes(third="third_opinion", worst="worst_sample", failed="failed_algorithms")
@dataclass(frozen=True, eq=False)
class VerificationReport:
    """Result of `cross_check`.

    Errors are largest absolute differences relative to the largest entry of the reference's result.

    Attributes:
        robot: the robot's name.
        root: its root.
        samples: number of random states.
        seed: seed of the random states.
        errors: largest relative error of each algorithm.
        medians: median relative error of each algorithm.
        tolerances: largest tolerance of the relative error of each algorithm.
        ratios: largest ratio of error to tolerance at the same state, of each algorithm; at most 1 if it passes.
        condition: median and largest condition number of M over the states (ratio of singular values).
        deviations: mass properties, placements, axes, types, limits and gravity that differ, the largest first.
        third_opinion: comparison with MuJoCo.
        worst_sample: the state with the largest ratio.
    """

    robot: str
    root: str
    samples: int
    seed: int
    errors: Mapping[str, float]
    medians: Mapping[str, float]
    tolerances: Mapping[str, float]
    ratios: Mapping[str, float]
    condition: tuple[float, float]
    deviations: tuple[Deviation, ...]
    third_opinion: ThirdOpinion
    worst_sample: WorstSample

    @property
    def failed_algorithms(self) -> tuple[str, ...]:
        """Names of the algorithms whose error exceeds the tolerance or is NaN."""
        # Written so that NaN fails.
        return tuple(name for name, ratio in self.ratios.items() if not ratio <= 1.0)

    @property
    def passed(self) -> bool:
        """Whether every algorithm is within its tolerance, no quantity deviates, and MuJoCo does not disagree."""
        return not self.failed_algorithms and not self.deviations and self.third_opinion.verdict != "disagrees"

    def to_json(self) -> dict[str, object]:
        """Returns all results as plain values for ``json.dumps``; numbers that are not finite become None."""
        worst = self.worst_sample
        return {
            "robot": self.robot,
            "root": self.root,
            "passed": self.passed,
            "samples": self.samples,
            "seed": self.seed,
            "algorithms": {
                name: {
                    "error": _to_json_number(self.errors[name]),
                    "median": _to_json_number(self.medians[name]),
                    "tolerance": _to_json_number(self.tolerances[name]),
                    "passed": name not in self.failed_algorithms,
                }
                for name in self.errors
            },
            "condition of M": {
                "median": _to_json_number(self.condition[0]),
                "largest": _to_json_number(self.condition[1]),
            },
            "deviations": [
                {
                    "name": d.name,
                    "quantity": d.quantity,
                    "robot": d.robot,
                    "reference": d.reference,
                    "error": _to_json_number(d.error),
                }
                for d in self.deviations
            ],
            "MuJoCo": {"verdict": self.third_opinion.verdict, "error": _to_json_number(self.third_opinion.error)},
            "worst": {
                "algorithm": worst.algorithm,
                "ratio": _to_json_number(worst.ratio),
                "q": worst.q.tolist(),
                "v": worst.v.tolist(),
                "a": worst.a.tolist(),
                "tau": worst.tau.tolist(),
                "fext": {name: force.tolist() for name, force in worst.fext.items()},
            },
        }

    def __str__(self) -> str:
        width = max(len(name) for name in self.errors)
        states = f"{self.samples} states, seed {self.seed}"
        lines = [
            f"{self.robot} ({self.root} root): Pinocchio against the reference, {states}",
            *(f"DIFFERS  {deviation}" for deviation in self.deviations[:MAX_PRINTED_DEVIATIONS]),
            *(
                [f"... and {len(self.deviations) - MAX_PRINTED_DEVIATIONS} more differences"]
                if len(self.deviations) > MAX_PRINTED_DEVIATIONS
                else ()
            ),
            f"{'algorithm':<{width}}  largest error    median  tolerance",
        ]
        for name, error in self.errors.items():
            mark = "" if name not in self.failed_algorithms else "  FAILS"
            lines.append(
                f"{name:<{width}}  {error:13.1e}  {self.medians[name]:8.1e}  {self.tolerances[name]:9.1e}{mark}"
            )
        lines.append(f"condition of M: median {self.condition[0]:.1e}, largest {self.condition[1]:.1e}")
        figure = "" if self.third_opinion.error is None else f" (M: {self.third_opinion.error:.1e})"
        lines.append(f"MuJoCo's importer: {self.third_opinion.verdict}{figure}")
        lines.append("agrees" if self.passed else "DOES NOT AGREE")
        return "\n".join(lines)


def _to_json_number(value: float | None) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None
