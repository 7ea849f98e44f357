"""The pages in a real browser: drawing, motion, and no network access."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import PATIENCE, PLAIN_EDGES, Page, chromium, closed_afterwards, require

import quaddyn as qd
from quaddyn.control import JointPD
from quaddyn.demo import run_locomotion_demo
from quaddyn.viewer import Viewer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def new_tab() -> Iterator[Callable[[], Page]]:
    with chromium(require("chromium"), 640, 400, PLAIN_EDGES) as make:
        yield make


@pytest.fixture
def new_page(new_tab: Callable[[], Page]) -> Iterator[Callable[[], Page]]:
    with closed_afterwards(new_tab) as make:
        yield make


def crouched_configuration(robot: qd.Robot) -> np.ndarray:
    q = np.array(robot.q_home)
    q[2] -= 0.08
    q[3:7] = [0, 0, np.sin(0.2), np.cos(0.2)]
    return q


def count_changed_pixels(a: np.ndarray, b: np.ndarray) -> int:
    """Number of pixels that differ visibly."""
    return int((np.abs(a - b).max(axis=2) > 24).sum())


def count_red_pixels(image: np.ndarray) -> int:
    """Number of pixels in the color of a force arrow."""
    return int(((image[..., 0] > 170) & (image[..., 1] < 90) & (image[..., 2] < 90)).sum())


def wait_for_text(page: Page, viewer: Viewer, text: str) -> np.ndarray:
    page.wait(f"document.getElementById('text').textContent === '{text}'")
    image = page.pixels()
    image[:40] = 255  # without the text itself
    return image


def test_live_page_displays_the_shown_state(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    away = np.array(go2.q_home)
    away[0] = 60.0
    page = new_page()
    with Viewer(go2, meshes=False) as viewer:
        viewer.set_camera(follow=False)
        page.open(viewer.url + "#bare")
        images = {}
        for text, q, forces in (
            ("away", away, None),
            ("home", go2.q_home, None),
            ("crouched", crouched_configuration(go2), None),
            ("pushed", go2.q_home, {name: [0, 0, 40] for name in go2.feet}),
            ("released", go2.q_home, {name: [0, 0, 0] for name in go2.feet}),
        ):
            viewer.show(q, forces=forces, caption=text)
            images[text] = wait_for_text(page, viewer, text)
        area = 640 * 400
        assert count_changed_pixels(images["home"], images["away"]) > 0.05 * area, "the robot is there"
        assert count_changed_pixels(images["home"], images["crouched"]) > 0.02 * area, "it moves"
        assert count_red_pixels(images["home"]) == 0
        assert count_red_pixels(images["pushed"]) > 300, "force arrows appear"
        assert count_red_pixels(images["released"]) == 0, "and vanish"
        assert count_changed_pixels(images["home"], images["released"]) < 10
        assert page.errors == []
        own = viewer.url
        assert {r.split("#")[0] for r in page.requests if not r.startswith("data:")} == {
            own,
            own + "meshcat.js",
            own.replace("http", "ws") + "socket",
        }
    page.wait("document.getElementById('note').textContent.includes('closed')")


def test_camera_follows_the_base(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    page = new_page()
    with Viewer(go2, meshes=False) as viewer:
        page.open(viewer.url + "#bare")
        viewer.show(go2.q_home, caption="here")
        here = wait_for_text(page, viewer, "here")
        far = np.array(go2.q_home)
        far[:2] += [3.0, -2.0]  # whole grid cells
        viewer.show(far, caption="there")
        there = wait_for_text(page, viewer, "there")
    assert count_changed_pixels(here, there) < 0.01 * here[..., 0].size
    assert page.errors == []


def test_textures_are_drawn(new_page: Callable[[], Page]) -> None:
    page = new_page()
    with Viewer(qd.load("anymal_c")) as viewer:
        page.open(viewer.url + "#bare")
        image = page.pixels()
    orange = (image[..., 0] > 150) & (image[..., 1] < 110) & (image[..., 2] < 100)
    assert orange.sum() > 1500, "the shell is red, which only its texture says"
    assert page.errors == []


def test_a_recorded_page_plays_without_a_network(new_page: Callable[[], Page], go2: qd.Robot, tmp_path: Path) -> None:
    viewer = Viewer(go2, serve=False, meshes=False)
    for k in range(61):
        q = np.array(go2.q_home)
        q[2] += 0.05 * np.sin(2 * np.pi * k / 60)
        forces = {"FL": [0, 0, 80]} if k < 30 else {}
        viewer.show(q, forces=forces, time=k / 30, caption=f"step {k}")
    path = viewer.record(tmp_path / "page.html")
    page = new_page()
    page.offline()
    page.open(path.as_uri() + "#bare&t=0.5")
    with_force = page.pixels()
    assert page.evaluate("document.getElementById('text').textContent") == "step 15"
    page.evaluate("quaddyn.player.seek(1.5)")
    without = page.pixels()
    assert count_red_pixels(with_force) > 100
    assert count_red_pixels(without) == 0
    assert count_changed_pixels(with_force, without) > 0.02 * 640 * 400
    page.evaluate("quaddyn.player.play()")
    seen = set()
    deadline = time.monotonic() + PATIENCE
    while len(seen) < 3 and time.monotonic() < deadline:
        seen.add(page.evaluate("document.getElementById('text').textContent"))
    assert len(seen) >= 3, "it plays by itself"
    assert page.errors == []
    assert {r.split(":")[0] for r in page.requests} <= {"file", "data", "blob"}


def test_recorded_page_starts_automatically_and_has_controls(
    new_page: Callable[[], Page], go2: qd.Robot, tmp_path: Path
) -> None:
    viewer = Viewer(go2, serve=False, meshes=False)
    for k in range(61):
        viewer.show(go2.q_home, caption=str(k))
    page = new_page()
    page.open(viewer.record(tmp_path / "page.html").as_uri())
    first = page.evaluate("quaddyn.player.time")
    page.wait(f"quaddyn.player.time > {first} + 0.2")
    assert page.evaluate("getComputedStyle(document.getElementById('player')).display") == "flex"
    page.evaluate("document.getElementById('play').click()")
    stopped = page.evaluate("quaddyn.player.time")
    page.settle()
    assert page.evaluate("quaddyn.player.time") == stopped
    page.evaluate("(s => { s.value = 500; s.oninput(); })(document.getElementById('slider'))")
    assert page.evaluate("document.getElementById('text').textContent") == "30"


def test_no_script_in_a_page_can_reach_the_network(new_page: Callable[[], Page], go2: qd.Robot, tmp_path: Path) -> None:
    viewer = Viewer(go2, serve=False, meshes=False)
    viewer.show(go2.q_home)
    path = viewer.record(tmp_path / "page.html")
    page = new_page()
    with Viewer(go2, meshes=False) as other:  # a server that would answer
        page.open(path.as_uri())
        reached = f"fetch('{other.url}', {{mode: 'no-cors'}}).then(() => 'reached', () => 'refused')"
        assert page.evaluate(reached) == "refused"
        socket = f"new WebSocket('{other.url.replace('http', 'ws')}socket')"
        outcome = "s.onopen = () => done('reached'); s.onerror = () => done('refused');"
        outcome = f"new Promise(done => {{ const s = {socket}; {outcome} }})"
        assert page.evaluate(outcome) == "refused"
    assert any("Content Security Policy" in e for e in page.errors)


def press(page: Page, code: str, key: str, *, down: bool) -> None:
    page.call("Input.dispatchKeyEvent", type="keyDown" if down else "keyUp", code=code, key=key)


def test_held_keys_reach_the_viewer_until_they_are_released(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    page = new_page()
    with Viewer(go2, meshes=False) as viewer:
        page.open(viewer.url)

        def held() -> frozenset[str]:
            page.settle()
            time.sleep(0.1)
            return viewer.pressed_keys

        press(page, "KeyW", "w", down=True)
        press(page, "ArrowLeft", "ArrowLeft", down=True)
        press(page, "KeyZ", "z", down=True)  # not a used key
        assert held() == {"KeyW", "ArrowLeft"}
        press(page, "KeyW", "w", down=False)
        assert held() == {"ArrowLeft"}
        page.evaluate("dispatchEvent(new Event('blur'))")  # a page without focus releases its keys
        assert held() == set()
    assert page.errors == []


def test_forces_are_drawn_only_at_contacts(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    page = new_page()
    plant = qd.Simulation(go2, dt=2e-3)
    start = np.array(go2.q_home)
    start[2] += 0.1
    plant.reset(start)
    pd = JointPD(go2, dt=2e-3)
    with Viewer(go2, meshes=False) as viewer:
        page.open(viewer.url + "#bare")
        seen = {}
        for word, seconds in (("flight", 0.08), ("landed", 0.6)):
            for _ in range(round(seconds / 2e-3)):
                plant.step(pd.compute(plant.q, plant.v, go2.q_home, np.zeros(go2.nv)).tau)
            assert bool(plant.contacts) == (word == "landed")
            viewer.show(plant.q, contacts=plant.contacts, caption=word)
            seen[word] = wait_for_text(page, viewer, word)
    assert count_red_pixels(seen["flight"]) == 0
    assert count_red_pixels(seen["landed"]) > 300
    assert page.errors == []


def test_recorded_trot_shows_the_loaded_feet(new_page: Callable[[], Page], tmp_path: Path) -> None:
    """At three instants of a trot: contact marks and forces at the loaded feet, none at swing feet."""
    robot, path = qd.load("solo12"), tmp_path / "trot.html"
    shown: list[tuple[float, np.ndarray, set[str]]] = []

    class Watched(Viewer):
        def show(self, q, **options) -> None:  # type: ignore[no-untyped-def,override]
            loaded = {c.sphere for c in options["contacts"] if c.force[2] > 0.2 * robot.mass * 9.81}
            shown.append((options["time"], np.array(q), loaded))
            super().show(q, **options)

    report = run_locomotion_demo(
        robot, duration=3.0, dt=4e-3, viewer=Watched(robot, serve=False, meshes=False), record=path
    )
    assert report.passed, report.checks
    page = new_page()
    page.offline()
    page.open(path.as_uri() + "#bare&t=0")
    dynamics, images, lifted = qd.Dynamics(robot), [], 0
    trotting = [k for k, (t, _, feet) in enumerate(shown) if 2.0 < t < 2.6 and len(feet) == 2]
    for k in trotting[:: max(1, len(trotting) // 3)][:3]:
        instant, q, feet = shown[k]
        page.evaluate(f"quaddyn.player.seek({instant - shown[0][0] + 1e-3})")
        image = page.pixels()
        for foot in robot.feet:
            x, y, z = dynamics.frame_placement(q, foot).translation
            z -= robot.legs[foot].foot.radius
            where = f"new MeshCat.THREE.Vector3({x}, {z}, {-y})"
            at = f"quaddyn.viewer.camera.updateMatrixWorld(), {where}.project(quaddyn.viewer.camera).toArray()"
            u, v, _ = page.evaluate(at)
            row, column = round((1.0 - v) / 2.0 * 400), round((1.0 + u) / 2.0 * 640)
            assert 20 < row < 380 and 20 < column < 620, "the whole robot is in the picture"
            near = count_red_pixels(image[row - 4 : row + 5, column - 4 : column + 5])
            if foot in feet:
                assert near > 10, (instant, foot)
            elif z > 0.03:
                assert near == 0, (instant, foot)
                lifted += 1
        pink = (image[..., 0] > 170) & (image[..., 1] < 90) & (image[..., 2] > 110)
        blue = (image[..., 2] > 170) & (image[..., 0] < 90) & (image[..., 1] < 150)
        green = (image[..., 1] > 110) & (image[..., 0] < 90) & (image[..., 2] < 140)
        assert count_red_pixels(image) > 200 and pink.sum() > 30 and blue.sum() > 60 and green.sum() > 60
        images.append(image)
        text = page.evaluate("document.getElementById('text').textContent")
        assert "trot: moving, phase" in text and "at its limit" in text
        assert all(foot in text.splitlines()[0] for foot in feet)
    assert len(images) == 3 and lifted >= 2
    assert count_changed_pixels(images[0], images[1]) > 0.01 * 640 * 400, "it moves"
    assert page.errors == []
    assert {r.split(":")[0] for r in page.requests} <= {"file", "data", "blob"}


@pytest.mark.slow  # keys reach the viewer above, and a velocity in test_demo
def test_live_demo_is_controlled_by_keys(new_page: Callable[[], Page]) -> None:
    command = [sys.executable, "-m", "quaddyn", "demo", "--robot", "solo12", "--teleop"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        url = next(line.split()[-1] for line in process.stdout if "http://" in line)
        page, (width, height) = new_page(), (320, 200)  # software rendering beside a real-time simulation
        page.resize(width, height)
        page.open(url + "#bare")
        text = "document.getElementById('text').textContent"
        page.wait(f"{text}.startsWith('standing')")
        still = page.pixels()
        assert count_red_pixels(still) > 50, "contact forces of who stands"
        press(page, "KeyW", "w", down=True)
        page.wait(f"{text}.startsWith('trot: moving') && /measured[^+-]*[+]0[.][2-9]/.test({text})", timeout=PATIENCE)
        trotting = page.pixels()
        assert count_changed_pixels(still, trotting) > 0.02 * width * height, "it moves"
        assert count_red_pixels(trotting) > 25
        press(page, "KeyW", "w", down=False)
        page.wait(f"{text}.startsWith('standing')", timeout=PATIENCE)
        assert page.errors == []
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, said + errors
    assert "all checks passed" in said and "Traceback" not in errors


@pytest.mark.slow
def test_picture_script_creates_the_picture_of_the_readme(tmp_path: Path) -> None:
    from PIL import Image

    program = require("chromium")
    output = tmp_path / "go2.png"
    command = [sys.executable, str(ROOT / "benchmarks" / "picture.py"), "--output", str(output), "--browser", program]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    image = np.asarray(Image.open(output).convert("RGB")).astype(int)
    assert image.shape == (640, 1280, 3)
    assert count_red_pixels(image) > 500
    assert image.mean() > 200, "a light background"
