"use strict";
// Plots beside the scene: a panel of lines over time for each group of channels; a click or a drag chooses the time.

const LINES = ["#2f6fd6", "#d9541e", "#1a9c5b", "#9646b8", "#c29a00", "#12a0b5", "#d63384", "#7a6a58", "#5b7fa6", "#a3343a",
  "#4b9e1f", "#7d5fff"];
const REDRAWN = 150;  // least time between two drawings of a live plot [ms]

function short(x) {
  const size = Math.abs(x);
  return size >= 1e5 ? x.toExponential(2) : (x.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 3)).replace(/^-(0[.]?0*)$/, "$1");
}

class Plots {
  constructor(onplot) {
    Object.assign(this, {channels: [], panels: new Map(), onseek: () => {}, onplot, frames: [], dirty: false});
    this.place = document.getElementById("plots");
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  add(channels) {
    for (const channel of channels) {
      const number = this.channels.push(channel) - 1;
      if (!this.panels.has(channel.panel)) this.panels.set(channel.panel, {numbers: [], uplot: null});
      const panel = this.panels.get(channel.panel);
      panel.numbers.push(number);
      panel.uplot?.destroy();
      panel.uplot = null;
      panel.box?.remove();
    }
    this.onplot();
    if (this.frames.length) this.data(this.frames);
  }

  data(frames) {
    this.frames = frames;
    if (document.getElementById("side").hidden) return;
    const times = Float64Array.from(frames, frame => frame.time);
    for (const [title, panel] of this.panels) {
      const columns = panel.numbers.map(
        n => Array.from(frames, ({values}) => values && n < values.length && !Number.isNaN(values[n]) ? values[n] : null));
      if (panel.uplot) panel.uplot.setData([times, ...columns]);
      else this.make(title, panel, [times, ...columns]);
    }
    if (this.at) this.now(...this.at);
  }

  grow(frames) {
    this.frames = frames;
    if (this.dirty) return;
    this.dirty = true;
    setTimeout(() => { this.dirty = false; this.data(this.frames); }, REDRAWN);
  }

  make(title, panel, data) {
    const box = panel.box = document.createElement("div"), head = document.createElement("h2");
    const keys = document.createElement("div"), ink = () => getComputedStyle(document.body).getPropertyValue("--soft");
    const line = getComputedStyle(document.body).getPropertyValue("--line");
    box.className = "plot";
    keys.className = "keys";
    head.textContent = title;
    box.append(head, keys);
    const after = [...this.panels.values()].slice([...this.panels.keys()].indexOf(title) + 1).find(p => p.box?.isConnected);
    this.place.insertBefore(box, after ? after.box : null);
    let count = 0;
    panel.values = [];
    const series = panel.numbers.map(n => {
      const channel = this.channels[n], twin = channel.name.replace(/, (desired|wanted)$/, ""), desired = twin !== channel.name;
      const of = desired ? panel.numbers.find(m => this.channels[m].name === twin) : undefined;
      channel.stroke = of !== undefined && this.channels[of].stroke || LINES[count++ % LINES.length];
      const key = document.createElement("span"), chip = document.createElement("i"), value = document.createElement("b");
      chip.style.background = channel.stroke;
      key.append(chip, channel.name + " ", value);
      keys.append(key);
      panel.values.push(value);
      return {label: channel.name, stroke: channel.stroke, width: 1.4, dash: desired ? [5, 4] : undefined,
        points: {show: false}};
    });
    const axis = {stroke: ink, grid: {stroke: line, width: 1}, ticks: {show: false}, font: "10px system-ui"};
    panel.uplot = new uPlot({
      width: this.width(), height: 110, series: [{}, ...series], legend: {show: false}, scales: {x: {time: false}},
      padding: [5, 8, 0, 0],
      axes: [{...axis, size: 20}, {...axis, size: 42}],
      cursor: {drag: {x: false, y: false}, sync: {key: "time"}, points: {show: false}, y: false}
    }, data, box);
    const over = panel.uplot.over, choose = event => {
      if (event.buttons !== 1) return;
      const left = event.clientX - over.getBoundingClientRect().left;
      const {min, max} = panel.uplot.scales.x;
      this.onseek(Math.min(max, Math.max(min, panel.uplot.posToVal(left, "x"))));
    };
    over.addEventListener("pointerdown", event => { over.setPointerCapture(event.pointerId); choose(event); });
    over.addEventListener("pointermove", choose);
    panel.mark = document.createElement("div");
    panel.mark.className = "now";
    over.append(panel.mark);
  }

  now(time, frame) {
    this.at = [time, frame];
    for (const panel of this.panels.values()) {
      if (!panel.uplot) continue;
      const left = panel.uplot.valToPos(time, "x");
      panel.mark.style.left = `${left}px`;
      panel.mark.hidden = !(left >= 0 && left <= panel.uplot.over.clientWidth);
      panel.numbers.forEach((n, i) => {
        const value = frame.values?.[n];
        panel.values[i].textContent = value === undefined || Number.isNaN(value) ? "" : short(value);
      });
    }
  }

  width() { return Math.max(120, this.place.clientWidth); }

  resize() {
    for (const {uplot} of this.panels.values()) uplot?.setSize({width: this.width(), height: 110});
    if (this.at) this.now(...this.at);
  }

  theme() {
    for (const panel of this.panels.values()) { panel.uplot?.destroy(); panel.box?.remove(); panel.uplot = null; }
    if (this.frames.length) this.data(this.frames);
  }
}
