"use strict";
// Plots beside the scene: one for each group of channels, over time; a click or a drag sets the time.

const LINES = ["#2f6fd6", "#d9541e", "#1a9c5b", "#9646b8", "#c29a00", "#12a0b5", "#d63384", "#7a6a58", "#5b7fa6", "#a3343a",
  "#4b9e1f", "#7d5fff"];
const REDRAW_PERIOD = 150;  // minimum time between two updates of the plots of a live page [ms]

function formatValue(x) {
  const size = Math.abs(x);
  return size >= 1e5 ? x.toExponential(2) : (x.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 3)).replace(/^-(0[.]?0*)$/, "$1");
}

// Returns texts of axis ticks that all differ: with as many digits as their distance needs.
function formatTicks(ticks, distance) {
  let digits = 0;
  const isWhole = x => Math.abs(x - Math.round(x)) < 1e-3 * x;
  while (digits < 7 && !isWhole(distance * 10 ** digits)) digits++;
  const largest = Math.max(...ticks.map(Math.abs));
  if (digits < 7 && largest < 1e5) return ticks.map(tick => tick.toFixed(digits));
  const significant = Math.ceil(Math.log10(largest / distance)) + 1;
  return ticks.map(tick => tick && tick.toExponential(Math.min(Math.max(significant, 1), 12))).map(String);
}

// Returns the range of an axis: that of the data with a margin; rounding errors of a constant do not fill it.
function computeRange(plot, low, high) {
  if (low === null || high === null) return [0, 1];
  const half = Math.max(0.55 * (high - low), 1e-3 * Math.max(Math.abs(low), Math.abs(high)), 1e-9);
  return [(low + high) / 2 - half, (low + high) / 2 + half];
}

class Plots {
  constructor(onPlot) {
    Object.assign(this, {channels: [], panels: new Map(), onSeek: () => {}, onPlot, frames: [], isScheduled: false});
    this.container = document.getElementById("plots");
    new ResizeObserver(() => this.resize()).observe(this.container);
  }

  add(channels) {
    for (const channel of channels) {
      const index = this.channels.push(channel) - 1;
      if (!this.panels.has(channel.panel)) {
        this.panels.set(channel.panel, {channelIndices: [], uplot: null, isFolded: channel.folded});
      }
      const panel = this.panels.get(channel.panel);
      panel.channelIndices.push(index);
      this.remove(panel);
    }
    this.onPlot();
    if (this.frames.length) this.setFrames(this.frames);
  }

  remove(panel) {
    panel.uplot?.destroy();
    panel.uplot = null;
    panel.box?.remove();
  }

  value(title, name, frame) {  // of the channel of this name in the first panel whose title begins with `title`
    const index = this.channels.findIndex(channel => channel.name === name && channel.panel.startsWith(title));
    const x = frame?.values?.[index];
    return Number.isNaN(x) ? undefined : x;
  }

  setFrames(frames) {
    this.frames = frames;
    if (document.getElementById("side").hidden) return;
    const times = Float64Array.from(frames, frame => frame.time);
    for (const [title, panel] of this.panels) {
      if (panel.isFolded && panel.box?.isConnected) continue;
      const columns = panel.channelIndices.map(
        n => Array.from(frames, ({values}) => values && n < values.length && !Number.isNaN(values[n]) ? values[n] : null));
      if (panel.uplot) panel.uplot.setData([times, ...columns]);
      else this.createPlot(title, panel, [times, ...columns]);
    }
    if (this.shown) this.showTime(...this.shown);
  }

  update(frames) {
    this.frames = frames;
    if (this.isScheduled) return;
    this.isScheduled = true;
    setTimeout(() => { this.isScheduled = false; this.setFrames(this.frames); }, REDRAW_PERIOD);
  }

  createPlot(title, panel, data) {
    const box = panel.box = document.createElement("div"), head = document.createElement("h2");
    const legend = document.createElement("div"), style = getComputedStyle(document.body);
    const axisColor = () => style.getPropertyValue("--soft"), gridColor = style.getPropertyValue("--line");
    box.className = "plot";
    legend.className = "legend";
    head.textContent = title;
    head.title = "Fold or unfold";
    head.onclick = () => {
      panel.isFolded = !panel.isFolded;
      this.remove(panel);
      this.setFrames(this.frames);
    };
    box.append(head);
    const after = [...this.panels.values()].slice([...this.panels.keys()].indexOf(title) + 1).find(p => p.box?.isConnected);
    this.container.insertBefore(box, after ? after.box : null);
    box.classList.toggle("folded", panel.isFolded);
    if (panel.isFolded) return;
    box.append(legend);
    let count = 0;
    panel.values = [];
    const series = panel.channelIndices.map(n => {
      const channel = this.channels[n], measured = channel.name.replace(/, (desired|wanted)$/, "");
      const desired = measured !== channel.name;
      const source = desired ? panel.channelIndices.find(m => this.channels[m].name === measured) : undefined;
      channel.stroke = source !== undefined && this.channels[source].stroke || LINES[count++ % LINES.length];
      const entry = document.createElement("span"), chip = document.createElement("i"), value = document.createElement("b");
      chip.style.background = channel.stroke;
      entry.append(chip, channel.name + " ", value);
      legend.append(entry);
      panel.values.push(value);
      return {label: channel.name, stroke: channel.stroke, width: 1.4, dash: desired ? [5, 4] : undefined,
        points: {show: false}};
    });
    const axis = {stroke: axisColor, grid: {stroke: gridColor, width: 1}, ticks: {show: false}, font: "10px system-ui"};
    panel.uplot = new uPlot({
      width: this.width(), height: 110, series: [{}, ...series], legend: {show: false}, padding: [5, 8, 0, 0],
      scales: {x: {time: false}, y: {range: computeRange}},
      axes: [{...axis, size: 20}, {...axis, values: (plot, ticks, i, space, distance) => formatTicks(ticks, distance),
        size: (plot, texts) => Math.max(36, 12 + 6 * Math.max(0, ...(texts ?? []).map(text => text.length)))}],
      cursor: {drag: {x: false, y: false}, sync: {key: "time"}, points: {show: false}, y: false}
    }, data, box);
    const over = panel.uplot.over, seek = event => {
      if (event.buttons !== 1) return;
      const left = event.clientX - over.getBoundingClientRect().left;
      const {min, max} = panel.uplot.scales.x;
      this.onSeek(Math.min(max, Math.max(min, panel.uplot.posToVal(left, "x"))));
    };
    over.addEventListener("pointerdown", event => { over.setPointerCapture(event.pointerId); seek(event); });
    over.addEventListener("pointermove", seek);
    panel.mark = document.createElement("div");
    panel.mark.className = "now";
    over.append(panel.mark);
  }

  showTime(time, frame) {
    this.shown = [time, frame];
    for (const panel of this.panels.values()) {
      if (!panel.uplot) continue;
      const left = panel.uplot.valToPos(time, "x");
      panel.mark.style.left = `${left}px`;
      panel.mark.hidden = !(left >= 0 && left <= panel.uplot.over.clientWidth);
      panel.channelIndices.forEach((n, i) => {
        const value = frame.values?.[n];
        panel.values[i].textContent = value === undefined || Number.isNaN(value) ? "" : formatValue(value);
      });
    }
  }

  width() { return Math.max(120, this.container.clientWidth); }

  resize() {
    for (const {uplot} of this.panels.values()) uplot?.setSize({width: this.width(), height: 110});
    if (this.shown) this.showTime(...this.shown);
  }

  recreate() {  // with the colors of the present theme
    for (const panel of this.panels.values()) this.remove(panel);
    if (this.frames.length) this.setFrames(this.frames);
  }
}
