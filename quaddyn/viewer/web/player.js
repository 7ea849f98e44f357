"use strict";
// Time: frames recorded, or coming in live and kept for a while; one slider and one clock for both.

const KEPT = 3600;  // frames of a live page to go back to

class Player {
  constructor(stage, plots, drive) {
    Object.assign(this, {stage, plots, drive, frames: [], time: 0, playing: true, index: -1, last: null, stepping: 0});
    this.live = Boolean(drive);
    const element = id => document.getElementById(id);
    this.bar = element("player");
    [this.button, this.one, this.slider, this.clock, this.speed] =
      ["play", "step", "slider", "clock", "speed"].map(element);
    this.speed.hidden = this.live;
    this.slider.oninput = () => this.chosen(this.start + this.slider.value / 1000 * (this.end - this.start));
    this.button.onclick = () => this.playing ? this.pause() : this.play();
    this.one.onclick = () => this.step();
    document.addEventListener("keydown", event => {
      if (event.target instanceof HTMLInputElement || event.target instanceof HTMLButtonElement) return;
      if (event.code === "Space") { event.preventDefault(); this.button.onclick(); }
      if (event.code === "Period") this.step();
    });
    plots.onseek = time => this.chosen(time);
    this.show();
  }

  get start() { return this.frames.length ? this.frames[0].time : 0; }
  get end() { return this.frames.length ? this.frames[this.frames.length - 1].time : 0; }

  open(frames) {  // a recording
    this.frames = frames;
    this.bar.style.display = this.end > this.start ? "flex" : "none";  // a still needs no player
    this.plots.data(frames);
    const at = new URLSearchParams(location.hash.slice(1)).get("t");  // page.html#t=1.5 stops there
    this.seek(Number(at) || 0);
    at === null ? this.play() : this.pause();
    requestAnimationFrame(now => this.tick(now));
  }

  append(frame) {  // live
    if (frame.time === null) {  // before anything is shown
      this.stage.pose(frame.poses);
      this.stage.text(frame.text);
      return;
    }
    this.bar.style.display = "flex";
    if (frame.time < this.end) this.frames = [];
    this.frames.push(frame);
    if (this.frames.length > KEPT) { this.frames.splice(0, KEPT / 10); this.index = -1; }
    if (this.playing || this.stepping) {
      this.stepping = Math.max(0, this.stepping - 1);
      this.seek(frame.time);
    } else this.show();
    this.plots.grow(this.frames);
  }

  play() {
    Object.assign(this, {playing: true, last: null, stepping: 0});
    this.drive?.pause(false);
    if (this.live && this.frames.length) this.seek(this.end);
    this.show();
  }

  pause() {
    this.playing = false;
    this.drive?.pause(true);
    this.show();
  }

  step() {
    this.pause();
    if (this.index + 1 < this.frames.length) this.seek(this.frames[this.index + 1].time);
    else if (this.live) { this.stepping++; this.drive.step(); }
  }

  chosen(time) {  // by hand
    this.pause();
    this.seek(time);
  }

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
    let low = 0, high = this.frames.length;  // the last frame not after this time
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.frames[middle].time <= time + 1e-6) low = middle; else high = middle;
    }
    this.show();
    const frame = this.frames[low];
    this.plots.now(Math.min(time, this.end), frame);
    if (low === this.index && frame === this.shown) return;
    Object.assign(this, {index: low, shown: frame});
    this.stage.pose(frame.poses);
    this.stage.text(frame.text);
  }

  show() {
    this.button.textContent = this.playing ? "\u275a\u275a" : "\u25b6";
    const shown = Math.min(this.time, this.end), whole = this.end - this.start;
    this.slider.value = whole > 0 ? 1000 * (shown - this.start) / whole : 0;
    const live = this.playing ? "live, " : "";
    this.clock.textContent = this.live ? `${live}${shown.toFixed(2)} s` : `${shown.toFixed(2)} / ${this.end.toFixed(2)} s`;
  }
}
