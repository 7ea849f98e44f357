"use strict";
// Everything around the scene: legend, scale of forces, theme, sliders.

const NAMES = new Map(Object.entries({
  Robot: "robot", Ghost: "reference", Terrain: "terrain", Force: "force", Moment: "moment", Velocity: "velocity, measured",
  Desired: "velocity, desired", Cone: "friction cone", Contact: "contact", Support: "support", Com: "center of mass",
  Trail: "trail", Point: "target", Curve: "path", Frames: "frames",
  Foothold: "foothold", Candidate: "candidate foothold", Normal: "normal of the ground"}));
const element = id => document.getElementById(id);

class Panel {
  constructor(stage, plots, onslide) {
    Object.assign(this, {stage, plots, onslide, entries: new Map(), slid: new Map()});
    const asked = new URLSearchParams(location.hash.slice(1)).get("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    this.theme(asked === "dark" || asked === "light" ? asked : system.matches ? "dark" : "light");
    system.addEventListener("change", () => this.theme(system.matches ? "dark" : "light"));
    element("theme").onclick = () => this.theme(this.name === "dark" ? "light" : "dark");
    element("home").onclick = () => stage.reset();
    element("panels").onclick = () => this.side(element("side").hidden);
    setInterval(() => this.legend(), 250);
    stage.viewer.controls.addEventListener("change", () => this.scale());
  }

  theme(name) {
    this.name = document.documentElement.dataset.theme = name;
    element("theme").textContent = name === "dark" ? "Light" : "Dark";
    this.stage.theme(name);
    this.plots.theme();
  }

  side(open) {
    element("side").hidden = !open;
    element("panels").hidden = false;
    element("panels").setAttribute("aria-pressed", open);
    this.stage.fit();
    if (open && this.plots.frames.length) this.plots.data(this.plots.frames);
  }

  offer() {  // the side panel has something to show: opened, unless somebody has closed it
    if (element("panels").hidden && !document.body.classList.contains("bare")) this.side(true);
  }

  legend() {
    for (const [kind, layer] of this.stage.kinds) {
      if (!layer.seen || this.entries.has(kind)) continue;
      const button = document.createElement("button"), chip = document.createElement("i");
      button.append(chip, NAMES.get(kind) ?? kind);
      button.title = "Show or hide";
      button.setAttribute("aria-pressed", true);
      chip.style.background = layer.color ?? "grey";
      button.onclick = () => {
        this.stage.show(kind, !layer.shown);
        button.setAttribute("aria-pressed", layer.shown);
      };
      this.entries.set(kind, button);
      element("layers").append(button);
    }
    this.scale();
  }

  scale() {
    const forces = this.stage.kinds.get("Force")?.seen && this.stage.newtons > 0;
    element("scale").style.display = forces ? "flex" : "none";
    if (!forces) return;
    const pixels = this.stage.metre() / this.stage.newtons;  // a newton
    let newtons = 10 ** Math.floor(Math.log10(110 / pixels));
    newtons *= 5 * newtons * pixels < 110 ? 5 : 2 * newtons * pixels < 110 ? 2 : 1;
    element("scale").firstElementChild.style.width = `${newtons * pixels}px`;
    element("scale").lastElementChild.textContent = `${Number(newtons.toPrecision(1))} N`;
  }

  sliders(list) {
    const place = element("sliders");
    let group = null;
    place.replaceChildren();
    for (const s of list) {
      if (s.group !== group) {
        const head = document.createElement("h2");
        head.textContent = group = s.group;
        place.append(head);
      }
      const label = document.createElement("label"), name = document.createElement("span");
      const value = document.createElement("span"), input = document.createElement("input");
      Object.assign(input, {type: "range", min: s.low, max: s.high, step: (s.high - s.low) / 1000, value: s.value});
      name.textContent = name.title = s.name;
      const show = x => { value.textContent = `${Number(Number(x).toPrecision(3))} ${s.unit}`; };
      input.oninput = () => { show(input.value); this.onslide(s.name, Number(input.value)); };
      input.ondblclick = () => { input.value = s.start; input.oninput(); };
      input.title = "Double click: back to the start";
      input.disabled = !this.onslide;
      show(s.value);
      label.append(name, value, input);
      place.append(label);
    }
    if (list.length) this.offer();
  }
}
