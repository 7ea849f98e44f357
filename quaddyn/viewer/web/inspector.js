"use strict";
// Rigid bodies of the robots: a click shows their data, a drag on a live page pulls them, options show what is inside.

const CLICK_DISTANCE = 5;  // a pointer that moves further drags [pixels]
const TRANSPARENT_OPACITY = 0.35;
const MARK_COLOR = 0xd63384;  // of the inertia box of the selected link, and of the spring
const AXIS_LENGTH = 0.12;  // of a joint frame, in robot sizes
const OPTIONS = {
  transparent: "transparent", collision: "collision shapes", frames: "joint frames", inertia: "inertia ellipsoids"};

class Inspector {
  constructor(stage, plots, drive) {
    Object.assign(this, {stage, plots, drive, bodies: new Map(), selected: null, pull: null, pullsByDefault: false});
    this.flags = readFlags();
    this.options = new Set((this.flags.get("show") ?? []).filter(name => Object.hasOwn(OPTIONS, name)));
    this.raycaster = new MeshCat.THREE.Raycaster();
    const listen = (type, handle) => stage.pane.addEventListener(type, handle, true);  // before the camera's handlers
    listen("pointerdown", event => this.press(event));
    listen("pointermove", event => this.drag(event));
    listen("pointerup", event => this.release(event));
    listen("pointercancel", () => this.stopPulling());
    addEventListener("blur", () => this.stopPulling());  // `drive` releases its inputs on the same event
    document.addEventListener("visibilitychange", () => this.stopPulling());
  }

  add(bodies) {
    for (const body of bodies) {
      this.bodies.set(body.slot, {...body, overlays: null});
      if (!this.selected && body.name === this.flags.get("select")?.[0]) this.select(body.slot);
    }
    this.applyOptions();
  }

  // -- options ---------------------------------------------------------------------------------------------------
  setOption(name, isOn) {
    if (isOn) this.options.add(name); else this.options.delete(name);
    this.applyOptions();
  }

  applyOptions() {
    if (!this.stage.size) return;  // before the first camera
    const isOn = name => this.options.has(name);
    for (const [slot, body] of this.bodies) {
      for (const mesh of this.stage.slots[slot].inner.children) {
        if (mesh.userData.isCollision) mesh.visible = isOn("collision");
        else if (mesh.userData.isLink) this.setOpacity(mesh.material, isOn("transparent"));
      }
      if (!body.overlays && (isOn("frames") || isOn("inertia") || body === this.selected)) this.createOverlays(body);
      if (!body.overlays) continue;
      body.overlays.frames.visible = isOn("frames");
      body.overlays.inertia.visible = isOn("inertia");
      body.overlays.box.visible = body === this.selected;
    }
    this.stage.viewer.set_dirty();
  }

  setOpacity(material, isTransparent) {
    const opacity = material.userData.opacity * (isTransparent ? TRANSPARENT_OPACITY : 1);
    Object.assign(material, {opacity, transparent: opacity < 1, depthWrite: opacity >= 1});
    material.needsUpdate = true;
  }

  createOverlays(body) {  // a joint frame, the ellipsoid of equal inertia, and the edges of the box of equal inertia
    const THREE = MeshCat.THREE, inner = this.stage.slots[body.slot].inner;
    const frames = new THREE.AxesHelper(AXIS_LENGTH * this.stage.size);
    frames.material.depthTest = false;
    const half = Math.sqrt(5 / 12);  // half axis of the ellipsoid of equal inertia, in sides of the box
    const inertia = new THREE.Mesh(new THREE.SphereGeometry(half, 24, 16), new THREE.MeshPhongMaterial(
      {color: 0x2f6fd6, transparent: true, opacity: 0.5, depthTest: false}));
    const edges = new THREE.EdgesGeometry(new THREE.BoxGeometry(1, 1, 1));
    const box = new THREE.LineSegments(edges, new THREE.LineBasicMaterial({color: MARK_COLOR, depthTest: false}));
    for (const object of [inertia, box]) {
      object.position.fromArray(body.com);
      object.quaternion.fromArray(body.axes);
      object.scale.fromArray(body.box.map(side => Math.max(side, 1e-4)));
    }
    body.overlays = {frames, inertia, box};
    for (const object of Object.values(body.overlays)) {
      object.renderOrder = 2;
      object.raycast = () => {};  // clicks select links
      inner.add(object);
    }
  }

  // -- selection -------------------------------------------------------------------------------------------------
  aim(event) {  // sets the ray through the pointer
    const {camera, renderer} = this.stage.viewer, bounds = renderer.domElement.getBoundingClientRect();
    const x = (event.clientX - bounds.left) / bounds.width, y = (event.clientY - bounds.top) / bounds.height;
    camera.updateMatrixWorld();
    this.raycaster.setFromCamera(new MeshCat.THREE.Vector2(2 * x - 1, 1 - 2 * y), camera);
  }

  pick(event) {  // returns slot and point of the first link below the pointer
    this.aim(event);
    const meshes = [...this.bodies.keys()].map(slot => this.stage.slots[slot].inner).filter(inner => inner.visible)
      .flatMap(inner => inner.children.filter(child => child.visible));
    const hit = this.raycaster.intersectObjects(meshes)[0];
    return hit && {slot: hit.object.userData.slot, point: hit.point};
  }

  press(event) {
    this.pressed = event.isPrimary && event.button === 0 ? {x: event.clientX, y: event.clientY} : null;
    if (!this.pressed || !this.stage.isPullable || !(this.pullsByDefault || event.ctrlKey || event.altKey)) return;
    const hit = this.pick(event);
    if (!hit || this.stage.slots[hit.slot].kind !== "Robot") return;
    const {THREE} = MeshCat, {camera, controls} = this.stage.viewer, slot = this.stage.slots[hit.slot];
    controls.enabled = false;
    this.stage.pane.setPointerCapture(event.pointerId);
    const direction = camera.getWorldDirection(new THREE.Vector3());
    const plane = new THREE.Plane().setFromNormalAndCoplanarPoint(direction, hit.point);
    const arrow = new THREE.ArrowHelper(new THREE.Vector3(0, 0, 1), new THREE.Vector3(), 1, MARK_COLOR);
    for (const part of [arrow.line, arrow.cone]) {
      part.material.depthTest = false;
      part.renderOrder = 3;
    }
    arrow.visible = false;
    this.stage.root.add(arrow);
    this.pull = {slot: hit.slot, point: slot.outer.worldToLocal(hit.point.clone()), plane, arrow};
    this.drag(event);
  }

  drag(event) {
    if (!this.pull) return;
    this.aim(event);
    const target = this.raycaster.ray.intersectPlane(this.pull.plane, new MeshCat.THREE.Vector3());
    if (!target) return;
    this.pull.target = this.stage.root.worldToLocal(target);
    this.drawPull();
    const coordinates = [...this.pull.point.toArray(), ...target.toArray()].map(x => Number(x.toFixed(4)));
    this.drive.pull([this.pull.slot, ...coordinates]);
  }

  drawPull() {
    if (!this.pull?.target) return;
    const {slot, point, target, arrow} = this.pull, {outer} = this.stage.slots[slot];
    outer.updateMatrix();
    arrow.position.copy(point).applyMatrix4(outer.matrix);
    const direction = target.clone().sub(arrow.position), length = direction.length(), head = 0.04 * this.stage.size;
    arrow.visible = length > head;
    if (arrow.visible) {
      arrow.setDirection(direction.normalize());
      arrow.setLength(length, head, 0.6 * head);
    }
    this.stage.viewer.set_dirty();
  }

  stopPulling() {
    if (!this.pull) return;
    this.stage.viewer.controls.enabled = true;
    this.stage.root.remove(this.pull.arrow);
    this.pull = null;
    this.drive.pull(null);
    this.stage.viewer.set_dirty();
  }

  release(event) {
    const start = this.pressed;
    this.stopPulling();
    if (!start || Math.hypot(event.clientX - start.x, event.clientY - start.y) > CLICK_DISTANCE) return;
    this.select(this.pick(event)?.slot);
  }

  select(slot) {
    this.selected = this.bodies.get(slot) ?? null;
    this.applyOptions();
    if (this.selected) this.stage.panel.setOpen(true);
    this.update(this.frame);
  }

  update(frame) {
    this.frame = frame;
    this.drawPull();
    const table = document.getElementById("selection");
    table.hidden = !this.selected;
    if (!this.selected) return;
    table.replaceChildren(...this.describe(this.selected).flatMap(([name, value]) => {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name;
      text.textContent = value;
      return [term, text];
    }));
  }

  describe({slot, robot, name, links, mass, box, joint}) {  // pairs of name and value
    const isMain = this.stage.slots[slot].kind === "Robot";  // the values of a frame are those of this robot
    const rows = [["robot", robot], ["link", [name, ...links].join(", ")]];
    rows.push(["mass", `${formatValue(mass)} kg`]);
    rows.push(["inertia box", `${box.map(side => formatValue(1000 * side)).join(" x ")} mm`]);
    if (joint) {
      const {unit} = joint, range = [joint.lower ?? "-\u221e", joint.upper ?? "\u221e"];
      const limits = range.map(x => typeof x === "number" ? formatValue(x) : x).join(" to ");
      const value = (title, text) => {
        const x = isMain ? this.plots.value(title, joint.name, this.frame) : undefined;
        return x === undefined ? "" : `${formatValue(x)} ${text}`;
      };
      rows.push(["joint", `${joint.name} (${joint.type})`]);
      rows.push(["position", `${value("joint position", unit)} (limits ${limits} ${unit})`]);
      const speed = joint.velocity === null ? "no limit" : `limit ${formatValue(joint.velocity)} ${unit}/s`;
      rows.push(["velocity", `${value("joint velocity", `${unit}/s`)} (${speed})`]);
      if (joint.actuated) rows.push(["torque", this.describeTorque(joint, value)]);
    }
    if (isMain && this.frame?.report) {
      const text = this.frame.report.find(([body]) => body === slot)?.[1];
      rows.push(["last tick", text ?? "no active limit, no deficit"]);
    }
    return rows;
  }

  describeTorque(joint, value) {
    const unit = joint.unit === "m" ? "N" : "N m";
    if (joint.effort === null) {
      return `${value(joint.unit === "m" ? "actuator force" : "torque [", unit)} (no effective limit)`;
    }
    const fraction = value("torque / limit", "%"), torque = parseFloat(fraction) / 100 * joint.effort;
    return `${fraction && `${formatValue(torque)} ${unit} = ${fraction} `}(limit ${formatValue(joint.effort)} ${unit})`;
  }
}
