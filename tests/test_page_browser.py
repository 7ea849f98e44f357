"""The page around the scene, in a real browser: plots, time, layers, themes, sizes, sliders, notebooks, videos."""

from __future__ import annotations

import html
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from browser import PATIENCE, PLAIN_EDGES, Page, chromium, closed_afterwards, require
from raising import raises
from waiting import wait_for

import quaddyn as qd
import quaddyn.viewer.video
from quaddyn.control import JointPD
from quaddyn.demo import run_locomotion_demo
from quaddyn.simulation import Box, Plane
from quaddyn.viewer import JointSliders, Viewer, render_video

pytestmark = pytest.mark.browser

WIDTH, HEIGHT = 900, 600
TEXT = "document.getElementById('text').textContent"


@pytest.fixture(scope="module")
def new_tab() -> Iterator[Callable[[], Page]]:
    with chromium(require("chromium"), WIDTH, HEIGHT, PLAIN_EDGES) as make:
        yield make


@pytest.fixture
def new_page(new_tab: Callable[[], Page]) -> Iterator[Callable[[], Page]]:
    with closed_afterwards(new_tab) as make:
        yield make


@pytest.fixture(scope="module")
def recorded(go2: qd.Robot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds in which the robot sinks, with torques, forces, a ghost, and a box beside it."""
    box = Box(np.array([0.0, 0.5, 0.1]), np.array([0.3, 0.3, 0.2]))
    viewer = Viewer(go2, serve=False, meshes=False, terrain=(Plane.floor(), box))
    for k in range(61):
        q = np.array(go2.q_home)
        q[2] -= 0.001 * k
        forces = {name: [0, 0, 30.0 + k] for name in go2.feet}
        wanted = {"speed [m/s]": {"up": -0.03, "up, desired": -0.02}}
        viewer.show(
            q, time=k / 30, caption=f"frame {k}", tau=0.01 * k * go2.effort_limits, forces=forces, signals=wanted
        )
    viewer.show(go2.q_home, reference_q=q, time=61 / 30, caption="ghost")
    return viewer.record(tmp_path_factory.mktemp("page") / "page.html")


def opened(new_page: Callable[[], Page], path: Path, flags: str = "t=1") -> Page:
    page = new_page()
    page.open(path.as_uri() + "#" + flags)
    page.wait("!document.getElementById('loading')")
    return page


def test_plots_and_time_slider_are_synchronized(new_page: Callable[[], Page], recorded: Path) -> None:
    page = opened(new_page, recorded)
    titles = page.evaluate("[...document.querySelectorAll('.plot h2')].map(h => h.textContent)")
    assert titles == ["height [m]", "force [N]", "torque / limit [%]", "joint position [rad]", "speed [m/s]"]
    values = "[...document.querySelectorAll('.plot')].map(p => p.querySelector('.legend')?.textContent)"
    assert "FL 60.0" in page.evaluate(values)[1], "values are those of the frame that is shown"
    page.evaluate("(s => { s.value = 750; s.oninput(); })(document.getElementById('slider'))")
    page.wait(f"{TEXT} === 'frame 45'")
    assert "FL 75.0" in page.evaluate(values)[1]
    over = "document.querySelector('.u-over').getBoundingClientRect()"
    left, width, top = (page.evaluate(f"{over}.{side}") for side in ("left", "width", "top"))
    mark = page.evaluate("document.querySelector('.now').getBoundingClientRect().left")
    end = page.evaluate("quaddyn.player.end")
    assert mark - left == pytest.approx(width * 0.75, abs=3), "the mark follows the slider"
    for kind in ("mousePressed", "mouseReleased"):  # a click in the plot
        x = left + width * 0.25
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=top + 20, button="left", buttons=1, clickCount=1)
    page.wait(f"Math.abs(quaddyn.player.time - {0.25 * end}) < 0.04")
    assert page.evaluate(TEXT) == "frame 15"
    assert page.evaluate("Number(document.getElementById('slider').value)") == pytest.approx(250, abs=20)
    assert page.evaluate("quaddyn.player.playing") is False
    page.evaluate("document.getElementById('step').click()")
    assert page.evaluate(TEXT) == "frame 16", "one step on"
    assert page.errors == []
    assert {r.split(":")[0] for r in page.requests} <= {"file", "data", "blob"}


def test_layers_have_names_and_can_be_hidden(new_page: Callable[[], Page], recorded: Path) -> None:
    page = opened(new_page, recorded)
    page.wait("document.querySelectorAll('#layers button').length >= 4")
    labels = page.evaluate("[...document.querySelectorAll('#layers button')].map(b => b.textContent)")
    assert {"robot", "terrain", "force", "center of mass"} <= set(labels) and "reference" not in labels
    assert page.evaluate("getComputedStyle(document.querySelector('.dg')).display") == "none", "meshcat's own panel"

    def drawn() -> int:
        image = page.pixels()[60:-120, :500]
        return int(((image[..., 0] > 170) & (image[..., 1] < 90) & (image[..., 2] < 90)).sum())

    assert drawn() > 300
    click = "[...document.querySelectorAll('#layers button')].find(b => b.textContent === 'force').click()"
    page.evaluate(click)
    assert drawn() == 0
    page.evaluate(click)
    assert drawn() > 300
    page.evaluate("quaddyn.player.seek(quaddyn.player.end)")
    page.wait("[...document.querySelectorAll('#layers button')].some(b => b.textContent === 'reference')")
    assert page.evaluate("document.getElementById('scale').textContent").strip().endswith(" N")
    length = page.evaluate("document.querySelector('#scale i').getBoundingClientRect().width")
    newtons = float(page.evaluate("document.getElementById('scale').textContent").split()[0])
    per_meter = page.evaluate("quaddyn.newtons")
    at_target = (
        "(() => { const {camera, controls} = quaddyn.viewer, T = MeshCat.THREE, c = controls.target;"
        "const up = new T.Vector3().setFromMatrixColumn(camera.matrixWorld, 1);"
        "const world = quaddyn.root; camera.updateMatrixWorld();"
        "const a = camera.parent.localToWorld(c.clone()), b = a.clone().add(up);"
        "return (b.project(camera).y - a.project(camera).y) / 2 * quaddyn.pane.clientHeight; })()"
    )
    assert length == pytest.approx(newtons / per_meter * page.evaluate(at_target), rel=0.05), "a metre where one looks"
    assert page.errors == []


def screen_position(page: Page, slot: str) -> tuple[float, float]:
    """Position of the origin of a slot on the page [pixels]."""
    x, y = page.evaluate(
        f"(() => {{ const v = new MeshCat.THREE.Vector3(), b = quaddyn.pane.getBoundingClientRect();"
        f"quaddyn.viewer.render(); quaddyn.slots[{slot}].outer.getWorldPosition(v).project(quaddyn.viewer.camera);"
        "return [b.left + (v.x + 1) / 2 * b.width, b.top + (1 - v.y) / 2 * b.height]; })()"
    )
    return x, y


def press_mouse(page: Page, kind: str, x: float, y: float, modifiers: int = 0) -> None:
    page.call(
        "Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, button="left", buttons=1, clickCount=1,
        modifiers=modifiers,
    )  # fmt: skip


def selection(page: Page) -> dict[str, str]:
    """Names and values that the page shows of the selected link."""
    texts = page.evaluate("[...document.querySelectorAll('#selection > *')].map(e => e.textContent)")
    return dict(zip(texts[::2], texts[1::2], strict=True))


@pytest.fixture(scope="module")
def overloaded(go2: qd.Robot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two frames with a command beyond the torque limits, in a file whose name has a semicolon."""
    wbc, viewer = qd.WholeBodyController(go2, dt=1e-3), Viewer(go2, serve=False, meshes=False)
    wbc.tasks["com"].reference([0.3, 0.0, 0.5], np.zeros(3), [0.0, 0.0, 30.0])
    command = wbc.compute(qd.Dynamics(go2).update(go2.q_home, np.zeros(go2.nv)))
    viewer.add_robot("plan; b,1", go2, opacity=0.3)
    for k in range(2):
        q = np.array(go2.q_home)
        q[1] += 0.3
        viewer.show(go2.q_home, v=np.ones(go2.nv), tau=command.tau, command=command, robots={"plan; b,1": q}, time=k)
    return viewer.record(tmp_path_factory.mktemp("page") / "a;b.html")


def test_click_shows_the_data_of_a_link_and_its_inertia_box(
    new_page: Callable[[], Page], overloaded: Path, go2: qd.Robot
) -> None:
    page = opened(new_page, overloaded, "t=1")
    names = [body.name for body in go2.bodies]
    x, y = screen_position(page, str(names.index("FL_thigh")))
    assert page.evaluate("document.getElementById('selection').hidden")
    for kind in ("Pressed", "Released"):
        press_mouse(page, kind, x, y)
    page.wait("!document.getElementById('selection').hidden")
    found = selection(page)
    body, i = go2.bodies[names.index("FL_thigh")], go2.actuated.index("FL_thigh_joint")
    assert found["link"].split(", ")[0] == "FL_thigh" and found["joint"] == "FL_thigh_joint (revolute)"
    assert float(found["mass"].removesuffix(" kg")) == pytest.approx(body.inertial.mass, rel=0.01)
    assert found["position"].startswith(f"{go2.q_home[7 + i]:.3f} rad") and "limits" in found["position"]
    assert found["velocity"].startswith("1.000 rad/s (limit ")
    assert found["torque"].endswith(f"% (limit {go2.effort_limits[i]:.1f} N m)")
    assert "FL_thigh_joint torque limit: active" in found["last tick"]
    box = "quaddyn.inspector.selected.overlays.box"
    assert page.evaluate(f"{box}.visible") is True
    np.testing.assert_allclose(
        page.evaluate(f"{box}.scale.toArray().map(s => 1000 * s)"),
        [float(side) for side in found["inertia box"].removesuffix(" mm").split(" x ")],
        rtol=0.01,
    )
    page.evaluate("quaddyn.inspector.select(0)")
    assert "com z: " in selection(page)["last tick"], "deficits of tasks are those of the base"
    for kind in ("Pressed", "Released"):
        press_mouse(page, kind, 5, 300)  # beside the robot
    page.wait("document.getElementById('selection').hidden")
    assert page.errors == []


def test_options_of_the_panel_change_the_picture(new_page: Callable[[], Page], tmp_path: Path) -> None:
    collision = '<collision><geometry><sphere radius="0.2"/></geometry></collision></link>'
    robot = qd.load(HOSTILE.format("a", "b", "c").replace("</link>", collision), root="fixed")
    viewer = Viewer(robot, serve=False)
    viewer.show(robot.q_home)
    page = new_page()
    page.resize(700, 280)
    page.open(viewer.record(tmp_path / "page.html").as_uri() + "#hide=Com")
    page.wait("!document.getElementById('loading')")
    page.evaluate("quaddyn.panel.setOpen(true)")
    before = page.pixels()
    labels = page.evaluate("[...document.querySelectorAll('#options button')].map(b => b.dataset.option)")
    assert labels == ["transparent", "collision", "frames", "inertia"]
    for name in labels:
        toggle = f"document.querySelector('[data-option={name}]').click()"
        page.evaluate(toggle)
        changed = np.abs(page.pixels() - before).max(axis=2)[40:, :350] > 24
        assert changed.sum() > (20 if name == "frames" else 1000), name
        page.evaluate(toggle)
        assert (np.abs(page.pixels() - before).max(axis=2)[40:, :350] > 24).sum() < 10, name
    assert page.errors == []


def test_link_reproduces_the_view_and_survives_semicolons(
    new_page: Callable[[], Page], overloaded: Path, go2: qd.Robot
) -> None:
    page = opened(new_page, overloaded, "t=1")
    page.evaluate(
        "quaddyn.inspector.select(3); quaddyn.setVisible('robot plan; b,1', false);"
        "quaddyn.panel.setTheme('dark'); quaddyn.inspector.setOption('frames', true);"
        "quaddyn.viewer.camera.position.x += 0.3; document.getElementById('link').click()"
    )
    page.wait("document.getElementById('note').textContent !== ''")
    link = page.evaluate("location.href")
    page.evaluate("quaddyn.note({text: ''})")
    first, camera = page.pixels(), page.evaluate("quaddyn.cameraOffsets()")
    assert link.startswith(overloaded.as_uri() + "#t=1.000&theme=dark&camera=")
    read = "JSON.stringify([...readFlags()])"
    flags = page.evaluate(read)
    for separator in (";", "&amp;"):
        page.evaluate(f"history.replaceState(null, '', {link.replace('&', separator)!r})")
        assert page.evaluate(read) == flags, separator
    page.call("Page.navigate", url="about:blank")
    page.open(link.replace("&", ";"))
    page.wait("!document.getElementById('loading')")
    assert page.evaluate("quaddyn.inspector.selected.name") == go2.bodies[3].name
    assert page.evaluate("quaddyn.kinds.get('robot plan; b,1').isVisible") is False
    np.testing.assert_allclose(page.evaluate("quaddyn.cameraOffsets()"), camera, atol=1e-3)
    difference = np.abs(page.pixels() - first).max(axis=2)[:500, :500]
    assert (difference > 24).sum() < 1500, "the same picture up to rounding of the camera"
    assert page.errors == []


def test_picture_is_saved_and_steps_go_backward(new_page: Callable[[], Page], recorded: Path, tmp_path: Path) -> None:
    from PIL import Image

    page = opened(new_page, recorded)
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.evaluate("document.getElementById('png').click()")
    assert wait_for(lambda: any(tmp_path.glob("*.png")), PATIENCE)
    files = list(tmp_path.glob("*.png"))
    image = np.asarray(Image.open(files[0]).convert("RGB")).astype(int)
    assert list(image.shape[:2]) == page.evaluate(
        "[quaddyn.viewer.renderer.domElement.height, quaddyn.viewer.renderer.domElement.width]"
    )
    assert files[0].name == "go2_description 1.00 s.png" and image.std() > 10
    assert page.evaluate(TEXT) == "frame 30"
    page.evaluate("document.getElementById('back').click()")
    assert page.evaluate(TEXT) == "frame 29"
    page.call("Input.dispatchKeyEvent", type="keyDown", code="Comma", key=",")
    page.wait(f"{TEXT} === 'frame 28'")
    assert page.errors == []


def test_ticks_of_plots_differ_and_panels_can_be_folded(new_page: Callable[[], Page], tmp_path: Path) -> None:
    arm = qd.load("ur5")
    viewer = Viewer(arm, serve=False, meshes=False)
    for k in range(20):
        lines = {
            "nearly [m]": {"a": 0.25 + 1e-5 * k},
            "noise [m]": {"a": 1e-17 * k},
            "large [N]": {"a": 3e6 + 10.0 * k},
        }
        viewer.show(arm.q_home, v=np.zeros(arm.nv), time=0.1 * k, signals=lines)
    page = opened(new_page, viewer.record(tmp_path / "page.html"), "t=1")
    titles = page.evaluate("[...quaddyn.plots.panels.keys()]")
    assert {"joint position [rad]", "joint velocity [rad/s]"} <= set(titles), "plots of the joints of an arm"
    assert page.evaluate("document.querySelectorAll('.plot.folded').length") == 0
    for title in titles:
        ticks = page.evaluate(f"quaddyn.plots.panels.get('{title}').uplot.axes[1]._values")
        assert len(ticks) >= 2 and len(set(ticks)) == len(ticks), (title, ticks)
    height = page.evaluate("quaddyn.plots.panels.get('noise [m]').uplot.scales.y.max")
    assert height >= 1e-9, "rounding errors do not fill a plot"
    page.evaluate("document.querySelector('.plot h2').click()")
    assert page.evaluate("document.querySelectorAll('.plot.folded').length") == 1
    assert page.evaluate("document.querySelector('.plot.folded .uplot')") is None
    page.evaluate("document.querySelector('.plot.folded h2').click()")
    assert page.evaluate("document.querySelectorAll('.plot.folded').length") == 0
    assert page.errors == []


def test_dragged_link_pulls_the_robot_of_a_live_plant(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    page, plant = new_page(), qd.Simulation(go2, dt=2e-3)
    with Viewer(go2, meshes=False) as viewer:
        page.open(viewer.url)
        assert page.evaluate("document.getElementById('pull').hidden"), "a program without a plant applies no force"
        assert viewer.pull_forces(plant) == {}
        viewer.show_plant(plant)
        page.wait("quaddyn.isPullable && !document.getElementById('pull').hidden")
        camera = page.evaluate("quaddyn.viewer.camera.position.toArray()")
        page.settle()  # the robot may have been drawn after the button was shown
        trunk, wrench = go2.bodies[0].name, np.zeros(6)

        def pulls_upward() -> bool:
            wrench[:] = viewer.pull_forces(plant).get(trunk, np.zeros(6))
            return bool(wrench[2] > 1.0)

        x, y = screen_position(page, "0")
        press_mouse(page, "Pressed", x, y, modifiers=2)  # with Ctrl
        assert page.evaluate("quaddyn.inspector.pull?.slot") == 0
        press_mouse(page, "Moved", x + 40, y - 80, modifiers=2)
        assert wait_for(pulls_upward, PATIENCE), "upward, to the mouse"
        assert np.linalg.norm(wrench[:3]) <= 0.5 * go2.mass * 9.81 + 1e-6
        for _ in range(50):
            plant.step(np.zeros(go2.nu), external=viewer.pull_forces(plant))
        free = qd.Simulation(go2, dt=2e-3)
        for _ in range(50):
            free.step(np.zeros(go2.nu))
        assert plant.v[2] > free.v[2] + 0.02, "it falls more slowly"
        viewer.show_plant(plant)
        page.settle()
        assert page.evaluate("quaddyn.inspector.pull.arrow.visible") is True
        assert page.evaluate("quaddyn.viewer.controls.enabled") is False
        press_mouse(page, "Released", x + 40, y - 80, modifiers=2)
        assert wait_for(lambda: viewer.pull_forces(plant) == {}, PATIENCE)
        assert page.evaluate("quaddyn.inspector.pull") is None
        x, y = screen_position(page, "0")
        press_mouse(page, "Pressed", x, y, modifiers=2)
        assert wait_for(lambda: viewer.pull_forces(plant) != {}, PATIENCE)
        page.evaluate("dispatchEvent(new Event('blur'))")
        assert page.evaluate("quaddyn.inspector.pull") is None, "a page without the focus neither pulls nor shows it"
        assert wait_for(lambda: viewer.pull_forces(plant) == {}, PATIENCE)
        press_mouse(page, "Released", x, y, modifiers=2)
        moved = np.subtract(page.evaluate("quaddyn.viewer.camera.position.toArray()"), camera)
        assert np.abs(moved).max() < 0.2, "the camera follows, and does not turn"
        watcher = new_page()
        watcher.open(viewer.view_url)
        assert watcher.evaluate("document.getElementById('pull').hidden"), "without the token"
    assert page.errors == []


def test_page_works_under_the_address_for_other_machines(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    page = new_page()
    with Viewer(go2, meshes=False, host="0.0.0.0") as viewer:
        page.open(viewer.url)
        viewer.show(go2.q_home, caption="shown", time=0.1)
        page.wait(f"{TEXT} === 'shown'")
        page.call("Input.dispatchKeyEvent", type="keyDown", code="KeyW", key="w")
        assert wait_for(lambda: viewer.pressed_keys == {"KeyW"}, PATIENCE)
        link = page.evaluate(f"makeLink(quaddyn, {urlsplit(viewer.view_url).path!r})")
        assert link.startswith(viewer.view_url + "#"), "a copied link permits no control"
    # Browsers ignore this header without encryption, except on the own machine.
    assert [error for error in page.errors if "Cross-Origin-Opener-Policy" not in error] == []


def test_theme_follows_the_system_or_the_user_choice(new_page: Callable[[], Page], recorded: Path) -> None:
    page = new_page()
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.open(recorded.as_uri() + "#t=1")
    page.wait("!document.getElementById('loading')")
    dark = page.pixels()
    page.evaluate("document.getElementById('theme').click()")
    light = page.pixels()
    assert dark[60:100].mean() < 90 < 180 < light[60:100].mean()
    assert dark[-10:].mean() < 90 < 180 < light[-10:].mean(), "the controls too"
    ink = "getComputedStyle(document.getElementById('text')).color.match(/[0-9]+/g).map(Number)"
    assert sum(page.evaluate(ink)) < 200
    assert page.errors == []


def test_page_shows_robot_text_and_controls_on_a_phone_in_portrait(
    new_page: Callable[[], Page], recorded: Path
) -> None:
    page = new_page()
    page.resize(390, 844)
    page.open(recorded.as_uri() + "#t=1")
    page.wait("!document.getElementById('loading') && document.querySelectorAll('#layers button').length >= 4")
    inside = (
        "[...document.querySelectorAll('#text, #menu, #menu button, #legend, #layers button, #player, #player > *,"
        "#side, #selection > *, #options button, .plot')]"
        ".filter(e => e.getClientRects().length).every(e => { const r = e.getBoundingClientRect();"
        "return r.left >= -0.5 && r.right <= innerWidth + 0.5 && r.width > 0; })"
    )
    page.evaluate("quaddyn.inspector.select(1)")
    for _ in range(2):
        assert page.evaluate(inside), "nothing is cut off at the sides"
        page.evaluate("document.getElementById('legend-toggle').click()")  # opens the legend, then closes it
    text = "getComputedStyle(document.getElementById('text')).backgroundColor"
    assert page.evaluate(f"Number({text}.match(/[0-9.]+/g)[3])") > 0.5, "arrows do not run through the text"
    page.evaluate("quaddyn.inspector.select()")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("parseFloat(getComputedStyle(document.getElementById('text')).fontSize)") >= 12
    corners = (
        "(() => { const box = new MeshCat.THREE.Box3(), {camera} = quaddyn.viewer; camera.updateMatrixWorld();"
        "quaddyn.slots.filter(s => s.kind === 'Robot').forEach(s => box.expandByObject(s.inner));"
        "return [0, 1, 2, 3, 4, 5, 6, 7].map(i => new MeshCat.THREE.Vector3(box[i & 1 ? 'max' : 'min'].x,"
        "box[i & 2 ? 'max' : 'min'].y, box[i & 4 ? 'max' : 'min'].z).project(camera).toArray()); })()"
    )
    found = np.array(page.evaluate(corners))
    assert np.abs(found[:, :2]).max() < 1.0, "the whole robot is in the picture"
    assert np.ptp(found[:, 0]) > 0.7, "and fills it"
    assert page.errors == []


HOSTILE = """<robot name="r"><link name="{0}"><inertial><mass value="1"/>
  <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><geometry><box size=".2 .2 .2"/></geometry></visual></link>
  <link name="{1}"><inertial><origin xyz="0 0 -.2"/><mass value="1"/>
  <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><origin xyz="0 0 -.3"/><geometry><box size=".1 .1 .4"/></geometry></visual></link>
  <joint name="{2}" type="revolute"><parent link="{0}"/><child link="{1}"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def test_names_of_javascript_properties_are_ordinary_names(new_page: Callable[[], Page], tmp_path: Path) -> None:
    robot = qd.load(HOSTILE.format("__proto__", "constructor", "toString"), root="fixed")
    page = new_page()
    with Viewer(robot) as viewer:
        page.open(viewer.url)
        names = ("__proto__", "constructor", "toString")
        signals = {name: dict.fromkeys(names, 1.0) for name in names}
        points = {name: np.array([0.1 * i, 0.2, 0.1]) for i, name in enumerate(names)}
        forces = {"__proto__": [0, 0, 5.0], "constructor": [0, 5.0, 0]}
        viewer.show(robot.q_home, forces=forces, points=points, signals=signals, tau=[0.5], caption="shown", time=0.1)
        page.wait(f"{TEXT} === 'shown' && document.querySelectorAll('.plot').length >= 4")
        assert page.evaluate("quaddyn.slots.filter(s => s.inner.visible).length") == 2 + 2 + 3 + 3
        image = page.pixels()[60:-60, :450]
        assert (np.abs(image - image[0, 0]).max(axis=2) > 40).sum() > 3000, "the page is not blank"
    assert page.errors == []
    again = opened(new_page, viewer.record(tmp_path / "page.html"), "t=0")
    assert again.errors == [] and again.evaluate(TEXT) == "shown"


def test_live_page_pauses_steps_and_rewinds(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    page = new_page()
    with Viewer(go2, meshes=False) as viewer:
        page.open(viewer.url)
        for k in range(4):
            viewer.show(go2.q_home, time=0.1 * k, caption=f"frame {k}")
            page.wait(f"{TEXT} === 'frame {k}'")
        page.evaluate("document.getElementById('play').click()")
        assert wait_for(lambda: viewer.is_paused, PATIENCE)
        page.evaluate("(s => { s.value = 0; s.oninput(); })(document.getElementById('slider'))")
        assert page.evaluate(TEXT) == "frame 0", "back to what has been shown"
        page.evaluate("quaddyn.player.seek(quaddyn.player.end); document.getElementById('step').click()")
        viewer.wait_while_paused()  # returns for the step
        viewer.show(go2.q_home, time=1.0, caption="stepped")
        page.wait(f"{TEXT} === 'stepped'")
        assert viewer.is_paused
        page.evaluate("document.getElementById('play').click()")
        assert viewer.wait_while_paused() < 10
        assert not viewer.is_paused
    assert page.errors == []


def test_sliders_and_a_gamepad_reach_the_viewer(new_page: Callable[[], Page], go2: qd.Robot) -> None:
    page = new_page()
    pad = "{connected: true, axes: [-0.5, -1.0, 0.05, 0.0]}"
    page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source=f"window.pads = []; navigator.getGamepads = () => pads; let pad = {pad};",
    )
    with Viewer(go2, meshes=False) as viewer:
        sliders = JointSliders(viewer)
        sliders.update()
        page.open(viewer.url)
        page.wait(f"document.querySelectorAll('#sliders input').length === {go2.nu}")
        move = "(s => { s.value = -2.2; s.oninput(); })([...document.querySelectorAll('#sliders label')]"
        page.evaluate(move + ".find(l => l.textContent.startsWith('FR_calf_joint')).querySelector('input'))")
        assert wait_for(lambda: sliders.update() is not None, PATIENCE)
        assert viewer.sliders["FR_calf_joint"] == pytest.approx(-2.2, abs=2e-3)
        page.evaluate("pads.push(pad)")
        assert wait_for(lambda: viewer.gamepad_axes == (1.0, 0.5, 0.0), PATIENCE), (
            "forward, left, and a turn within the stick's play"
        )
        page.evaluate("pads.pop()")
        assert wait_for(lambda: viewer.gamepad_axes == (0.0, 0.0, 0.0), PATIENCE)
    assert page.errors == []


def test_live_view_cannot_be_embedded_in_a_frame(new_page: Callable[[], Page], go2: qd.Robot, tmp_path: Path) -> None:
    with Viewer(go2, meshes=False) as viewer:
        trap = tmp_path / "trap.html"
        trap.write_text(f'<iframe id="it" src="{viewer.url}"></iframe>', encoding="utf-8")
        page = new_page()
        page.call("Page.navigate", url=trap.as_uri())
        page.wait("document.readyState === 'complete'")
        page.settle()
        assert not viewer.wait(1.0), "nothing in the frame has connected"
        assert any("frame" in e.lower() for e in page.errors) or viewer.clients == 0


def test_a_notebook_shows_the_page_in_its_frame(new_page: Callable[[], Page], go2: qd.Robot, tmp_path: Path) -> None:
    viewer = Viewer(go2, serve=False, meshes=False)
    viewer.show(go2.q_home, caption="in a notebook", time=0.0)
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!DOCTYPE html><body>{viewer._repr_html_()}</body>", encoding="utf-8")
    page = new_page()
    page.call("Page.navigate", url=notebook.as_uri())
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        image = page.pixels()[20:440, 20:500]
        if (image.max(axis=2) - image.min(axis=2) > 60).sum() > 200 and image.std() > 15:
            break
    assert (image.max(axis=2) - image.min(axis=2) > 60).sum() > 200, "the centre of mass is yellow"
    assert page.errors == [] and {r.split(":")[0] for r in page.requests} <= {"file", "data", "blob", "about"}
    assert html.escape("<script>") in viewer._repr_html_()


def test_recording_is_rendered_to_video(recorded: Path, tmp_path: Path) -> None:
    require("chromium")
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    shares: list[float] = []
    path = tmp_path / "film.mp4"
    assert render_video(recorded, path, fps=2.0, size=(320, 240), progress=shares.append) == "ffmpeg"
    assert shares == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    said = subprocess.run([ffmpeg, "-i", str(path)], capture_output=True, encoding="utf-8").stderr
    assert "Duration: 00:00:02.5" in said and "h264" in said and "320x240" in said
    raises(qd.ArgumentError, "mp4", render_video, recorded, tmp_path / "film.gif")


@pytest.mark.slow
def test_browser_renders_the_video_without_ffmpeg(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("chromium")
    monkeypatch.setattr(quaddyn.viewer.video, "_find_ffmpeg", lambda: None)
    path = tmp_path / "film.webm"
    fractions: list[float] = []
    assert render_video(recorded, path, fps=2.0, size=(320, 240), progress=fractions.append) == "browser"
    assert fractions[:2] == [0.0, 0.0] and len(fractions) > 2 and fractions[-1] <= 1.0
    assert path.read_bytes()[:4] == b"\x1a\x45\xdf\xa3" and path.stat().st_size > 3000  # Matroska's magic number
    monkeypatch.setenv("PATH", str(tmp_path))
    raises(qd.QuaddynError, "browser", render_video, recorded, path)


def test_page_loads_automatically_and_shows_a_loading_message(
    new_page: Callable[[], Page], go2: qd.Robot, tmp_path: Path
) -> None:
    viewer = Viewer(go2, serve=False)  # with its meshes, unlike the other pages here
    viewer.show(go2.q_home)
    recorded = viewer.record(tmp_path / "page.html")
    source = (
        "addEventListener('DOMContentLoaded', () => { window.waited = Boolean(document.getElementById('loading')); });"
    )
    page = new_page()
    page.call("Page.addScriptToEvaluateOnNewDocument", source=source)
    page.open(recorded.as_uri())
    page.wait("!document.getElementById('loading')")
    assert page.evaluate("window.waited") is True
    assert json.loads(page.evaluate("JSON.stringify(performance.getEntriesByType('resource').map(e => e.name))")) == []
    assert recorded.stat().st_size < 3e6


# -- the pages in a real browser --------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[1]


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
        area = WIDTH * HEIGHT
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
    assert count_changed_pixels(with_force, without) > 0.02 * WIDTH * HEIGHT
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
            row, column = round((1.0 - v) / 2.0 * HEIGHT), round((1.0 + u) / 2.0 * WIDTH)
            assert 20 < row < HEIGHT - 20 and 20 < column < WIDTH - 20, "the whole robot is in the picture"
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
    assert count_changed_pixels(images[0], images[1]) > 0.01 * WIDTH * HEIGHT, "it moves"
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
        assert count_red_pixels(still) > 50, "contact forces of the standing robot"
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
