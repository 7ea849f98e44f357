"use strict";
// Entry points of the live and of the recorded page.

function createStage(drive) {
  const flags = new URLSearchParams(location.hash.slice(1));
  if (flags.has("film")) document.body.classList.add("film");  // hides the controls, for videos
  if (flags.has("bare")) document.body.classList.add("bare");  // page.html#bare shows only the scene and its text
  const stage = window.quaddyn = new Stage();
  stage.plots = new Plots(() => stage.panel.openOnce());
  stage.panel = new Panel(stage, stage.plots, drive && ((name, value) => drive.slide(name, value)));
  stage.player = new Player(stage, stage.plots, drive);
  const removeLoadingMessage = () => stage.frames > 0 && stage.loading === 0 ?
    document.getElementById("loading").remove() : requestAnimationFrame(removeLoadingMessage);
  removeLoadingMessage();
  stage.drawAt = async time => {  // resolves when the frame at this time is on the screen
    stage.player.seek(time);
    for (let i = 0; i < 2; i++) await new Promise(done => requestAnimationFrame(done));
  };
  return stage;
}

function showLive() {
  const drive = new Drive(), stage = createStage(drive);
  const socket = drive.socket = new WebSocket(new URL("socket", location.href).href.replace(/^http/, "ws").split("#")[0]);
  socket.binaryType = "arraybuffer";
  socket.onmessage = message => stage.receive(message.data);
  socket.onclose = () => stage.note({text: "the viewer was closed"});
}

async function playRecording() {
  const stage = createStage(null);
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer(), view = new DataView(buffer);
  for (let at = 0; at < buffer.byteLength;) {
    const size = Number(view.getBigUint64(at, true));
    stage.receive(buffer.slice(at + 8, at + 8 + size));
    at += 8 + size;
  }
}

// Records a video of the scene and its text in real time with the browser's MediaRecorder; returns it in base64.
async function recordVideo(type, fps) {
  const {player, viewer, name} = {...quaddyn, name: quaddyn.panel.theme}, scene = viewer.renderer.domElement, chunks = [];
  const copy = document.createElement("canvas"), pen = copy.getContext("2d"), scale = devicePixelRatio;
  copy.width = scene.width - scene.width % 2;
  copy.height = scene.height - scene.height % 2;
  player.pause();
  const [track] = copy.captureStream(0).getVideoTracks();
  const recorder = new MediaRecorder(new MediaStream([track]), {mimeType: type, videoBitsPerSecond: 8e6});
  const stopped = new Promise(done => { recorder.onstop = done; });
  recorder.ondataavailable = event => chunks.push(event.data);
  const draw = time => {
    player.seek(Math.max(0, time));
    viewer.render();
    pen.drawImage(scene, 0, 0);
    pen.font = `${14 * scale}px system-ui, sans-serif`;
    pen.fillStyle = name === "dark" ? "#e6ebf0" : "#1d2733";
    document.getElementById("text").textContent.split("\n").forEach(
      (line, i) => pen.fillText(line, 14 * scale, (26 + 20 * i) * scale));
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
