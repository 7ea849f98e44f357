"""Plans with Crocoddyl how a quadruped gives a paw: ``python plan_paw.py model.npz plan.npz``.

The file `requirements.txt` in this folder lists what this script needs; quaddyn is not needed. The model file contains
the URDF (`urdf`), the home configuration (`q_home`), names of joints (`joints`) and of the frames of the feet (`feet`),
of which the first one is raised. `crocoddyl_plan.py` writes it and tracks the plan.
"""

import sys

import crocoddyl
import numpy as np
import pinocchio as pin

NODE = 0.02  # time between nodes of the plan [s]
RAISED = np.array([0.08, 0.0, 0.12])  # displacement of the raised foot [m]
#: Number of nodes of each phase, whether the paw is on the ground, and fraction of the displacement at its end.
PHASES = (40, True, 0.0), (30, False, 1.0), (15, False, 1.0), (30, False, 0.0), (30, True, 0.0)
FRICTION, MIN_FORCE, MAX_FORCE = 0.5, 5.0, 300.0  # of each foot on the ground; normal forces [N]
AXES = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED


def plan(urdf: str, q_home: np.ndarray, joints: list[str], feet: list[str]) -> dict[str, np.ndarray]:
    """Returns q (n + 1, nq), v (n + 1, nv), tau (n, nu) of the nodes, and whether the paw is on the ground (n,)."""
    model = pin.buildModelFromXML(urdf, pin.JointModelFreeFlyer())
    if list(model.names)[2:] != joints:
        raise SystemExit(f"joints: expected the order of Pinocchio, {list(model.names)[2:]}, got {joints}")
    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFloatingBase(state)
    nu, data = actuation.nu, model.createData()
    start = np.concatenate([q_home, np.zeros(model.nv)])
    paw = model.getFrameId(feet[0])
    pin.framesForwardKinematics(model, data, q_home)
    home = data.oMf[paw].translation.copy()
    weights = np.concatenate([np.zeros(3), np.full(3, 10.0), np.full(nu, 1.0), np.full(model.nv, 0.1)])

    def node(on_ground: bool, goal: float | None) -> crocoddyl.ActionModelAbstract:
        contacts, costs = crocoddyl.ContactModelMultiple(state, nu), crocoddyl.CostModelSum(state, nu)

        def add(name: str, residual: object, weight: float, *activation: object) -> None:
            costs.addCost(name, crocoddyl.CostModelResidual(state, *activation, residual), weight)

        for foot in feet if on_ground else feet[1:]:
            frame = model.getFrameId(foot)
            point = crocoddyl.ContactModel3D(state, frame, np.zeros(3), AXES, nu, np.array([0.0, 50.0]))
            contacts.addContact(foot, point)
            cone = crocoddyl.FrictionCone(np.eye(3), FRICTION, 4, True, MIN_FORCE, MAX_FORCE)  # inscribed pyramid
            barrier = crocoddyl.ActivationModelQuadraticBarrier(crocoddyl.ActivationBounds(cone.lb, cone.ub))
            add(foot, crocoddyl.ResidualModelContactFrictionCone(state, frame, cone, nu), 10.0, barrier)
        add(
            "state",
            crocoddyl.ResidualModelState(state, start, nu),
            10.0,
            crocoddyl.ActivationModelWeightedQuad(weights),
        )
        add("torques", crocoddyl.ResidualModelControl(state, nu), 0.01)
        if goal is not None:
            place = home + goal * RAISED
            add("paw", crocoddyl.ResidualModelFrameTranslation(state, paw, place, nu), 1e6)
            linear = crocoddyl.ActivationModelWeightedQuad(np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]))
            add("rest", crocoddyl.ResidualModelFrameVelocity(state, paw, pin.Motion.Zero(), AXES, nu), 1e4, linear)
        dynamics = crocoddyl.DifferentialActionModelContactFwdDynamics(state, actuation, contacts, costs, 0.0, True)
        return crocoddyl.IntegratedActionModelEuler(dynamics, NODE)

    nodes = []
    for count, on_ground, goal in PHASES:
        nodes += [node(on_ground, goal if not on_ground and k == count - 1 else None) for k in range(count)]
    problem = crocoddyl.ShootingProblem(start, nodes, node(True, None))
    solver = crocoddyl.SolverFDDP(problem)
    at_rest = [start] * (len(nodes) + 1)
    solver.solve(at_rest, problem.quasiStatic(at_rest[:-1]), 100)
    print(f"Crocoddyl {crocoddyl.__version__}, pin {pin.__version__}: {solver.iter} iterations, cost {solver.cost:.4g}")
    x = np.array(solver.xs)
    return {
        "q": x[:, : model.nq],
        "v": x[:, model.nq :],
        "tau": np.array(solver.us),
        "on_ground": np.concatenate([np.full(count, on_ground) for count, on_ground, _ in PHASES]),
        "node": np.array(NODE),
    }


if __name__ == "__main__":
    model_file, plan_file = sys.argv[1:]
    with np.load(model_file) as given:
        found = plan(str(given["urdf"]), given["q_home"], given["joints"].tolist(), given["feet"].tolist())
    np.savez_compressed(plan_file, **found)
