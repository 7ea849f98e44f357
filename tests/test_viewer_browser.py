"""The pages in a real browser: what is drawn, that it moves, and that nothing leaves the machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Page, chromium, require

import quaddyn as qd
from quaddyn.viewer import Viewer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def new_page() -> Iterator[Callable[[], Page]]:
    with chromium(require("chromium"), 640, 400) as make:
        yield make


@pytest.fixture(scope="module")
def go2() -> qd.Robot:
    return qd.load("go2")


def crouched(robot: qd.Robot) -> np.ndarray:
    q = np.array(robot.q_home)
    q[2] -= 0.08
    q[3:7] = [0, 0, np.sin(0.2), np.cos(0.2)]
    return q


def changed(a: np.ndarray, b: np.ndarray) -> int:
    """Number of pixels that differ visibly."""
    return int((np.abs(a - b).max(axis=2) > 24).sum())


def red(image: np.ndarray) -> int:
    """Number of pixels in the colour of a force arrow."""
    return int(((image[..., 0] > 170) & (image[..., 1] < 90) & (image[..., 2] < 90)).sum())


def arrive(page: Page, viewer: Viewer, text: str) -> np.ndarray:
    page.wait(f"document.getElementById('text').textContent === '{text}'")
    image = page.pixels()
    image[:40] = 255  # without the text itself
    return image


def test_the_live_page_shows_what_is_shown(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    away = np.array(go2.q_home)
    away[0] = 60.0
    page = new_page()
    with Viewer(go2) as viewer:
        viewer.look(follow=False)
        page.open(viewer.url + "#bare")
        images = {}
        for text, q, forces in (
            ("away", away, None),
            ("home", go2.q_home, None),
            ("crouched", crouched(go2), None),
            ("pushed", go2.q_home, {name: [0, 0, 40] for name in go2.feet}),
            ("released", go2.q_home, {name: [0, 0, 0] for name in go2.feet}),
        ):
            viewer.show(q, forces=forces, text=text)
            images[text] = arrive(page, viewer, text)
        area = 640 * 400
        assert changed(images["home"], images["away"]) > 0.05 * area, "the robot is there"
        assert changed(images["home"], images["crouched"]) > 0.02 * area, "it moves"
        assert red(images["home"]) == 0
        assert red(images["pushed"]) > 300, "force arrows appear"
        assert red(images["released"]) == 0, "and vanish"
        assert changed(images["home"], images["released"]) < 10
        assert page.errors == []
        own = viewer.url
        assert {r.split("#")[0] for r in page.requests if not r.startswith("data:")} == {
            own,
            own + "meshcat.js",
            own.replace("http", "ws") + "socket",
        }
    page.wait("document.getElementById('note').textContent.includes('closed')")


def test_the_camera_goes_along_with_the_base(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    page = new_page()
    with Viewer(go2, meshes=False) as viewer:
        page.open(viewer.url + "#bare")
        viewer.show(go2.q_home, text="here")
        here = arrive(page, viewer, "here")
        far = np.array(go2.q_home)
        far[:2] += [3.0, -2.0]  # whole grid cells
        viewer.show(far, text="there")
        there = arrive(page, viewer, "there")
    assert changed(here, there) < 0.01 * here[..., 0].size
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
    viewer = Viewer(go2, serve=False)
    for k in range(61):
        q = np.array(go2.q_home)
        q[2] += 0.05 * np.sin(2 * np.pi * k / 60)
        forces = {"FL": [0, 0, 80]} if k < 30 else {}
        viewer.show(q, forces=forces, time=k / 30, text=f"step {k}")
    path = viewer.record(tmp_path / "page.html")
    page = new_page()
    page.offline()
    page.open(path.as_uri() + "#bare&t=0.5")
    with_force = page.pixels()
    assert page.evaluate("document.getElementById('text').textContent") == "step 15"
    page.evaluate("quaddyn.player.seek(1.5)")
    without = page.pixels()
    assert red(with_force) > 100
    assert red(without) == 0
    assert changed(with_force, without) > 0.02 * 640 * 400
    page.evaluate("quaddyn.player.play()")
    seen = set()
    deadline = time.monotonic() + 30
    while len(seen) < 10 and time.monotonic() < deadline:
        seen.add(page.evaluate("document.getElementById('text').textContent"))
    assert len(seen) >= 10, "it plays by itself"
    assert page.errors == []
    assert {r.split(":")[0] for r in page.requests} <= {"file", "data", "blob"}


def test_a_recorded_page_starts_by_itself_and_has_controls(
    new_page: Callable[[], Page], go2: qd.Robot, tmp_path: Path
) -> None:
    viewer = Viewer(go2, serve=False, meshes=False)
    for k in range(61):
        viewer.show(go2.q_home, text=str(k))
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


def test_the_picture_script_makes_the_readmes_picture(tmp_path: Path) -> None:
    from PIL import Image

    program = require("chromium")
    output = tmp_path / "go2.png"
    command = [sys.executable, str(ROOT / "benchmarks" / "picture.py"), "--output", str(output), "--browser", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    image = np.asarray(Image.open(output).convert("RGB")).astype(int)
    assert image.shape == (640, 1280, 3)
    assert red(image) > 500
    assert image.mean() > 200, "a light background"
