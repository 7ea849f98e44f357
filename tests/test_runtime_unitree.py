"""Unitree's messages: a substitute with the same fields and memory layout."""

from __future__ import annotations

import struct
from types import SimpleNamespace as Message

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.runtime import MotorCommand
from quaddyn.runtime.unitree import LOW_CMD, LOW_STATE, UnitreeInterface, crc32, state_crc

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
    for i, joint in enumerate(ORDER):
        at = go2.actuated.index(joint)
        assert m.position[at] == standing_position(go2)[i] and m.velocity[at] == 0.5 * i and m.torque[at] == 0.25 * i
    assert dict(zip(go2.feet, m.foot_forces, strict=True)) == {"FR": 10.0, "FL": 20.0, "RR": 30.0, "RL": 40.0}
    assert (m.temperature == 30.0).all() and side.read() is m

    numbers = np.arange(12.0)
    side.write(MotorCommand.from_targets(numbers, 2.0 * numbers, 3.0 * numbers, 4.0 * numbers, tau=5.0 * numbers))
    for i, joint in enumerate(ORDER):
        k, motor = float(go2.actuated.index(joint)), sent[0].motor_cmd[i]
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
