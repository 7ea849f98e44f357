"""`Program`: robot and elements of a controller as the tables that the compiled dense path goes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .constraints import ContactMotion, FrictionPyramid, NormalForce, TorqueLimits, TorqueRate
from .forces import ForceTask
from .joint_bounds import JointBounds
from .levels import Element
from .motion import (
    ComTask,
    FootTask,
    FrameOrientationTask,
    FramePositionTask,
    FrameTask,
    JointAccelerationTask,
    PostureTask,
    RelativeFrameTask,
)
from .parts import Parts
from .task import Task

FRAMED = (FramePositionTask, FootTask, FrameOrientationTask, FrameTask)
TASKS = (ComTask, *FRAMED, RelativeFrameTask, PostureTask, JointAccelerationTask)
#: What compiled code writes itself; of contact motions and friction pyramids one each.
KNOWN = (*TASKS, ForceTask, NormalForce, TorqueLimits, TorqueRate, JointBounds)
ONCE = (ContactMotion, FrictionPyramid)

#: Most rows of a surface's cone of wrenches.
SURFACE = 17


class Program:
    """Tables of what does not change.

    Args:
        parts: of the controller.

    Attributes:
        table: integers, as `compiled_memory.sections` carves them.
        constants: numbers, see there.
        frames: per contact, its frame among the frames of `table`.
        shared: per contact, the item of the program that guides the same foot, or -1.
        force_tasks: in the order of their wishes.
        asked: elements that compiled code does not know, with their levels: they are asked for their rows.
        faces: of friction pyramids, 0 without any.
        free: whether the root is free and the only limb.
        drifts: whether velocity and drift of the centre of mass must be told.
        rated: whether the torque before matters.
        strict: whether contacts that hold do so on level 0.
    """

    def __init__(self, parts: Parts) -> None:
        from .compiled_contacts import FACES  # imports numba

        robot, model = parts.robot, parts.robot.model
        self._parts = parts
        self._moved: list[int] = []
        self._index: list[int] = []
        flat = [(level, e) for level, elements in enumerate(parts.levels.elements) for e in elements]
        kinds = [type(e) for _, e in flat]
        self.rated, self.strict = TorqueRate in kinds, ContactMotion in map(type, parts.levels.elements[0])
        self.faces = next((e.faces for _, e in flat if isinstance(e, FrictionPyramid)), 0)
        self.free = robot.root == "free" and sum(p == 0 for p in model.parents) == 2  # the world itself, and the base
        self.drifts = ComTask in kinds and not self.free
        self.frames = [self._place(robot.frame_id(s.frame)) for s in parts.settings.values()]
        self.force_tasks: list[ForceTask] = []
        self.asked: list[tuple[int, Element]] = []
        self._known: list[Element] = []
        items: list[tuple[int, ...]] = []
        for i, (level, e) in enumerate(flat):
            if not (type(e) in KNOWN or (type(e) in ONCE and kinds.index(type(e)) == i)):
                self.asked.append((level, e))
                continue
            rows = len(e.labels) if isinstance(e, Task) else 0
            items.append((level, e.code, parts.levels.begin[e.name], rows, *self._means(e)))
            self._known.append(e)
        feet = {e.frame: i for i, e in enumerate(self._known) if isinstance(e, FootTask)}
        self.shared = [feet.get(s.frame, -1) for s in parts.settings.values()]

        passive = np.setdiff1d(np.arange(robot.nv), robot.actuated_index)
        sizes = [model.njoints, len(self._moved), robot.nu, len(passive), len(items), len(parts.levels.elements)]
        sizes += [len(self.force_tasks), len(parts.settings), FACES + 6 * max(SURFACE, self.faces + 1), 0, 0]
        joints = [(model.parents[j], model.idx_vs[j], model.nvs[j]) for j in range(model.njoints)]
        moved = [model.frames[f].parentJoint for f in self._moved]
        lists = (sizes, np.ravel(joints), moved, self._chains(moved), robot.actuated_index, passive, np.ravel(items))
        self.table = np.concatenate([np.asarray(part, dtype=np.int64) for part in (*lists, self._index)])
        bodies = sum(inertia.mass for inertia in model.inertias[1:])
        head = [parts.scales.mass, parts.scales.length, parts.dt, bodies, float(self.free), *model.gravity.linear]
        head += [parts.solver.rank_tolerance, parts.solver.damping]
        placed = [model.frames[f].placement for f in self._moved]
        bolted = [np.vstack((at.rotation.T, at.translation)) for at in placed]
        upper = np.triu_indices(3)
        weights = [(Y.mass, *Y.lever, *Y.inertia[upper]) for Y in model.inertias]
        self.constants = np.concatenate((head, np.ravel(bolted), np.ravel(weights), model.armature))

    def most(self, nf: int) -> tuple[int, int]:
        """Most equalities and inequalities that known elements have with so many forces."""
        contacts, nu = len(self._parts.settings), self._parts.robot.nu
        equalities, limits = 1 + 3 * contacts + nf, 0  # of hidden lengths, of contacts that come and go
        for e in self._known:
            if isinstance(e, Task):
                equalities += len(e.labels)
            elif isinstance(e, ForceTask | ContactMotion):
                equalities += nf
            elif isinstance(e, FrictionPyramid):
                limits += contacts * max(SURFACE, self.faces + 1)
            else:
                limits += nf if isinstance(e, NormalForce) else nu
        return equalities, limits

    def _place(self, frame: int) -> int:
        if frame not in self._moved:
            self._moved.append(frame)
        return self._moved.index(frame)

    def _means(self, e: Element) -> tuple[int, int]:
        """The last two numbers of an item: frames, a foot's contact, where wishes begin, or joints in the index."""
        robot, model, names = self._parts.robot, self._parts.robot.model, tuple(self._parts.settings)
        at = len(self._index)
        if isinstance(e, ForceTask):
            self.force_tasks.append(e)
            return (len(self.force_tasks) - 1) * len(names), 0
        if isinstance(e, RelativeFrameTask):
            return self._place(e.frame_id), self._place(e.other_id)
        if isinstance(e, FootTask):
            return self._place(e.frame_id), names.index(e.frame) if e.frame in names else -1
        if isinstance(e, FRAMED):
            return self._place(e.frame_id), -1
        if isinstance(e, PostureTask | JointAccelerationTask):
            for i in e.index:
                joint = 1 + model.idx_vs.tolist()[1:].index(i)  # the world itself has an index, too
                self._index += [int(i), int(model.idx_qs[joint]), int(model.nqs[joint])]
        elif isinstance(e, JointBounds):
            self._index += [robot.configuration_index(joint) for joint in robot.actuated]
        return at, 0

    def _chains(self, moved: Sequence[int]) -> Any:
        """Per joint which velocities move it, how many first; of all velocities last."""
        model, nv = self._parts.robot.model, self._parts.robot.nv
        chains = np.zeros((len(moved) + 1, 1 + max(nv, 6)), dtype=np.int64)
        for chain, joint in zip(chains, moved, strict=False):
            where = sorted(model.idx_vs[j] + i for j in model.supports[joint] for i in range(model.nvs[j]))
            chain[0], chain[1 : 1 + len(where)] = len(where), where
        chains[-1, 0], chains[-1, 1:] = nv, np.arange(max(nv, 6))
        return chains.ravel()
