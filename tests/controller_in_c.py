"""Comparison of a controller in Python with its export to C on the same ticks."""

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

import quaddyn as qd
from quaddyn.compiler.compilation_units import CompilationUnit
from quaddyn.wbc import ForceTask, JointFriction, Task, TorqueLimits, export_c, tick_core

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
#: Flags with which C has the bits of uncontracted machine code; optimized only in the nightly run, which takes longer.
SAME_BITS = ("-O2" if "QUADDYN_SLOW" in os.environ else "-O0", "-ffp-contract=off")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
OUTCOMES = ("solved", "infeasible", "inaccurate", "fallback", "overflow", "not a number", "refused")


#: Compiled libraries by their source, since compiling a controller takes seconds.
_compiled = {}


def compiled(folder, out, *flags, program=None, compiler=COMPILER):
    """Compiles the sources of a folder to a library, or to a program with the given main; warnings are errors."""
    sources = sorted(each for each in Path(folder).glob("*.c") if each.name != "main.c")
    kind = ("-shared", "-fPIC") if program is None else (str(program),)
    files = tuple((each.name, each.read_bytes()) for each in sorted(Path(folder).glob("*.[ch]")))
    key = (files, flags, kind, compiler)
    if program is None and key in _compiled:
        Path(out).write_bytes(_compiled[key])
        return out
    command = [compiler, *STRICT, *flags, "-I", str(folder), *kind, *map(str, sources), "-lm", "-o", str(out)]
    made = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert made.returncode == 0, made.stderr
    if program is None:
        _compiled[key] = Path(out).read_bytes()
    return out


@cache
def uncontracted():
    """Entries of `tick_core` by name, as machine code without fused multiply-add."""
    return CompilationUnit.of_module(tick_core.__name__).compile_uncached(contract=False)


class ExportedController:
    """An exported controller as a library.

    Args:
        controller: the controller to export.
        folder: folder for the sources.
        name: prefix of the functions.
        flags: flags of the compiler.
    """

    def __init__(self, controller, folder, name, *flags):
        robot = controller.robot
        self.name, self.robot, self.contacts = name, robot, tuple(controller.contacts)
        self.source = export_c(controller, folder, name=name)
        self.library = ctypes.CDLL(str(compiled(folder, Path(folder) / f"{name}.so", *flags)))
        self.tau, self.wanted = np.zeros(robot.nu), np.zeros(max(1, len(self.contacts)), dtype=np.uint8)
        self.function = getattr(self.library, f"{name}_tick")
        size = getattr(self.library, f"{name}_size")
        size.restype = ctypes.c_size_t
        self.memory = ctypes.create_string_buffer(size())
        getattr(self.library, f"{name}_initialize")(self.memory)
        self.fill = getattr(self.library, f"{name}_terms")

    def tick(self, q, v, contacts):
        """Runs a tick; returns outcome and torques."""
        if contacts is not None:
            self.wanted[: len(self.contacts)] = [name in contacts for name in self.contacts]
        wanted = None if contacts is None else self.wanted.ctypes.data
        given = [ctypes.c_void_p(x) for x in (q.ctypes.data, v.ctypes.data, wanted, self.tau.ctypes.data)]
        return self.function(self.memory, *given), self.tau

    def terms(self, q, v, out):
        self.fill(*(ctypes.c_void_p(x.ctypes.data) for x in (q, v, out)))
        return out

    def set(self, name, *arguments):
        """Calls a setter; returns whether the values were accepted."""
        arrays = [np.ascontiguousarray(x, dtype=np.float64) if isinstance(x, np.ndarray) else x for x in arguments]
        given = [
            ctypes.c_void_p(x.ctypes.data)
            if isinstance(x, np.ndarray)
            else ctypes.c_void_p(None)
            if x is None
            else ctypes.c_double(x)
            if isinstance(x, float)
            else ctypes.c_int(x)
            for x in arrays
        ]
        return getattr(self.library, f"{self.name}_{name}")(self.memory, *given)

    def array(self, name, *shape):
        """Copy of the array that an accessor returns."""
        function = getattr(self.library, f"{self.name}_{name}")
        function.restype = ctypes.POINTER(ctypes.c_double)
        return np.ctypeslib.as_array(function(self.memory), shape=(int(np.prod(shape)),)).reshape(shape).copy()

    def number(self, name):
        function = getattr(self.library, f"{self.name}_{name}")
        function.restype = ctypes.c_double
        return function(self.memory)


@dataclass
class Tally:
    """Counts of compared ticks, differences and rejected states."""

    ticks: int = 0
    different: int = 0
    refused: int = 0
    worst: float = 0.0
    worst_solved: float = 0.0
    outcomes: dict = field(default_factory=dict)

    def __str__(self):
        apart = f"by {self.worst:.1e} relative at most, {self.worst_solved:.1e} where solved"
        more = f", {self.refused} states refused by both"
        return f"{self.ticks} ticks {self.outcomes}: {self.different} differ, {apart}{more}"


class ControllerPair:
    """A controller in Python and in C; `tick` compares.

    Args:
        name: name of the robot.
        folder: folder for the sources.
        exact: whether Python's tick runs without fused multiply-add and with the terms of C, for bit equality.
        flags: flags of the compiler.
        make: function that returns a controller.
    """

    def __init__(self, name, folder, *flags, exact=True, make=qd.WholeBodyController):
        self.robot = qd.load(name)
        self.python, self.dynamics = make(self.robot), qd.Dynamics(self.robot)
        self.c = ExportedController(make(self.robot), folder, f"{name}_wbc", *flags)
        if exact:
            solver, entries = self.python._structure.solver, uncontracted()
            solver._tick = lambda q, v, values: entries["tick"](q, v, solver.data, values)
            solver._advance_contacts = lambda *arguments: entries["advance_contacts_entry"](
                solver._ramps, solver.data.contacts, *arguments
            )
            solver._fill_terms = self.c.terms
        self.exact, self.tally = exact, Tally()
        self.torque = next(e.name for e in self.python.tasks.values() if isinstance(e, TorqueLimits))
        self.limits = self.python.tasks[self.torque].limits.copy()

    def reset(self):
        self.python.reset()
        self.c.set("reset")
        self.c.tau[:] = 0.0  # C returns its last torques, zero after a reset

    def tick(self, q, v, contacts):
        """Runs a tick of both and compares them; returns Python's command."""
        command = self.python.compute(self.dynamics.update(q, v), contacts)
        outcome, tau = self.c.tick(q, v, contacts)
        tally = self.tally
        tally.ticks += 1
        tally.outcomes[command.status.outcome] = tally.outcomes.get(command.status.outcome, 0) + 1
        same = OUTCOMES[outcome] == command.status.outcome and tau.tobytes() == command.tau.tobytes()
        tally.different += not same
        if not same:
            apart = np.abs(tau - command.tau).max() / max(1.0, np.abs(command.tau).max())
            tally.worst = max(tally.worst, float(apart))
            if command.status.ok:
                tally.worst_solved = max(tally.worst_solved, float(apart))
        return command

    def check_rejection(self, q, v, rng):
        """Checks an invalid state that both reject, with unchanged torques of C."""
        q, v, kind = q.copy(), v.copy(), rng.integers(4)
        x = q if rng.random() < 0.5 else v
        x[rng.integers(len(x))] = (np.nan, np.inf, -np.inf, 1e200)[kind]
        before = self.c.tau.copy()
        with pytest.raises(qd.ArgumentError):
            self.python.compute(self.dynamics.update(q, v))
        outcome, tau = self.c.tick(q, v, None)
        assert OUTCOMES[outcome] == ("refused" if kind == 3 else "not a number")
        assert tau.tobytes() == before.tobytes()
        self.tally.refused += 1

    # -- settings, changed on both sides -------------------------------------------------------------------------
    def set_reference(self, name, position, velocity=None, acceleration=None):
        arguments = (position, velocity, acceleration)
        self.python.tasks[name].reference(*arguments)
        arguments = arguments if self.python.tasks[name].size else arguments[1:]
        assert self.c.set(f"{_word(name)}_reference", *arguments) == 1, name

    def scale_torque_limits(self, share):
        self.python.tasks[self.torque].limits = share * self.limits
        assert self.c.set(f"{_word(self.torque)}_limits", share * self.limits) == 1

    def set_friction(self, mu):
        for c, settings in enumerate(self.python.contacts.values()):
            if settings.contact.kind == "point" and settings.contact.unilateral:
                settings.friction = mu
                assert self.c.set("friction", c, float(mu)) == 1

    def set_normal_force_bounds(self, c, least, largest):
        list(self.python.contacts.values())[c].limit(least, largest)
        assert self.c.set("normal_force", c, float(least), float(largest)) == 1

    def set_joint_friction(self, name, share, damping, coulomb):
        nv, friction = self.robot.nv, self.python.tasks[name]
        friction.compensation_fraction, friction.damping, friction.coulomb = share, damping, coulomb
        assert self.c.set(f"{_word(name)}_share", np.array([share])) == 1
        for what, value in (("damping", damping), ("coulomb", coulomb)):
            assert self.c.set(f"{_word(name)}_{what}", np.full(nv, value)) == 1

    def set_force_references(self, name, wanted):
        self.python.tasks[name].reference(wanted)
        for c, contact in enumerate(self.c.contacts):
            assert self.c.set(f"{_word(name)}_reference", c, wanted.get(contact)) == 1

    def change(self, rng, calm=False):
        """Changes references and limits on both sides at random."""
        robot, kind = self.robot, 7 if calm else rng.integers(8)
        state = self.dynamics.update(robot.q_home, np.zeros(robot.nv))
        if kind == 0:
            self.scale_torque_limits(rng.choice([1.0, 1.0, 0.4, 0.1, 0.01]))
        elif kind == 1 and self.c.contacts:
            self.set_friction(rng.choice([0.6, 0.6, 0.2, 0.0]))
        elif kind == 2 and self.c.contacts:
            self.set_normal_force_bounds(
                int(rng.integers(len(self.c.contacts))), *[(0.0, np.inf), (5.0, 60.0)][rng.integers(2)]
            )
        for name, task in self.python.tasks.items():
            if isinstance(task, JointFriction):
                self.set_joint_friction(
                    name, *((0.0, 1.0, 1.0), (1.0, 0.0, 0.1), (0.5, 0.1, 0.0))[self.tally.ticks % 3]
                )
                continue
            if rng.random() < 0.7:
                continue
            if isinstance(task, ForceTask):
                about = [c for c in self.c.contacts if task.contacts is None or c in task.contacts]
                sizes = {c: self.python.contacts[c].size for c in about if rng.random() < 0.5}
                self.set_force_references(name, {c: 10.0 * rng.normal(size=size) for c, size in sizes.items()})
            elif isinstance(task, Task):
                rows = len(task.labels)
                position = task.position(state)
                if position.shape == (9,):
                    position = (pin.exp3(0.1 * rng.normal(size=3)) @ position.reshape(3, 3)).ravel()
                elif len(position) == rows:
                    position = position + 0.02 * rng.normal(size=rows)
                self.set_reference(
                    name, position, *(0.1 * rng.normal(size=rows) if rng.random() < 0.5 else None for _ in range(2))
                )

    def run_closed_loop(self, count, seed, *, calm=False):
        """Runs `count` ticks in closed loop with changing contacts, references, limits and weak motors.

        With `calm` the robot stays near home with full torque limits.
        """
        robot, rng, names = self.robot, np.random.default_rng(seed), self.c.contacts
        q, v = robot.q_home.copy(), np.zeros(robot.nv)
        contacts, switch, start = None, 0, 0
        for k in range(count):
            if k == switch:
                switch = k + int(rng.integers(5, 120))
                contacts = tuple(n for n in names if rng.random() < 0.8) if rng.random() < 0.9 and not calm else None
                self.change(rng, calm)
            if k == start or np.abs(v).max() > 30.0:
                start = k + int(rng.integers(100, 600))
                spread = rng.choice([0.02, 0.02 if calm else 0.2, 0.02 if calm else 1.0])
                q = robot.algorithms.integrate(robot.model, robot.q_home, spread * rng.normal(size=robot.nv))
                v = rng.choice([0.0, 0.0 if calm else 0.2, 0.0 if calm else 2.0]) * rng.normal(size=robot.nv)
                if rng.random() < 0.4:
                    self.reset()
            if rng.random() < 0.005:
                self.check_rejection(q, v, rng)
            command = self.tick(q, v, contacts)
            v = v + self.python.dt * command.acceleration
            q = robot.algorithms.integrate(robot.model, q, self.python.dt * v)
        return self.tally


def _word(name):
    return "".join(c if c.isalnum() else "_" for c in name)


#: A C program of hostile ticks; NAME, UPPER (name of the controller), FREE (its root) and SET (a setter) are replaced.
HOSTILE = Path(__file__).with_name("hostile_controller.c")
#: Numbers that such programs draw.
HOSTILE_NUMBERS = Path(__file__).with_name("hostile_numbers.h")


def hostile(controller, folder, ticks, *flags):
    """Runs hostile ticks of a controller under sanitizers; returns the number of ticks by outcome."""
    name, robot = "hostile", controller.robot
    export_c(controller, folder, name=name)
    setter = (
        f"{name}_com_reference(&robot, wanted, wanted, NULL)"
        if robot.root == "free"
        else f"{name}_torque_limits(&robot, wanted)"
    )
    text = (
        HOSTILE.read_text(encoding="utf-8")
        .replace("UPPER", name.upper())
        .replace("NAME", name)
        .replace("SET;", f"(void){setter};")
    )
    text = text.replace("FREE", "1" if robot.root == "free" else "0")
    program = Path(folder) / "main.c"
    program.write_text(text, encoding="utf-8")
    shutil.copy(HOSTILE_NUMBERS, folder)
    built = compiled(folder, Path(folder) / "hostile", *flags, program=program)
    done = subprocess.run([str(built), str(ticks)], capture_output=True, encoding="utf-8", env=_sanitizers())
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return dict(zip(OUTCOMES, map(int, done.stdout.split(":")[1].split()), strict=True))


def _sanitizers():
    return os.environ | {"UBSAN_OPTIONS": "print_stacktrace=1"}
