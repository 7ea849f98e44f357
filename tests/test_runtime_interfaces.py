"""Robots behind one interface: both plants, and any MuJoCo model by the names of its joints."""

from __future__ import annotations

import struct
from types import SimpleNamespace as Message

import numpy as np
import pinocchio as pin
import pytest
from raising import raises
from urdf_text import inertial, joint, link, urdf

import quaddyn as qd
from quaddyn.robot.home import JointPositions
from quaddyn.runtime import MotorCommand, MujocoInterface, PlantInterface
from quaddyn.runtime.unitree import LOW_CMD, LOW_STATE, UnitreeInterface, crc32, state_crc
from quaddyn.simulation import Encoders, FootSensors, MujocoPlant, Sensors, Simulation
from quaddyn.simulation.mujoco_model import ROBOT_BIT, TERRAIN_BIT, make_specification

mujoco = pytest.importorskip("mujoco")

MOMENTS = "0.02 0.03 0.025"
URDF = urdf(
    link("trunk", inertial(5, "0.01 0 0.02", MOMENTS)),
    link("arm", inertial(1, "0.1 0 0.05", MOMENTS)),
    link("hand", inertial(0.5, "0.05 0.02 0", MOMENTS)),
    link("wheel", inertial(0.7, "0 0.01 0", MOMENTS)),
    joint("shoulder", "trunk", "arm", "0 1 0", "0.2 0 0.1", ends="-2 2", effort=40),
    joint("wrist", "arm", "hand", "1 0 0", "0.2 0 0", kind="prismatic", ends="-2 2", effort=40),
    joint("roll", "trunk", "wheel", "0 1 0", "-0.2 0.1 -0.1", kind="continuous", effort=40),
    name="wagon",
)
# The same robot beside another: other order, a free joint without a name, a coordinate with an offset, a gear, a gain.
BODY = '<inertial pos="{0}" mass="{1}" diaginertia="' + MOMENTS + '"/>'
MJCF = f"""<mujoco><option timestep="0.002" gravity="0 0 -9.81"/><worldbody>
  <body name="ball" pos="3 0 1"><freejoint/><geom size="0.1"/></body>
  <body name="cart" pos="0 0 2" quat="0.8 0 0.6 0"><freejoint/>{BODY.format("0.01 0 0.02", 5)}
    <body pos="-0.2 0.1 -0.1"><joint name="roll" axis="0 1 0"/>{BODY.format("0 0.01 0", 0.7)}</body>
    <body pos="0.2 0 0.1"><joint name="shoulder" axis="0 1 0" REF/>{BODY.format("0.1 0 0.05", 1)}
      <body pos="0.2 0 0"><joint name="wrist" type="slide" axis="1 0 0"/>{BODY.format("0.05 0.02 0", 0.5)}</body></body>
  </body></worldbody>
  <actuator><general name="m2" joint="wrist" gear="2.5" gainprm="2"/><motor name="m1" joint="roll"/></actuator>
  </mujoco>"""


def make_mujoco_model(ref: str = 'ref="40"', change: tuple[str, str] = ("", "")) -> tuple[object, object]:
    model = mujoco.MjModel.from_xml_string(MJCF.replace("REF", ref).replace(*change))
    return model, mujoco.MjData(model)


@pytest.fixture(scope="module")
def wagon() -> qd.Robot:
    return qd.load(URDF, root="free")


def test_custom_mujoco_model_moves_as_the_robot(wagon: qd.Robot) -> None:
    """Accelerations under torques and gravity agree with those of `Dynamics` in every convention at once."""
    model, data = make_mujoco_model()
    side, dyn, rng = MujocoInterface(wagon, model, data), qd.Dynamics(wagon), np.random.default_rng(1)
    for seed in range(3):
        q, v, tau = wagon.random_configuration(seed), rng.standard_normal(wagon.nv), 5.0 * rng.standard_normal(3)
        side.set_state(q, v)
        assert np.allclose(side.q, q) or np.allclose(wagon.difference(side.q, q), 0.0)
        assert np.allclose(side.v, v)
        side.write(MotorCommand.from_torques(tau))
        dt = 1e-6
        model.opt.timestep = dt
        side.step()
        assert np.allclose((side.v - v) / dt, dyn.aba(q, v, wagon.generalized_torques(tau)), atol=1e-2)


def test_sensors_of_a_custom_mujoco_model_are_read_back(wagon: qd.Robot) -> None:
    model, data = make_mujoco_model()
    side = MujocoInterface(wagon, model, data)
    assert side.base == "cart" and side.step_time == 0.002
    q = wagon.configuration(joints={"shoulder": 0.3, "wrist": -0.1, "roll": 2.5}, orientation={"rpy": [0.1, 0.2, 0.3]})
    v = np.arange(9.0)
    side.set_state(q, v)
    assert np.isclose(data.joint("shoulder").qpos[0], 0.3 + np.deg2rad(40.0))  # relative to its ref
    reading = side.read()
    wanted = {"shoulder": 0.3, "wrist": -0.1, "roll": 2.5}
    assert np.allclose(reading.position, [wanted[name] for name in wagon.actuated])
    assert np.allclose(reading.velocity, v[wagon.actuated_index])
    assert np.allclose(reading.gyro, v[3:6])
    up = pin.Quaternion(*q[[6, 3, 4, 5]].tolist()).toRotationMatrix()[2]
    assert np.allclose(reading.accelerometer, 9.81 * up)
    assert data.qpos[0] == 3.0  # the other robot is unchanged


@pytest.mark.parametrize("ref", ["", 'ref="40"'])
def test_joint_coordinate_with_a_reference_offset_is_recognized(wagon: qd.Robot, ref: str) -> None:
    """A body drawn at 40 degrees with a coordinate of 40 degrees is at 40 degrees in the robot as well."""
    turned = 'pos="0.2 0 0.1" euler="0 40 0"' if ref else 'pos="0.2 0 0.1"'
    model, data = make_mujoco_model(ref, ('pos="0.2 0 0.1"', turned))
    side = MujocoInterface(wagon, model, data)
    side.set_state(wagon.configuration(joints={"shoulder": 0.5}))
    assert np.isclose(data.joint("shoulder").qpos[0], 0.5)


def test_position_errors_wrap_around_and_gears_divide_torques(wagon: qd.Robot) -> None:
    model, data = make_mujoco_model()
    side = MujocoInterface(wagon, model, data)
    side.set_state(wagon.configuration(joints={"roll": 3.0, "wrist": 0.1}))
    zero = np.zeros(3)
    wanted = np.array([{"roll": -3.0}.get(name, 0.0) for name in wagon.actuated])
    side.write(MotorCommand.from_targets(wanted, zero, np.full(3, 10.0), zero))
    assert np.isclose(data.actuator("m1").ctrl[0], 10.0 * (2.0 * np.pi - 6.0))
    assert np.isclose(data.actuator("m2").ctrl[0], 10.0 * -0.1 / 5.0)
    side.write(MotorCommand.from_torques([500.0, -500.0, 7.0]))
    assert np.allclose(side.tau, [40.0, -40.0, 7.0])  # the robot's limits


def test_models_of_another_robot_are_rejected(wagon: qd.Robot, go2: qd.Robot) -> None:
    with pytest.raises(qd.UnknownNameError, match="'shoulder'; did you mean 'shoulder '"):
        MujocoInterface(wagon, *make_mujoco_model(change=('"shoulder"', '"shoulder "')))
    with pytest.raises(qd.ModelError, match=r"'shoulder'.*180 degrees"):
        MujocoInterface(
            wagon, *make_mujoco_model("", ('name="shoulder" axis="0 1 0"', 'name="shoulder" axis="0 -1 0"'))
        )
    with pytest.raises(qd.ModelError, match=r"'roll'.*distance"):
        MujocoInterface(wagon, *make_mujoco_model(change=('pos="-0.2 0.1 -0.1"', 'pos="-0.2 0.1 0.1"')))
    with pytest.raises(qd.ModelError, match=r"'m1'.*proportional to ctrl"):
        MujocoInterface(wagon, *make_mujoco_model(change=('<motor name="m1"', '<position kp="3" name="m1"')))
    with pytest.raises(qd.ModelError, match=r"'wrist'.*hinge or slide"):
        MujocoInterface(
            wagon, *make_mujoco_model(change=('name="wrist" type="slide" axis="1 0 0"', 'name="wrist" type="ball"'))
        )
    with pytest.raises(qd.ModelError, match="no free joint"):
        MujocoInterface(wagon, *make_mujoco_model(change=('quat="0.8 0 0.6 0"><freejoint/>', ">")))
    raises(qd.UnknownNameError, "body", MujocoInterface, wagon, *make_mujoco_model(), base="trolley")
    model, data = make_mujoco_model()
    raises(qd.ArgumentTypeError, "data", MujocoInterface, wagon, model, model)
    with pytest.raises(qd.ArgumentError, match="stiffness"):
        MujocoInterface(wagon, model, data).write(
            MotorCommand.from_targets(*(np.zeros(3),) * 2, -np.ones(3), np.zeros(3))
        )
    with pytest.raises(qd.ArgumentError, match="finite"):
        MujocoInterface(wagon, model, data).write(MotorCommand.from_torques([np.nan, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (('mass="5"', 'mass="6"'), r"its mass is 8\.2 kg instead of 7\.2 kg\."),
        (("0 0 -9.81", "0 0 -1.62"), r"its gravity is .*-1\.62\] m/s\^2 instead of .*-9\.81"),
        (("<option ", '<option><flag gravity="disable"/></option><option '), r"its gravity is \[0\.0, 0\.0, 0\.0\]"),
        (('gainprm="2"', 'gainprm="2" ctrlrange="-6 9"'), r"limits .*: wrist 30 instead of 40\."),
        (('gainprm="2"', 'gainprm="2" forcerange="-9 9"'), r"limits .*: wrist 22\.5 instead of 40\."),
        (('name="roll" ', 'name="roll" actuatorfrcrange="-9 9" '), r"limits .*: roll 9 instead of 40\."),
    ],
)
def test_model_with_other_mass_gravity_or_torque_limits_gives_a_warning(
    wagon: qd.Robot, change: tuple[str, str], text: str
) -> None:
    model, data = make_mujoco_model(change=change)
    with pytest.warns(RuntimeWarning, match=rf"^model: differs from 'wagon': .*{text}") as caught:
        MujocoInterface(wagon, model, data)
    assert len(caught) == 1 and caught[0].filename == __file__
    MujocoInterface(wagon, model, data, check=False)  # warnings are errors in tests
    wide = 'gainprm="2" ctrlrange="-8 9" forcerange="-16 16"'
    MujocoInterface(wagon, *make_mujoco_model(change=('gainprm="2"', wide)))


def test_urdf_imported_by_mujoco_is_accepted(wagon: qd.Robot) -> None:
    """A URDF read by MuJoCo's importer, with a free joint added."""
    spec = mujoco.MjSpec.from_string(URDF.replace("<link", '<mujoco><compiler fusestatic="false"/></mujoco><link', 1))
    spec.worldbody.first_body().add_freejoint()
    model = spec.compile()
    side = MujocoInterface(wagon, model, mujoco.MjData(model))
    q = wagon.random_configuration(4)
    side.set_state(q)
    assert np.allclose(wagon.difference(side.q, q), 0.0) and side.base == "trunk"


def test_a_command_holds_the_same_posture_on_every_simulator(go2: qd.Robot) -> None:
    """Joint stiffness to the home posture, on both plants and on MuJoCo models with the floor first or last.

    The contact forces act on the robot in either order of floor and feet.
    """
    plant = MujocoPlant(go2, dt=2e-3)
    feet = [sphere for sphere in plant._spheres if sphere.reported_name in go2.feet]
    spec = make_specification(go2, feet, plant.actuators, joint_stops=True)
    spec.option.timestep = 2e-3
    box = {"type": mujoco.mjtGeom.mjGEOM_BOX, "size": [5.0, 5.0, 0.5], "contype": TERRAIN_BIT, "conaffinity": ROBOT_BIT}
    spec.worldbody.add_body(pos=[0.0, 0.0, -0.5]).add_geom(**box)
    sides = [PlantInterface(Simulation(go2, dt=2e-3)), PlantInterface(MujocoPlant(go2, dt=2e-3))]
    sides += [MujocoInterface(go2, model, mujoco.MjData(model)) for model in (plant.model, spec.compile())]
    floors = [int(np.flatnonzero(side.model.geom_contype == TERRAIN_BIT)[0]) for side in sides[2:]]
    assert floors == [0, len(feet)] == [0, 4]
    for side in sides[2:]:
        side.set_state(go2.q_home)
    home = go2.q_home[7:]
    command = MotorCommand.from_targets(home, np.zeros(12), np.full(12, 80.0), np.full(12, 2.0))
    for side in sides:
        side.write(command)
        side.sleep_until(0.3)
        reading = side.read()
        assert np.isclose(side.now(), 0.3) and reading.time == side.now()
        assert np.abs(reading.position - home).max() < 0.2
        assert np.isclose(reading.foot_forces.sum(), go2.mass * 9.81, rtol=0.1)
        assert np.isclose(sum(side.simulator.contact_forces[foot][2] for foot in go2.feet), go2.mass * 9.81, rtol=0.1)
        assert np.abs(reading.torque - side.commanded_torque()).max() < 0.5
        assert np.isclose(np.linalg.norm(reading.accelerometer), 9.81, rtol=0.2)


def test_foot_and_torque_sensors_are_noisy_if_requested(go2: qd.Robot) -> None:
    plant = Simulation(go2, dt=1e-3)
    plant.step(np.ones(12))
    sensors = Sensors(go2, np.random.default_rng(0), encoders=Encoders(torque_noise=0.5), feet=FootSensors(noise=2.0))
    readings = [sensors.read(plant) for _ in range(200)]
    assert 0.4 < np.std([r.torque for r in readings], axis=0).mean() < 0.6
    assert 1.5 < np.std([r.foot_forces for r in readings], axis=0).mean() < 2.5
    raises(qd.ArgumentTypeError, "feet", Sensors, go2, np.random.default_rng(0), feet=True)
    with pytest.raises(qd.ArgumentError, match="another robot"):
        PlantInterface(plant, sensors=Sensors(qd.load("a1"), np.random.default_rng(0)))


def test_joint_positions_are_written_to_and_read_from_a_configuration(wagon: qd.Robot) -> None:
    joints, position = JointPositions.actuated(wagon), 0.3 * np.arange(1.0, wagon.nu + 1.0)
    assert joints.turning.any() and not joints.turning.all()
    q = np.array(wagon.q_home)
    joints.put(q, position)
    np.testing.assert_allclose(joints.of(q), position, atol=1e-12)
    assert pin.isNormalized(wagon.model, q, 1e-12)


# -- unitree's messages -----------------------------------------------------------------------------------------------
#: Motor, joint: as the vendor numbers them.
ORDER = [f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")]


def low_cmd() -> Message:
    motors = [Message(mode=0, q=0.0, dq=0.0, tau=0.0, kp=0.0, kd=0.0, reserve=[0] * 3) for _ in range(20)]
    return Message(
        head=[0xFE, 0xEF], level_flag=0xFF, frame_reserve=0, sn=[0, 0], version=[0, 0], bandwidth=0, motor_cmd=motors,
        bms_cmd=Message(off=0, reserve=[0] * 3), wireless_remote=[0] * 40, led=[0] * 12, fan=[0, 0], gpio=0, reserve=0,
        crc=0,
    )  # fmt: skip


def low_state(position: list[float], tick: int = 1234) -> Message:
    motors = [
        Message(mode=1, q=0.0, dq=0.0, ddq=0.0, tau_est=0.0, q_raw=0.0, dq_raw=0.0, ddq_raw=0.0, temperature=30,
                lost=0, reserve=[0, 0])
        for _ in range(20)
    ]  # fmt: skip
    for i, (motor, q) in enumerate(zip(motors, position, strict=False)):
        motor.q, motor.dq, motor.tau_est = q, 0.5 * i, 0.25 * i
    imu = Message(
        quaternion=[1.0, 0.0, 0.0, 0.0], gyroscope=[0.5, 0.25, -0.5], accelerometer=[0.0, 0.5, 9.75],
        rpy=[0.0] * 3, temperature=40,
    )  # fmt: skip
    bms = Message(
        version_high=1, version_low=2, status=3, soc=88, current=-1500, cycle=7, bq_ntc=[20, 21], mcu_ntc=[30, 31],
        cell_vol=[3700] * 15,
    )  # fmt: skip
    state = Message(
        head=[0xFE, 0xEF], level_flag=0xFF, frame_reserve=0, sn=[1, 2], version=[3, 4], bandwidth=5, imu_state=imu,
        motor_state=motors, bms_state=bms, foot_force=[10, 20, 30, 40], foot_force_est=[0] * 4, tick=tick,
        wireless_remote=[0] * 40, bit_flag=0, adc_reel=0.0, temperature_ntc1=40, temperature_ntc2=41, power_v=28.5,
        power_a=2.5, fan_frequency=[0] * 4, reserve=0, crc=0,
    )  # fmt: skip
    state.crc = state_crc(state)
    return state


def standing_position(robot: qd.Robot) -> list[float]:
    home = dict(zip(robot.actuated, robot.q_home[7:].tolist(), strict=True))
    return [home[joint] + 0.0625 * i / 12 for i, joint in enumerate(ORDER)]


def test_layouts_have_the_vendor_sizes_and_the_crc_is_crc_32_mpeg_2() -> None:
    assert (LOW_CMD.size, LOW_STATE.size) == (812, 1180)
    # CRC-32/MPEG-2 of "12345678" as the catalogues of CRCs compute it: words are taken from their high byte on.
    words = struct.pack("<2I", int.from_bytes(b"1234", "big"), int.from_bytes(b"5678", "big"))
    plain = 0xFFFFFFFF
    for byte in b"12345678":
        plain ^= byte << 24
        for _ in range(8):
            plain = ((plain << 1) ^ 0x04C11DB7 if plain & 0x80000000 else plain << 1) & 0xFFFFFFFF
    assert crc32(words) == plain


def test_messages_map_every_joint_to_its_motor(go2: qd.Robot) -> None:
    sent: list[Message] = []
    state = low_state(standing_position(go2))
    side = UnitreeInterface(go2, lambda: state, sent.append, low_cmd())
    m = side.read()
    assert m.time == 1.234 and np.allclose(m.gyro, [0.5, 0.25, -0.5]) and np.allclose(m.accelerometer, [0.0, 0.5, 9.75])
    for i, name in enumerate(ORDER):
        at = go2.actuated.index(name)
        assert m.position[at] == standing_position(go2)[i] and m.velocity[at] == 0.5 * i and m.torque[at] == 0.25 * i
    assert dict(zip(go2.feet, m.foot_forces, strict=True)) == {"FR": 10.0, "FL": 20.0, "RR": 30.0, "RL": 40.0}
    assert (m.temperature == 30.0).all() and side.read() is m

    numbers = np.arange(12.0)
    side.write(MotorCommand.from_targets(numbers, 2.0 * numbers, 3.0 * numbers, 4.0 * numbers, tau=5.0 * numbers))
    for i, name in enumerate(ORDER):
        k, motor = float(go2.actuated.index(name)), sent[0].motor_cmd[i]
        assert (motor.mode, motor.q, motor.dq, motor.kp, motor.kd, motor.tau) == (1, k, 2 * k, 3 * k, 4 * k, 5 * k)
    first = sent[0].crc
    side.write(MotorCommand.zero(12))
    assert first != sent[1].crc != 0 and sent[1].motor_cmd[12].mode == 0  # motors that a Go2 does not have


def test_wrong_crc_and_wrong_motor_order_are_rejected(go2: qd.Robot) -> None:
    state = low_state(standing_position(go2))
    state.motor_state[4].q += 1e-3
    side = UnitreeInterface(go2, lambda: state, print, low_cmd())
    raises(qd.QuaddynError, "CRC", side.read)
    state = low_state(standing_position(go2)[::-1])
    raises(qd.QuaddynError, "order of the motors", side.read)
    for limits, sign in ((go2.upper_position_limits, 1.0), (go2.lower_position_limits, -1.0)):
        position, beyond = standing_position(go2), limits[go2.actuated.index(ORDER[7])] + sign
        state = low_state([*position[:7], beyond, *position[8:]])
        for _ in range(2):  # until a reading is plausible
            raises(qd.QuaddynError, f"joint {ORDER[7]} measures", side.read)
    raises(qd.QuaddynError, "no message has arrived", UnitreeInterface(go2, lambda: None, print, low_cmd()).read)
    with pytest.raises(qd.ArgumentError, match="four legs of three joints"):
        UnitreeInterface(qd.load("solo8"), lambda: None, print, low_cmd())
