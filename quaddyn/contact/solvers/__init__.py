"""Contact laws behind one interface: a `ContactProblem` in, a `ContactSolution` with its certificate out."""

from .compliant import CompliantSolver
from .frictional import FrictionalSolver
from .impact import Impact, ImpactSolver
from .problem import MAX_FRICTION, ContactProblem, ContactSolution, ContactSolver, project, project_all, residual
from .rigid import RigidSolver
from .step import ContactStep, Sphere

__all__ = [
    "MAX_FRICTION",
    "CompliantSolver",
    "ContactProblem",
    "ContactSolution",
    "ContactSolver",
    "ContactStep",
    "FrictionalSolver",
    "Impact",
    "ImpactSolver",
    "RigidSolver",
    "Sphere",
    "project",
    "project_all",
    "residual",
    "warmup",
]


def warmup() -> None:
    """Import and compile everything now, so that no first step is late: seconds once per machine, then a tenth."""
    import numpy as np
    import pinocchio as pin

    FrictionalSolver().solve(ContactProblem(np.eye(3), np.array([0.1, 0.0, -1.0]), 0.5))
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "ball")
    model.appendBodyToJoint(joint, pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())
    data, q, v = model.createData(), pin.neutral(model), np.zeros(6)
    step = ContactStep(model, data, [Sphere(joint, np.zeros(3), 0.1)], 0.5, dt=1e-3)
    pin.crba(model, data, q, pin.Convention.WORLD)
    pin.nonLinearEffects(model, data, q, v)
    step.centres()
    step.advance(v, v, v)
