"use strict";
// Playback of recorded frames, and of the latest frames of a live page, with a slider and a clock.

const MAX_LIVE_FRAMES = 3600;  // frames that a live page stores

class Player {
  constructor(stage, plots, drive) {
    Object.assign(this, {stage, plots, drive, frames: [], time: 0, playing: true, index: -1, last: null, stepping: 0});
    this.live = Boolean(drive);
    const element = id => document.getElementById(id);
    this.bar = element("player");
    [this.button, this.slider, this.clock, this.speed] = ["play", "slider", "clock", "speed"].map(element);
    this.speed.hidden = this.live;
    this.slider.oninput = () => this.seekPaused(this.start + this.slider.value / 1000 * (this.end - this.start));
    this.button.onclick = () => this.playing ? this.pause() : this.play();
    element("step").onclick = () => this.step();
    element("back").onclick = () => this.back();
    document.addEventListener("keydown", event => {
      if (event.target instanceof HTMLInputElement || event.target instanceof HTMLButtonElement) return;
      if (event.code === "Space") { event.preventDefault(); this.button.onclick(); }
      if (event.code === "Period") this.step();
      if (event.code === "Comma") this.back();
    });
    plots.onSeek = time => this.seekPaused(time);
    this.updateControls();
  }

  get start() { return this.frames.length ? this.frames[0].time : 0; }
  get end() { return this.frames.length ? this.frames[this.frames.length - 1].time : 0; }

  setRecording(frames) {
    this.frames = frames;
    this.bar.style.display = this.end > this.start ? "flex" : "none";  // a single frame needs no controls
    this.plots.setFrames(frames);
    const start = readFlags().get("t");  // page.html#t=1.5 shows this time, paused
    this.seek(Number(start?.[0]) || 0);
    start === undefined ? this.play() : this.pause();
    requestAnimationFrame(now => this.tick(now));
  }

  append(frame) {  // of a live page
    if (frame.time === null) {  // the initial pose
      this.show(frame);
      return;
    }
    this.bar.style.display = "flex";
    if (frame.time < this.end) this.frames = [];
    this.frames.push(frame);
    if (this.frames.length > MAX_LIVE_FRAMES) { this.frames.splice(0, MAX_LIVE_FRAMES / 10); this.index = -1; }
    if (this.playing || this.stepping) {
      this.stepping = Math.max(0, this.stepping - 1);
      this.seek(frame.time);
    } else this.updateControls();
    this.plots.update(this.frames);
  }

  play() {
    Object.assign(this, {playing: true, last: null, stepping: 0});
    this.drive?.pause(false);
    if (this.live && this.frames.length) this.seek(this.end);
    this.updateControls();
  }

  pause() {
    this.playing = false;
    this.drive?.pause(true);
    this.updateControls();
  }

  step() {
    this.pause();
    if (this.index + 1 < this.frames.length) this.seek(this.frames[this.index + 1].time);
    else if (this.live) { this.stepping++; this.drive.step(); }
  }

  back() {
    this.pause();
    if (this.index > 0) this.seek(this.frames[this.index - 1].time);
  }

  seekPaused(time) {
    this.pause();
    this.seek(time);
  }

  tick(now) {
    if (this.playing && this.end > 0) {
      if (this.last !== null) {
        const time = this.time + (now - this.last) / 1000 * Number(this.speed.value);
        this.seek(time > this.end + 0.5 ? 0 : time);  // the last frame is shown for half a second
      }
      this.last = now;
    }
    requestAnimationFrame(next => this.tick(next));
  }

  seek(time) {
    this.time = time;
    let low = 0, high = this.frames.length;  // finds the last frame that is not after this time
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.frames[middle].time <= time + 1e-6) low = middle; else high = middle;
    }
    this.updateControls();
    const frame = this.frames[low];
    this.plots.showTime(Math.min(time, this.end), frame);
    if (low === this.index && frame === this.shown) return;
    Object.assign(this, {index: low, shown: frame});
    this.show(frame);
  }

  show(frame) {
    this.stage.pose(frame.poses);
    this.stage.text(frame.text);
    this.stage.inspector.update(frame);
  }

  updateControls() {
    this.button.textContent = this.playing ? "\u275a\u275a" : "\u25b6";
    const time = Math.min(this.time, this.end), duration = this.end - this.start;
    this.slider.value = duration > 0 ? 1000 * (time - this.start) / duration : 0;
    const live = this.playing ? "live, " : "";
    this.clock.textContent = this.live ? `${live}${time.toFixed(2)} s` : `${time.toFixed(2)} / ${this.end.toFixed(2)} s`;
  }
}
