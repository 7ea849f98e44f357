"""A policy in an ONNX file under the safety layer.

The policy runs between standing up and lying down of a walking controller, whose state estimate it is given. Its input
is an observation (1, 12 + 3 nu) of `quaddyn.envs.VelocityTask`: velocity and angular velocity of the base and direction
of gravity in base axes, commanded velocity, joint positions relative to home, joint velocities and the last action. Its
output is an action (1, nu) every 20 ms: PD control with the gains of the task follows home + 0.3 rad * action. Without
--policy FILE an affine policy is fitted to the whole-body controller by least squares. Needs the extra quaddyn[onnx].
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import quaddyn as qd
from quaddyn.runtime import ControlLoop, MotorCommand, Operator, PlantInterface, Stage, WalkingController

TICK, HOLD, SCALE = 0.004, 5, 0.3  # period of the loop [s], ticks of an action, its unit [rad]
PUSH, G = 0.2, 9.81  # largest horizontal force divided by the weight, gravity [m/s^2]


def observe(robot: qd.Robot, q: np.ndarray, v: np.ndarray, command: tuple, action: np.ndarray) -> np.ndarray:
    """Returns the observation (12 + 3 nu,) of a state."""
    x, y, z, w = q[3:7]
    gravity = [2.0 * (w * y - x * z), -2.0 * (y * z + w * x), 2.0 * (x * x + y * y) - 1.0]
    return np.concatenate([v[:6], gravity, command, q[7:] - robot.q_home[7:], v[6:], action])


def save_affine(file: Path, weights: np.ndarray, bias: np.ndarray) -> None:
    """Writes the policy ``observation @ weights + bias``."""
    from onnx import TensorProto, helper, numpy_helper, save

    arrays = {"weights": weights, "bias": bias}
    tensors = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    sizes = zip(("observation", "action"), weights.shape, strict=True)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in sizes]
    node = helper.make_node("Gemm", ["observation", "weights", "bias"], ["action"])
    graph = helper.make_graph([node], "policy", ends[:1], ends[1:], tensors)
    save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]), str(file))


class PolicyController(WalkingController):
    """Walking controller that runs a policy in the stage RUN; without one it records observations and actions."""

    def __init__(self, robot: qd.Robot) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise qd.QuaddynError("onnxruntime is not installed; pip install 'quaddyn[onnx]' installs it") from None
        super().__init__(robot, dt=TICK)
        self.onnxruntime = onnxruntime
        self.policy, self.samples, self.ticks, self.action = None, [], 0, np.zeros(robot.nu)
        self.kp = np.full(robot.nu, robot.mass * G * robot.q_home[2])
        self.kd = 0.1 * np.sqrt(robot.q_home[2] / G) * self.kp

    def load(self, file: str | Path) -> None:
        """Runs the policy of a file from now on."""
        (options := self.onnxruntime.SessionOptions()).intra_op_num_threads = 1
        session = self.onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
        sizes = [[end.shape[-1] for end in ends] for ends in (session.get_inputs(), session.get_outputs())]
        if sizes != (expected := [[12 + 3 * self.robot.nu], [self.robot.nu]]):
            raise qd.QuaddynError(f"policy: expected inputs and outputs of sizes {expected}, got {sizes} in {file}")
        name = session.get_inputs()[0].name
        self.policy = lambda observation: session.run(None, {name: observation[None].astype(np.float32)})[0][0]

    def compute(self, measurement, stage, velocity=(0.0, 0.0, 0.0)) -> MotorCommand:
        command, home = super().compute(measurement, stage, velocity), self.robot.q_home[7:]
        if stage is not Stage.RUN:
            self.ticks = 0
            return command
        if self.ticks % HOLD == 0:
            observation = observe(self.robot, *self.estimated_state, velocity, self.action)
            if self.policy is None:  # the action that gives the torques of the whole-body controller
                target = measurement.position + (command.tau + self.kd * measurement.velocity) / self.kp
                self.action = (target - home) / SCALE
                self.samples.append((observation, self.action))
            else:
                self.action = np.clip(self.policy(observation), -1.0, 1.0)
        self.ticks += 1
        if self.policy is None:
            return command
        return MotorCommand.from_targets(home + SCALE * self.action, np.zeros(self.robot.nu), self.kp, self.kd)


def main(picture: str | None = None, policy: str | Path | None = None, robot: str = "go2") -> dict[str, object]:
    """Returns the largest displacements [m] by pushes with the policy and with constant targets, faults and clamps."""
    model = qd.load(robot)
    plant, controller, operator = qd.Simulation(model, dt=0.002), PolicyController(model), Operator()
    side = PlantInterface(plant)
    loop = ControlLoop(side, controller, operator=operator, clock=side)

    def push(policy: object, seconds: float, seed: int) -> tuple[np.ndarray, str]:
        """Returns horizontal displacements (n,) [m] under a random push for 0.1 s every 0.5 s, and the fault."""
        controller.policy = None  # the whole-body controller leads each policy to the same pose
        loop.run(1.0)
        controller.policy, rng, start, log = policy, np.random.default_rng(seed), plant.q[:2].copy(), []
        for k in range(round(seconds / 0.02)):
            if k % 25 == 0:
                force = PUSH * model.mass * G * rng.uniform(-1.0, 1.0, 3) * [1.0, 1.0, 0.3]
                plant.push(model.bodies[0].name, force, duration=0.1)
            report = loop.run(0.02)
            log.append(np.linalg.norm(plant.q[:2] - start))
        return np.array(log), str(report.fault or "")

    if policy is not None:
        controller.load(policy)
    operator.walk()
    loop.run(4.0)  # the robot stands up
    if policy is None:
        push(None, 6.0, seed=0)
        observations, actions = map(np.array, zip(*controller.samples, strict=True))
        inputs = observations * (np.arange(observations.shape[1]) < 12 + 2 * model.nu)  # not the last action
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6
        x = (inputs - mean) / scale  # ridge regression
        weights = np.linalg.solve(x.T @ x + 1e-3 * len(x) * np.eye(len(x.T)), x.T @ actions) / scale[:, None]
        with tempfile.TemporaryDirectory() as folder:
            save_affine(Path(folder) / "policy.onnx", weights, actions.mean(axis=0) - mean @ weights)
            controller.load(Path(folder) / "policy.onnx")
    displacement, fault = push(controller.policy, 3.0, seed=1)
    clamps = loop.safety.clamp_counts
    constant, _ = push(lambda observation: np.zeros(model.nu), 3.0, seed=1)
    _, nan_fault = push(lambda observation: np.full(model.nu, np.nan), 0.1, seed=1)
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 3.6), layout="constrained")).subplots()
        for name, values in (("policy", displacement), ("constant targets", constant)):
            ax.plot(0.02 * np.arange(1, len(values) + 1), 1e3 * values, label=name)
        ax.set(xlabel="t [s]", ylabel="displacement of the trunk [mm]")
        ax.legend(frameon=False)
        figure.savefig(picture, dpi=100)
    largest = {"policy": float(displacement.max()), "constant targets": float(constant.max())}
    return {**largest, "fault": fault, "clamps": clamps, "fault of NaN": nan_fault}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", metavar="FILE", help="file of a plot")
    parser.add_argument("--policy", metavar="FILE", help="policy with the above input and output")
    parser.add_argument("--robot", default="go2", help="quadruped of the catalogue without an arm")
    found = main(**vars(parser.parse_args()))
    for name in ("policy", "constant targets"):
        print(f"{name}: displaced by at most {1e3 * found[name]:.0f} mm under pushes")
    print(f"clamped by the safety layer: {found['clamps']}; fault: {found['fault'] or 'none'}")
    print(f"a policy that returns NaN: {found['fault of NaN']}")
    if found["fault"] or found["policy"] > found["constant targets"] or not found["fault of NaN"]:
        raise SystemExit("onnx_policy: the policy had a fault or was worse than constant targets")
