"""Contact models of the MuJoCo plant: presets, their parameters in the model, and their effect on a foot."""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises

import quaddyn as qd
from quaddyn.campaigns.trial import Trial
from quaddyn.campaigns.trial_runner import make_trial_setup
from quaddyn.robot import Robot
from quaddyn.simulation import MujocoContact
from quaddyn.simulation.mujoco_model import PRESETS, find_contact_parameters

mujoco = pytest.importorskip("mujoco")

DT = 2e-3


def test_the_stiff_preset_is_the_default(go2: Robot) -> None:
    plants = [qd.MujocoPlant(go2, dt=DT), qd.MujocoPlant(go2, dt=DT, contact="stiff")]
    for plant in plants:
        for _ in range(50):
            plant.step(np.zeros(go2.nu))
    np.testing.assert_array_equal(plants[0].q, plants[1].q)
    model = plants[0].model
    assert model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    assert model.opt.impratio == 100.0
    assert (model.geom_condim == 3).all()
    np.testing.assert_array_equal(model.geom_solref, np.tile([2.0 * DT, 1.0], (model.ngeom, 1)))


def test_the_mujoco_preset_has_the_parameters_of_an_empty_model(go2: Robot) -> None:
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0.0, 0.0, 1.0])
    default, model = spec.compile(), qd.MujocoPlant(go2, dt=DT, friction=0.7, contact="mujoco").model
    assert model.opt.cone == default.opt.cone
    assert model.opt.impratio == default.opt.impratio
    for name in ("geom_solref", "geom_solimp", "geom_condim"):
        ours, theirs = getattr(model, name), getattr(default, name)
        np.testing.assert_array_equal(ours, np.broadcast_to(theirs, ours.shape))
    floor = model.geom_bodyid == 0
    np.testing.assert_allclose(model.geom_friction[floor], [[0.7, *default.geom_friction[0, 1:]]])


@pytest.mark.parametrize("preset", PRESETS)
def test_friction_cone_of_every_preset_has_the_given_coefficient(go2: Robot, preset: str) -> None:
    """The tangential force of fast sliding feet is mu times their normal force, or less with a pyramid."""
    friction, ratios = 0.5, []
    plant, v = qd.MujocoPlant(go2, dt=DT, friction=friction, contact=preset), np.zeros(go2.nv)
    v[0] = 3.0
    plant.reset(np.array(go2.q_home), v)
    for k in range(80):
        plant.step(400.0 * (go2.q_home[-go2.nu :] - plant.q[-go2.nu :]) - 6.0 * plant.v[-go2.nu :])
        total = sum(plant.contact_forces.values(), np.zeros(3))
        if k > 10 and total[2] > 0.2 * go2.mass * 9.81:
            ratios.append(float(np.hypot(*total[:2])) / float(total[2]))
    assert max(ratios) <= 1.02 * friction
    assert max(ratios) > (0.5 if preset in ("mujoco", "soft") else 0.9) * friction


def test_only_soft_contacts_creep_under_load(go2: Robot) -> None:
    """A robot that stands is pulled sideways with a tenth of its weight, far below the friction limit."""
    crept = {}
    for preset in PRESETS:
        plant = qd.MujocoPlant(go2, dt=DT, friction=1.0, contact=preset)
        home = go2.q_home[-go2.nu :]
        for k in range(500):
            if k == 250:
                plant.push(go2.bodies[0].name, np.array([0.0, 0.1 * go2.mass * 9.81, 0.0]), duration=1.0)
                start = np.mean([qd.Dynamics(go2).update(plant.q, plant.v).placement("FL").translation[1]])
            plant.step(200.0 * (home - plant.q[-go2.nu :]) - 5.0 * plant.v[-go2.nu :])
        end = qd.Dynamics(go2).update(plant.q, plant.v).placement("FL").translation[1]
        crept[preset] = float(abs(end - start))
    assert crept["stiff"] < 1e-3
    assert crept["mujoco"] > 3.0 * crept["stiff"]
    assert crept["soft"] > crept["mujoco"]


def test_arguments_override_the_preset_and_wrong_ones_are_rejected(go2: Robot) -> None:
    model = qd.MujocoPlant(go2, dt=DT, contact="mujoco", time_constant=0.05, impratio=7.0).model
    assert model.opt.impratio == 7.0
    np.testing.assert_array_equal(model.geom_solref, np.tile([0.05, 1.0], (model.ngeom, 1)))
    own = MujocoContact(cone="elliptic", condim=4, torsional=0.03, rolling=0.0, solref=(-1e4, -200.0))
    model = qd.MujocoPlant(go2, dt=DT, contact=own).model
    assert set(model.geom_condim.tolist()) == {4}
    np.testing.assert_array_equal(model.geom_solref[0], [-1e4, -200.0])
    raises(qd.UnknownNameError, "contact 'sift'", qd.MujocoPlant, go2, contact="sift")
    raises(qd.QuaddynError, "contact: expected the name of a preset", find_contact_parameters, 3)
    for name, value in {
        "cone": "round", "impratio": 0.0, "condim": 1, "torsional": -1.0, "rolling": np.nan, "solref": (0.02, -1.0),
        "solimp": (0.9, 0.95, 0.0, 0.5, 2.0),
    }.items():  # fmt: skip
        raises(qd.ArgumentError, f"^{name}: ", MujocoContact, **{name: value})
    for name, value in {"solref": [0.02, 1.0], "solimp": (0.9, "x", 0.001, 0.5, 2.0), "rolling": "none"}.items():
        raises(qd.QuaddynError, f"^{name}: ", MujocoContact, **{name: value})


def test_plant_name_of_a_trial_selects_the_contact_model(solo12: qd.Robot) -> None:
    made = make_trial_setup(Trial(robot="solo12", plant="mujoco:soft"), solo12, np.random.default_rng(0)).plant
    assert isinstance(made, qd.MujocoPlant)
    np.testing.assert_array_equal(made.model.geom_solref[0], PRESETS["soft"].solref)
    made = make_trial_setup(Trial(robot="solo12", plant="embedded:compliant"), solo12, np.random.default_rng(0)).plant
    assert isinstance(made, qd.Simulation)
    made = make_trial_setup(Trial(robot="solo12", plant="embedded:creeping"), solo12, np.random.default_rng(0)).plant
    assert isinstance(made, qd.Simulation)
    raises(qd.UnknownNameError, "plant", Trial, robot="solo12", plant="mujoco:glass")
    twice = Trial(robot="solo12", plant="mujoco:soft", options=(("plant.contact", "stiff"),))
    raises(qd.ArgumentError, r"plant\.contact", make_trial_setup, twice, solo12, np.random.default_rng(0))
