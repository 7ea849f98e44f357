"use strict";
// Entry points of the live and of the recorded page.

const NOTE_TIME = 15000;  // time for which the note about a copied link is shown [ms]

function createStage(drive, viewPath) {
  const flags = readFlags();
  if (flags.has("film")) document.body.classList.add("film");  // hides the controls, for videos
  if (flags.has("bare")) document.body.classList.add("bare");  // page.html#bare shows only the scene and its text
  const stage = window.quaddyn = new Stage();
  stage.plots = new Plots(() => stage.panel.openOnce());
  stage.inspector = new Inspector(stage, stage.plots, drive);
  stage.panel = new Panel(stage, stage.plots, drive?.mayControl && ((name, value) => drive.slide(name, value)));
  stage.player = new Player(stage, stage.plots, drive);
  document.getElementById("png").onclick = () => savePicture(stage);
  document.getElementById("link").onclick = () => copyLink(stage, viewPath);
  const removeLoadingMessage = () => stage.frames > 0 && stage.loading === 0 ?
    document.getElementById("loading").remove() : requestAnimationFrame(removeLoadingMessage);
  removeLoadingMessage();
  stage.drawAt = async time => {  // resolves when the frame at this time is on the screen
    stage.player.seek(time);
    for (let i = 0; i < 2; i++) await new Promise(done => requestAnimationFrame(done));
  };
  return stage;
}

function showLive(mayControl, viewPath) {
  const drive = new Drive(mayControl), stage = createStage(drive, viewPath);
  const socket = drive.socket = new WebSocket(new URL("socket", location.href).href.replace(/^http/, "ws").split("#")[0]);
  socket.binaryType = "arraybuffer";
  socket.onmessage = message => stage.receive(message.data);
  socket.onclose = () => stage.note({text: "the viewer was closed"});
}

async function playRecording() {
  const stage = createStage(null, null);
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer(), view = new DataView(buffer);
  for (let at = 0; at < buffer.byteLength;) {
    const size = Number(view.getBigUint64(at, true));
    stage.receive(buffer.slice(at + 8, at + 8 + size));
    at += 8 + size;
  }
}

// Copies the link to the present view; the address bar of a recording shows it, too.
async function copyLink(stage, viewPath) {
  const link = makeLink(stage, viewPath), note = document.getElementById("note");
  try {
    if (viewPath === null) history.replaceState(null, "", link);
    await navigator.clipboard.writeText(link);
    stage.note({text: "the link to this view is in the clipboard", isInfo: true});
  } catch {
    stage.note({text: link, isInfo: true});  // without permission to use the clipboard
  }
  setTimeout(() => { if (note.classList.contains("info")) stage.note({text: ""}); }, NOTE_TIME);
}

// Draws the scene and its text on a canvas.
function drawPicture(stage, pen) {
  const {viewer, panel} = stage, scale = devicePixelRatio, isDark = panel.theme === "dark";
  const lines = document.getElementById("text").textContent.split("\n").filter(Boolean);
  viewer.render();
  pen.drawImage(viewer.renderer.domElement, 0, 0);
  pen.font = `${14 * scale}px system-ui, sans-serif`;
  pen.fillStyle = isDark ? "#171c22d0" : "#ffffffc8";
  const width = Math.max(0, ...lines.map(line => pen.measureText(line).width));
  if (lines.length) pen.fillRect(6 * scale, 8 * scale, width + 16 * scale, (20 * lines.length + 8) * scale);
  pen.fillStyle = isDark ? "#e6ebf0" : "#1d2733";
  lines.forEach((line, i) => pen.fillText(line, 14 * scale, (26 + 20 * i) * scale));
}

function savePicture(stage) {
  const canvas = document.createElement("canvas"), scene = stage.viewer.renderer.domElement;
  Object.assign(canvas, {width: scene.width, height: scene.height});
  drawPicture(stage, canvas.getContext("2d"));
  const anchor = document.createElement("a");
  anchor.download = `${document.title} ${stage.player.time.toFixed(2)} s.png`;
  anchor.href = canvas.toDataURL("image/png");
  anchor.click();
}

// Records a video of the scene and its text in real time with the browser's MediaRecorder; returns it in base64.
async function recordVideo(type, fps) {
  const {player, viewer} = quaddyn, scene = viewer.renderer.domElement, chunks = [];
  const copy = document.createElement("canvas"), pen = copy.getContext("2d");
  copy.width = scene.width - scene.width % 2;
  copy.height = scene.height - scene.height % 2;
  player.pause();
  const [track] = copy.captureStream(0).getVideoTracks();
  const recorder = new MediaRecorder(new MediaStream([track]), {mimeType: type, videoBitsPerSecond: 8e6});
  const stopped = new Promise(done => { recorder.onstop = done; });
  recorder.ondataavailable = event => chunks.push(event.data);
  const draw = time => {
    player.seek(Math.max(0, time));
    drawPicture(quaddyn, pen);
    track.requestFrame();
  };
  draw(0);
  recorder.start(100);
  const begin = performance.now();
  for (let time = 0; time < player.end + 0.2; time = (performance.now() - begin) / 1000) {
    draw(time);
    await new Promise(done => setTimeout(done, 1000 / fps));
  }
  for (let i = 0; i < 100 && chunks.every(chunk => !chunk.size); i++) {  // the encoder of a slow machine may need more time
    draw(player.end);
    await new Promise(done => setTimeout(done, 100));
  }
  recorder.stop();
  await stopped;
  const bytes = new Uint8Array(await new Blob(chunks).arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}
