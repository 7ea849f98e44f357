"use strict";
// The browser's half of quaddyn's viewer: packets (see scene.py) become three.js objects in meshcat's scene tree.

const CREASE = Math.cos(Math.PI / 6);  // edges sharper than this stay sharp
const SLOT = 10;
const CELL = 0.5;  // of the ground's grid [m]

// Unindexed positions and normals; a corner's normal averages the faces around its vertex within the crease angle.
function creased(points, triangles) {
  const faces = triangles.length / 3;
  const position = new Float32Array(9 * faces), normal = new Float32Array(9 * faces);
  const flat = new Float32Array(3 * faces), area = new Float32Array(faces);
  const count = new Uint32Array(points.length / 3 + 1);
  for (let f = 0; f < faces; f++) {
    const [a, b, c] = [3 * triangles[3 * f], 3 * triangles[3 * f + 1], 3 * triangles[3 * f + 2]];
    const u = [0, 1, 2].map(k => points[b + k] - points[a + k]), v = [0, 1, 2].map(k => points[c + k] - points[a + k]);
    const n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    area[f] = Math.hypot(...n);
    for (let k = 0; k < 3; k++) {
      flat[3 * f + k] = area[f] > 0 ? n[k] / area[f] : 0;
      count[triangles[3 * f + k] + 1]++;
    }
  }
  for (let i = 1; i < count.length; i++) count[i] += count[i - 1];
  const around = new Uint32Array(triangles.length), fill = count.slice();
  for (let i = 0; i < triangles.length; i++) around[fill[triangles[i]]++] = Math.floor(i / 3);
  for (let i = 0; i < triangles.length; i++) {
    const f = Math.floor(i / 3), p = triangles[i];
    let x = 0, y = 0, z = 0;
    for (let j = count[p]; j < count[p + 1]; j++) {
      const g = around[j];
      const cosine = flat[3 * f] * flat[3 * g] + flat[3 * f + 1] * flat[3 * g + 1] + flat[3 * f + 2] * flat[3 * g + 2];
      if (cosine < CREASE) continue;
      x += area[g] * flat[3 * g]; y += area[g] * flat[3 * g + 1]; z += area[g] * flat[3 * g + 2];
    }
    const length = Math.hypot(x, y, z);
    const n = length > 0 ? [x / length, y / length, z / length] : [flat[3 * f], flat[3 * f + 1], flat[3 * f + 2]];
    for (let k = 0; k < 3; k++) {
      position[3 * i + k] = points[3 * p + k];
      normal[3 * i + k] = n[k];
    }
  }
  return [position, normal];
}

// A ground grid at z = 0, `reach` cells to every side, of short lines: software renderers lose a line that goes behind
// the camera.
function grid(reach) {
  const points = [];
  for (let i = -reach; i <= reach; i++) {
    for (let j = -reach; j < reach; j++) {
      const [a, b, c] = [CELL * i, CELL * j, CELL * (j + 1)];
      points.push(a, b, 0, a, c, 0, b, a, 0, c, a, 0);
    }
  }
  const THREE = MeshCat.THREE, geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.Float32BufferAttribute(points, 3));
  const material = new THREE.LineBasicMaterial({color: 0x8896a4, transparent: true, opacity: 0.45, depthWrite: false});
  return new THREE.LineSegments(geometry, material);
}

class Stage {
  constructor() {
    const THREE = MeshCat.THREE;
    this.viewer = new MeshCat.Viewer(document.getElementById("pane"));
    this.geometries = [];
    this.materials = [];
    this.slots = [];  // {outer, inner}: outer is posed, inner is switched on and off
    this.frames = 0;
    this.follow = null;
    this.loading = 0;
    this.viewer.set_property(["Background"], "top_color", [0.86, 0.91, 0.96]);
    this.viewer.set_property(["Background"], "bottom_color", [0.98, 0.98, 0.98]);
    this.viewer.set_property(["Axes"], "visible", false);
    this.viewer.delete_path(["Lights"]);
    this.viewer.set_object(["Lights", "Sky"], new THREE.HemisphereLight(0xffffff, 0xb0aca6, 0.62));
    const fill = new THREE.DirectionalLight(0xffffff, 0.22);
    fill.position.set(-2, 3, 1);
    this.viewer.set_object(["Lights", "Fill"], fill);
    this.sun = new THREE.DirectionalLight(0xffffff, 0.55);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(2048, 2048);
    this.sun.shadow.bias = -0.0005;
    this.sun.shadow.normalBias = 0.01;
    this.viewer.set_object(["Lights", "Sun"], this.sun);
    this.viewer.set_object(["Lights", "SunTarget"], this.sun.target);
    const floor = new THREE.Mesh(new THREE.PlaneGeometry(200, 200), new THREE.ShadowMaterial({opacity: 0.22, depthWrite: false}));
    floor.renderOrder = -1;
    floor.receiveShadow = true;
    this.viewer.set_object(["Floor"], floor);
    this.grid = grid(20);
    this.viewer.set_object(["Grid"], this.grid);
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
      const [position, normal] = creased(points, array(g.triangles));
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
      material.userData.glow = m.glow;
      material.depthTest = !m.through;
      if (m.texture) {
        this.loading++;
        material.map = new THREE.TextureLoader().load(m.texture, () => { this.loading--; this.viewer.set_dirty(); });
        material.map.wrapS = material.map.wrapT = THREE.RepeatWrapping;
      }
      this.materials.push(material);
    }
    for (const s of header.slots) {
      const inner = new THREE.Group();
      this.viewer.set_object(s.path, inner);
      const outer = inner.parent;
      outer.scale.set(1, 1, 1);
      inner.visible = false;
      this.slots.push({outer, inner});
    }
    for (const m of header.meshes) {
      const material = this.materials[m.material], mesh = new THREE.Mesh(this.geometries[m.geometry], material);
      mesh.castShadow = mesh.receiveShadow = !material.userData.glow;
      mesh.matrixAutoUpdate = false;
      mesh.renderOrder = material.depthTest ? 0 : 1;
      mesh.matrix.fromArray(m.matrix);
      this.slots[m.slot].inner.add(mesh);
    }
  }

  camera(header) {
    const camera = this.viewer.camera, controls = this.viewer.controls, [x, y, z] = header.position;
    camera.fov = header.fov;
    camera.near = header.size / 100;
    camera.far = header.size * 500;
    camera.position.set(x, z, -y);  // meshcat's cameras live in a frame with y up
    controls.target.set(header.target[0], header.target[2], -header.target[1]);
    controls.update();
    this.follow = header.follow ? header.base : null;  // where the base was when the camera was placed
    this.size = header.size;
    const shadow = this.sun.shadow.camera, reach = 2.5 * header.size;
    Object.assign(shadow, {left: -reach, right: reach, top: reach, bottom: -reach, near: 0.1, far: 12 * header.size});
    shadow.updateProjectionMatrix();
    this.shine(header.target);
  }

  shine([x, y]) {  // the sun goes with the robot, so that its shadow map can stay small and sharp; so does the grid
    this.sun.position.set(x - 2 * this.size, y - 3 * this.size, 5 * this.size);
    this.sun.target.position.set(x, y, 0);
    this.grid.position.set(CELL * Math.round(x / CELL), CELL * Math.round(y / CELL), 0);
  }

  frame(header, array) {
    this.pose(array(header.poses));
    this.text(header.text);
  }

  pose(poses) {
    this.slots.forEach(({outer, inner}, i) => {
      const x = poses.subarray(SLOT * i, SLOT * (i + 1));
      inner.visible = x.length === SLOT && x[7] !== 0;
      if (!inner.visible) return;
      outer.position.set(x[0], x[1], x[2]);
      outer.quaternion.set(x[3], x[4], x[5], x[6]);
      outer.scale.set(x[7], x[8], x[9]);
    });
    const base = [poses[0], poses[1]];
    this.shine(base);
    if (this.follow) {
      const dx = base[0] - this.follow[0], dy = base[1] - this.follow[1], {camera, controls} = this.viewer;
      camera.position.x += dx; camera.position.z -= dy;
      controls.target.x += dx; controls.target.z -= dy;
      this.follow = base;
    }
    this.frames++;
    this.viewer.set_dirty();
  }

  text(text) {
    document.getElementById("text").textContent = text;
  }

  note(header) {
    document.getElementById("note").textContent = header.text;
  }

  animation(header, array) {
    this.player = new Player(this, array(header.times), array(header.poses), header.slots, header.texts);
  }
}

class Player {
  constructor(stage, times, poses, slots, texts) {
    Object.assign(this, {stage, times, poses, slots, texts, time: 0, playing: true, last: null, index: -1});
    this.end = times[times.length - 1];
    const element = id => document.getElementById(id);
    [this.button, this.slider, this.clock, this.speed] = ["play", "slider", "clock", "speed"].map(element);
    element("player").style.display = this.end > 0 ? "flex" : "none";  // a still needs no player
    this.slider.oninput = () => { this.pause(); this.seek(this.slider.value / 1000 * this.end); };
    this.button.onclick = () => this.playing ? this.pause() : this.play();
    document.addEventListener("keydown", event => {
      if (event.code === "Space" && event.target === document.body) this.button.onclick();
    });
    const start = new URLSearchParams(location.hash.slice(1)).get("t");  // page.html#t=1.5 stops there
    this.seek(Number(start) || 0);
    start === null ? this.play() : this.pause();
    requestAnimationFrame(now => this.tick(now));
  }

  play() { this.playing = true; this.last = null; this.button.textContent = "\u275a\u275a"; }
  pause() { this.playing = false; this.button.textContent = "\u25b6"; }

  tick(now) {
    if (this.playing && this.end > 0) {
      if (this.last !== null) {
        const time = this.time + (now - this.last) / 1000 * Number(this.speed.value);
        this.seek(time > this.end + 0.5 ? 0 : time);  // the last frame stays for half a second
      }
      this.last = now;
    }
    requestAnimationFrame(next => this.tick(next));
  }

  seek(time) {
    this.time = time;
    let low = 0, high = this.times.length;  // the last frame not after this time
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time + 1e-6) low = middle; else high = middle;
    }
    const shown = Math.min(time, this.end);
    this.slider.value = this.end > 0 ? 1000 * shown / this.end : 0;
    this.clock.textContent = shown.toFixed(2) + " / " + this.end.toFixed(2) + " s";
    if (low === this.index) return;
    this.index = low;
    const width = SLOT * this.slots;
    this.stage.pose(this.poses.subarray(low * width, (low + 1) * width));
    this.stage.text(this.texts.filter(([start]) => start <= low).pop()[1]);
  }
}

function stage() {
  const flags = new URLSearchParams(location.hash.slice(1));
  if (flags.has("bare")) document.body.classList.add("bare");  // page.html#bare: no menu, no player
  return window.quaddyn = new Stage();
}

function live() {
  let made = stage();
  const connect = () => {
    const socket = new WebSocket(`ws://${location.host}/socket`);
    socket.binaryType = "arraybuffer";
    socket.onmessage = message => made.receive(message.data);
    socket.onclose = () => made.note({text: "the viewer was closed"});
    tellKeys(socket);
  };
  connect();
}

// Tells which of these keys are held down, whenever that changes; who looks elsewhere holds none.
const KEYS = ["KeyW", "KeyA", "KeyS", "KeyD", "KeyQ", "KeyE", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight",
  "ShiftLeft"];

function tellKeys(socket) {
  const held = new Set();
  const tell = () => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify([...held])); };
  const release = () => { if (held.size) { held.clear(); tell(); } };
  addEventListener("keydown", event => {
    if (!KEYS.includes(event.code) || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target instanceof HTMLInputElement) return;  // of the menu
    event.preventDefault();
    if (!held.has(event.code)) { held.add(event.code); tell(); }
  });
  addEventListener("keyup", event => { if (held.delete(event.code)) tell(); });
  addEventListener("blur", release);
  document.addEventListener("visibilitychange", release);
}

async function recorded() {
  const made = stage();
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer(), view = new DataView(buffer);
  for (let at = 0; at < buffer.byteLength;) {
    const size = Number(view.getBigUint64(at, true));
    made.receive(buffer.slice(at + 8, at + 8 + size));
    at += 8 + size;
  }
}
