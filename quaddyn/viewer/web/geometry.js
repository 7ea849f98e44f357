"use strict";
// Triangles and lines for three.js.

const CREASE_COSINE = Math.cos(Math.PI / 6);  // edges with a larger angle between their faces are drawn sharp
const GRID_CELL = 0.5;  // size of a cell of the grid [m]

// Returns positions and normals of the corners, three for each triangle.  The normal of a corner is the mean of the
// normals of those faces at its vertex that are within the crease angle, weighted by area.
function computeCorners(points, triangles) {
  const faces = triangles.length / 3;
  const position = new Float32Array(9 * faces), normal = new Float32Array(9 * faces);
  const faceNormal = new Float32Array(3 * faces), area = new Float32Array(faces);
  const count = new Uint32Array(points.length / 3 + 1);
  for (let f = 0; f < faces; f++) {
    const a = 3 * triangles[3 * f], b = 3 * triangles[3 * f + 1], c = 3 * triangles[3 * f + 2];
    const ux = points[b] - points[a], uy = points[b + 1] - points[a + 1], uz = points[b + 2] - points[a + 2];
    const vx = points[c] - points[a], vy = points[c + 1] - points[a + 1], vz = points[c + 2] - points[a + 2];
    const x = uy * vz - uz * vy, y = uz * vx - ux * vz, z = ux * vy - uy * vx, size = Math.sqrt(x * x + y * y + z * z);
    area[f] = size;
    if (size > 0) { faceNormal[3 * f] = x / size; faceNormal[3 * f + 1] = y / size; faceNormal[3 * f + 2] = z / size; }
    for (let k = 0; k < 3; k++) count[triangles[3 * f + k] + 1]++;
  }
  for (let i = 1; i < count.length; i++) count[i] += count[i - 1];
  const facesAtVertex = new Uint32Array(triangles.length), fill = count.slice();
  for (let i = 0; i < triangles.length; i++) facesAtVertex[fill[triangles[i]]++] = Math.floor(i / 3);
  for (let i = 0; i < triangles.length; i++) {
    const f = Math.floor(i / 3), p = triangles[i];
    let x = 0, y = 0, z = 0;
    for (let j = count[p]; j < count[p + 1]; j++) {
      const g = facesAtVertex[j];
      let cosine = 0;
      for (let k = 0; k < 3; k++) cosine += faceNormal[3 * f + k] * faceNormal[3 * g + k];
      if (cosine < CREASE_COSINE) continue;
      x += area[g] * faceNormal[3 * g]; y += area[g] * faceNormal[3 * g + 1]; z += area[g] * faceNormal[3 * g + 2];
    }
    const length = Math.sqrt(x * x + y * y + z * z);
    for (let k = 0; k < 3; k++) position[3 * i + k] = points[3 * p + k];
    if (length > 0) {
      normal[3 * i] = x / length; normal[3 * i + 1] = y / length; normal[3 * i + 2] = z / length;
    } else for (let k = 0; k < 3; k++) normal[3 * i + k] = faceNormal[3 * f + k];
  }
  return [position, normal];
}

// Returns a grid at z = 0 that extends `reach` cells to each side.  Its lines are short, because software renderers omit
// a line that ends behind the camera.
function createGrid(reach) {
  const points = [];
  for (let i = -reach; i <= reach; i++) {
    for (let j = -reach; j < reach; j++) {
      const [a, b, c] = [GRID_CELL * i, GRID_CELL * j, GRID_CELL * (j + 1)];
      points.push(a, b, 0, a, c, 0, b, a, 0, c, a, 0);
    }
  }
  const THREE = MeshCat.THREE, geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.Float32BufferAttribute(points, 3));
  const material = new THREE.LineBasicMaterial({color: 0x8896a4, transparent: true, opacity: 0.45, depthWrite: false});
  return new THREE.LineSegments(geometry, material);
}
