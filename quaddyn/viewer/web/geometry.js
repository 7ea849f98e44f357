"use strict";
// Triangles and lines for three.js.

const CREASE = Math.cos(Math.PI / 6);  // edges sharper than this stay sharp
const CELL = 0.5;  // of the ground's grid [m]

// Unindexed positions and normals; a corner's normal averages the faces around its vertex within the crease angle.
function creased(points, triangles) {
  const faces = triangles.length / 3;
  const position = new Float32Array(9 * faces), normal = new Float32Array(9 * faces);
  const flat = new Float32Array(3 * faces), area = new Float32Array(faces);
  const count = new Uint32Array(points.length / 3 + 1);
  for (let f = 0; f < faces; f++) {
    const a = 3 * triangles[3 * f], b = 3 * triangles[3 * f + 1], c = 3 * triangles[3 * f + 2];
    const ux = points[b] - points[a], uy = points[b + 1] - points[a + 1], uz = points[b + 2] - points[a + 2];
    const vx = points[c] - points[a], vy = points[c + 1] - points[a + 1], vz = points[c + 2] - points[a + 2];
    const x = uy * vz - uz * vy, y = uz * vx - ux * vz, z = ux * vy - uy * vx, size = Math.sqrt(x * x + y * y + z * z);
    area[f] = size;
    if (size > 0) { flat[3 * f] = x / size; flat[3 * f + 1] = y / size; flat[3 * f + 2] = z / size; }
    for (let k = 0; k < 3; k++) count[triangles[3 * f + k] + 1]++;
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
    const length = Math.sqrt(x * x + y * y + z * z);
    for (let k = 0; k < 3; k++) position[3 * i + k] = points[3 * p + k];
    if (length > 0) {
      normal[3 * i] = x / length; normal[3 * i + 1] = y / length; normal[3 * i + 2] = z / length;
    } else for (let k = 0; k < 3; k++) normal[3 * i + k] = flat[3 * f + k];
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
