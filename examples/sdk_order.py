"""The joint order of an SDK.

The software of a robot (SDK) has its own joint order. A permutation, which is computed once from the joint names,
converts torques to the order of the SDK and readings back. Wrong names raise an error.
"""

import sys

import numpy as np

import quaddyn as qd

#: Joint order of the robot's software: right legs before left legs.
SDK = [f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")]


def main(picture: str | None = None) -> bool:
    """Returns True if a posture is unchanged after conversion to the SDK order and back."""
    robot = qd.load("go2")
    to_sdk = robot.joint_permutation(SDK)  # SDK's vector = ours[to_sdk]
    from_sdk = np.argsort(to_sdk)
    ours = robot.q_home[7:]
    theirs = ours[to_sdk]
    if picture:
        from matplotlib.figure import Figure

        ax = (figure := Figure(figsize=(6, 4.4), layout="constrained")).subplots()
        for i, k in enumerate(to_sdk):
            ax.plot([0, 1], [k, i], "o-", color=f"C{k // 3}")
        ax.set_yticks(range(len(SDK)), robot.actuated)
        right = ax.secondary_yaxis("right")
        right.set_yticks(range(len(SDK)), SDK)
        ax.set(xticks=[0, 1], xticklabels=["quaddyn", "SDK"], xlim=(-0.1, 1.1))
        ax.invert_yaxis()
        figure.savefig(picture, dpi=100)
    for name, angle in zip(SDK[:3], theirs[:3], strict=True):
        print(f"{name}: {angle:+.3f} rad")
    try:
        robot.joint_permutation(["FR_hip", *SDK[1:]])
    except qd.QuaddynError as error:
        print(error)
    return bool(np.array_equal(theirs[from_sdk], ours))


if __name__ == "__main__":
    print("equal after conversion and back:", main(*sys.argv[2:]))  # --picture FILE
