"use strict";
// The scene: creates and moves three.js objects by the packets of the viewer (see scene.py).

const SLOT_SIZE = 10;  // numbers of a slot: position (3), quaternion (4, x y z w), scale (3)
const HEIGHT_TOLERANCE = 0.15;  // change of the base height that the camera does not follow, in robot sizes
const BACKGROUND = {light: [[0.86, 0.91, 0.96], [0.98, 0.98, 0.98]], dark: [[0.10, 0.12, 0.15], [0.17, 0.19, 0.22]]};

class Stage {
  constructor() {
    const THREE = MeshCat.THREE;
    this.pane = document.getElementById("pane");
    this.viewer = new MeshCat.Viewer(this.pane);
    this.root = new THREE.Group();
    this.viewer.set_object(["quaddyn"], this.root);
    this.geometries = [];
    this.materials = [];
    this.slots = [];  // {kind, outer, inner}: outer has the pose, inner the visibility
    this.kinds = new Map();  // layer of each kind of slot: {isVisible, color, isUsed}
    this.frames = 0;
    this.follow = null;
    this.loading = 0;
    this.fov = 35;
    this.size = 0;
    this.isPullable = false;
    this.linkedCamera = readFlags().get("camera")?.map(Number) ?? null;  // offsets from the base, until they are used
    this.hiddenKinds = readFlags().get("hide") ?? [];
    this.viewer.set_property(["Axes"], "visible", false);
    this.viewer.delete_path(["Lights"]);
    this.viewer.delete_path(["Grid"]);
    this.root.add(new THREE.HemisphereLight(0xffffff, 0xb0aca6, 0.62));
    const fillLight = new THREE.DirectionalLight(0xffffff, 0.22);
    fillLight.position.set(-2, 3, 1);
    this.root.add(fillLight);
    this.sun = new THREE.DirectionalLight(0xffffff, 0.55);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(2048, 2048);
    this.sun.shadow.bias = -0.0005;
    this.sun.shadow.normalBias = 0.01;
    this.root.add(this.sun, this.sun.target);
    this.ground = new THREE.Group();  // shadows and grid
    const floor = new THREE.Mesh(
      new THREE.PlaneGeometry(200, 200), new THREE.ShadowMaterial({opacity: 0.22, depthWrite: false}));
    floor.renderOrder = -1;
    floor.receiveShadow = true;
    this.grid = createGrid(20);
    this.ground.add(floor, this.grid);
    this.root.add(this.ground);
    this.viewer.set_3d_pane_size = () => this.fit();
    new ResizeObserver(() => this.fit()).observe(this.pane);
    this.setTheme("light");
  }

  setTheme(name) {
    const [top, bottom] = BACKGROUND[name];
    this.viewer.set_property(["Background"], "top_color", top);
    this.viewer.set_property(["Background"], "bottom_color", bottom);
    this.grid.material.color.set(name === "dark" ? 0x93a1af : 0x8896a4);
    this.viewer.set_dirty();
  }

  fit() {  // the field of view is that of the shorter side
    const {camera, renderer} = this.viewer, width = this.pane.clientWidth, height = this.pane.clientHeight;
    if (!width || !height) return;
    camera.aspect = width / height;
    const tangent = Math.tan(this.fov * Math.PI / 360) / Math.min(1, camera.aspect);
    camera.fov = 360 / Math.PI * Math.atan(tangent);
    camera.updateProjectionMatrix();
    renderer.setSize(width, height);
    this.viewer.set_dirty();
  }

  pixelsPerMeter() {  // at the target of the camera
    const {camera, controls} = this.viewer, distance = camera.position.distanceTo(controls.target);
    return this.pane.clientHeight / (2 * distance * Math.tan(camera.fov * Math.PI / 360));
  }

  receive(buffer) {
    const size = new DataView(buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    const types = {uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array};
    const array = ref => new types[ref.type](buffer, 4 + size + ref.offset, ref.length);
    this[header.kind](header, array);
    this.viewer.set_dirty();
  }

  scene(header, array) {
    const THREE = MeshCat.THREE;
    for (const g of header.geometries) {
      const points = Float32Array.from(array(g.grid), (x, i) => g.origin[i % 3] + g.step * x);
      const [position, normal] = computeCorners(points, array(g.triangles));
      const geometry = new THREE.BufferGeometry();
      geometry.setAttribute("position", new THREE.BufferAttribute(position, 3));
      geometry.setAttribute("normal", new THREE.BufferAttribute(normal, 3));
      if (g.uvs) geometry.setAttribute("uv", new THREE.BufferAttribute(array(g.uvs).slice(), 2));
      this.geometries.push(geometry);
    }
    for (const m of header.materials) {
      const color = new THREE.Color(m.color[0], m.color[1], m.color[2]), opacity = m.color[3];
      const material = new THREE.MeshPhongMaterial({
        color, opacity, side: THREE.DoubleSide, transparent: opacity < 1, depthWrite: opacity >= 1,
        specular: m.glow ? 0x000000 : 0x222222, shininess: 20, emissive: color, emissiveIntensity: m.glow ? 0.45 : 0});
      Object.assign(material.userData, {glow: m.glow, opacity});
      material.depthTest = !m.through;
      if (m.texture) {
        this.loading++;
        const done = () => { this.loading--; this.viewer.set_dirty(); };
        material.map = new THREE.TextureLoader().load(m.texture, done, undefined, done);
        material.map.wrapS = material.map.wrapT = THREE.RepeatWrapping;
      }
      this.materials.push(material);
    }
    for (const s of header.slots) {
      const outer = new THREE.Group(), inner = new THREE.Group(), kind = s.path[0];
      inner.visible = false;
      outer.add(inner);
      this.root.add(outer);
      this.slots.push({kind, outer, inner});
      const isVisible = !this.hiddenKinds.includes(kind);
      if (!this.kinds.has(kind)) this.kinds.set(kind, {isVisible, color: null, isUsed: false});
    }
    for (const m of header.meshes) {
      const material = this.materials[m.material], mesh = new THREE.Mesh(this.geometries[m.geometry], material);
      const slot = this.slots[m.slot], kind = this.kinds.get(slot.kind);
      mesh.castShadow = mesh.receiveShadow = !material.userData.glow;
      mesh.matrixAutoUpdate = false;
      mesh.renderOrder = material.depthTest ? 0 : 1;
      mesh.matrix.fromArray(m.matrix);
      mesh.userData = {slot: m.slot, isCollision: m.collision === true, isLink: !material.userData.glow};
      mesh.visible = !m.collision;
      slot.inner.add(mesh);
      kind.color ??= "#" + material.color.getHexString();
    }
    this.inspector.add(header.bodies);
  }

  floor({height}) {
    this.ground.visible = height !== null;
    this.ground.position.z = height ?? 0;
  }

  camera(header) {
    const camera = this.viewer.camera, controls = this.viewer.controls, [x, y, z] = header.position;
    this.initialCamera = header;
    this.fov = header.fov;
    this.newtons = header.newtons_per_meter;
    camera.near = header.size / 100;
    camera.far = 400 * header.size;
    camera.position.set(x, z, -y);  // the y axis of meshcat's camera frame is our z axis
    controls.target.set(header.target[0], header.target[2], -header.target[1]);
    this.fit();
    controls.update();
    this.size = header.size;
    this.inspector.applyOptions();
    this.follow = header.follow ? header.base.slice(0, 3) : null;
    const shadow = this.sun.shadow.camera, reach = 2.5 * header.size;
    Object.assign(shadow, {left: -reach, right: reach, top: reach, bottom: -reach, near: 0.1, far: 12 * header.size});
    shadow.updateProjectionMatrix();
    this.moveLights(header.target);
    if (this.lastPoses) this.pose(this.lastPoses);
  }

  cameraOffsets() {  // of the camera and its target from the base, in meshcat's axes
    const {camera, controls} = this.viewer, [x, y, z] = this.lastPoses ?? [0, 0, 0], base = [x, z, -y];
    return [...camera.position.toArray(), ...controls.target.toArray()].map((value, i) => value - base[i % 3]);
  }

  useLinkedCamera() {
    const {camera, controls} = this.viewer, [x, y, z] = this.lastPoses, base = [x, z, -y];
    const numbers = this.linkedCamera.map((value, i) => value + base[i % 3]);
    this.linkedCamera = null;
    if (numbers.length !== 6 || !numbers.every(Number.isFinite)) return;
    camera.position.fromArray(numbers);
    controls.target.fromArray(numbers, 3);
    controls.update();
  }

  reset() {
    if (this.initialCamera) this.camera(this.initialCamera);
  }

  moveLights([x, y, z]) {  // the light moves with the robot, so that a small shadow map suffices; so does the grid
    this.sun.position.set(x - 2 * this.size, y - 3 * this.size, z + 5 * this.size);
    this.sun.target.position.set(x, y, z);
    this.grid.position.set(GRID_CELL * Math.round(x / GRID_CELL), GRID_CELL * Math.round(y / GRID_CELL), 0);
  }

  pose(poses) {
    this.lastPoses = poses;
    this.slots.forEach(({kind, outer, inner}, i) => {
      const x = poses.subarray(SLOT_SIZE * i, SLOT_SIZE * (i + 1)), isShown = x.length === SLOT_SIZE && x[7] !== 0;
      const layer = this.kinds.get(kind);
      inner.visible = isShown && layer.isVisible;
      if (!isShown) return;
      layer.isUsed = true;
      outer.position.set(x[0], x[1], x[2]);
      outer.quaternion.set(x[3], x[4], x[5], x[6]);
      outer.scale.set(x[7], x[8], x[9]);
    });
    const base = [poses[0], poses[1], poses[2]];
    this.moveLights(base);
    if (this.follow) {
      const dx = base[0] - this.follow[0], dy = base[1] - this.follow[1], {camera, controls} = this.viewer;
      // Small vertical motions of the trunk do not move the camera.
      const rise = base[2] - this.follow[2], tolerance = HEIGHT_TOLERANCE * this.size;
      const dz = rise - Math.min(Math.max(rise, -tolerance), tolerance);
      camera.position.x += dx; camera.position.y += dz; camera.position.z -= dy;
      controls.target.x += dx; controls.target.y += dz; controls.target.z -= dy;
      this.follow = [base[0], base[1], this.follow[2] + dz];
    }
    if (this.linkedCamera) this.useLinkedCamera();
    this.frames++;
    this.viewer.set_dirty();
  }

  setVisible(kind, isVisible) {
    this.kinds.get(kind).isVisible = isVisible;
    if (this.lastPoses) this.pose(this.lastPoses);
  }

  text(text) {
    document.getElementById("text").textContent = text;
  }

  note(header) {
    document.getElementById("note").textContent = header.text;
    document.getElementById("note").classList.toggle("info", header.isInfo === true);
  }

  pullable() {  // the program of a live page applies the forces of pulls
    this.isPullable = this.player.drive?.mayControl === true;
    document.getElementById("pull").hidden = !this.isPullable;
  }

  channels(header) {
    this.plots.add(header.channels);
  }

  sliders(header) {
    this.panel.setSliders(header.sliders);
  }

  frame(header, array) {
    const poses = array(header.poses), values = header.values ? array(header.values) : null;
    this.player.append({time: header.time, poses, values, text: header.text, report: header.report});
  }

  animation(header, array) {
    const times = array(header.times), poses = array(header.poses), values = array(header.values);
    const width = SLOT_SIZE * header.slots, count = values.length / times.length;
    const lookUp = changes => {  // returns the function of increasing indices to the values of [index, value] changes
      let last = 0;
      return i => {
        while (last + 1 < changes.length && changes[last + 1][0] <= i) last++;
        return changes[last][1];
      };
    };
    const text = lookUp(header.texts), report = lookUp(header.reports);
    const frames = Array.from(times, (time, i) => ({
      time, poses: poses.subarray(i * width, (i + 1) * width), text: text(i), report: report(i),
      values: values.subarray(i * count, (i + 1) * count)}));
    this.player.setRecording(frames);
  }
}
