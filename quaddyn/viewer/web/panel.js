"use strict";
// The controls beside the scene: legend, scale of forces, theme, display options and sliders.

const NAMES = new Map(Object.entries({
  Robot: "robot", Ghost: "reference", Terrain: "terrain", Force: "force", Moment: "moment", Velocity: "velocity, measured",
  Desired: "velocity, desired", Cone: "friction cone", Contact: "contact", Support: "support", Com: "center of mass",
  Trail: "trail", Point: "target", Curve: "path", Frames: "frames",
  Foothold: "foothold", Candidate: "candidate foothold", Normal: "normal of the ground"}));
const element = id => document.getElementById(id);

// Returns a button that is pressed or not, and calls a function with its new state.
function createToggle(label, isPressed, onChange) {
  const button = document.createElement("button");
  button.append(label);
  button.setAttribute("aria-pressed", isPressed);
  button.onclick = () => {
    isPressed = !isPressed;
    button.setAttribute("aria-pressed", isPressed);
    onChange(isPressed);
  };
  return button;
}

class Panel {
  constructor(stage, plots, onSlide) {
    Object.assign(this, {stage, plots, onSlide, entries: new Map()});
    const requested = readFlags().get("theme")?.[0];
    const system = matchMedia("(prefers-color-scheme: dark)");
    this.setTheme(requested === "dark" || requested === "light" ? requested : system.matches ? "dark" : "light");
    system.addEventListener("change", () => this.setTheme(system.matches ? "dark" : "light"));
    element("theme").onclick = () => this.setTheme(this.theme === "dark" ? "light" : "dark");
    element("home").onclick = () => stage.reset();
    element("panels").onclick = () => this.setOpen(element("side").hidden);
    element("legend-toggle").onclick = () => element("legend").classList.toggle("open");
    element("text").onclick = () => element("text").classList.toggle("open");
    for (const [name, label] of Object.entries(OPTIONS)) {
      const {inspector} = stage;
      const button = createToggle(label, inspector.options.has(name), isOn => inspector.setOption(name, isOn));
      button.dataset.option = name;
      element("options").append(button);
    }
    element("pull").onclick = () => {
      stage.inspector.pullsByDefault = !stage.inspector.pullsByDefault;
      element("pull").setAttribute("aria-pressed", stage.inspector.pullsByDefault);
    };
    setInterval(() => this.updateLegend(), 250);
    stage.viewer.controls.addEventListener("change", () => this.updateScale());
  }

  setTheme(name) {
    this.theme = document.documentElement.dataset.theme = name;
    element("theme").textContent = name === "dark" ? "Light" : "Dark";
    this.stage.setTheme(name);
    this.plots.recreate();
  }

  setOpen(open) {
    element("side").hidden = !open;
    this.wasOpened = true;
    element("panels").setAttribute("aria-pressed", open);
    this.stage.fit();
    if (open && this.plots.frames.length) this.plots.setFrames(this.plots.frames);
  }

  openOnce() {  // opens the side panel when it first has content; the user may have closed it since
    if (!this.wasOpened && !document.body.classList.contains("bare")) this.setOpen(true);
  }

  updateLegend() {
    for (const [kind, layer] of this.stage.kinds) {
      if (!layer.isUsed || this.entries.has(kind)) continue;
      const chip = document.createElement("i"), label = NAMES.get(kind) ?? kind;
      const button = createToggle(label, layer.isVisible, isVisible => this.stage.setVisible(kind, isVisible));
      button.prepend(chip);
      button.title = "Show or hide";
      chip.style.background = layer.color ?? "grey";
      this.entries.set(kind, button);
      element("layers").append(button);
    }
    this.updateScale();
  }

  updateScale() {
    const forces = this.stage.kinds.get("Force")?.isUsed && this.stage.newtons > 0;
    element("scale").style.display = forces ? "flex" : "none";
    if (!forces) return;
    const pixelsPerNewton = this.stage.pixelsPerMeter() / this.stage.newtons;
    let newtons = 10 ** Math.floor(Math.log10(110 / pixelsPerNewton));
    newtons *= 5 * newtons * pixelsPerNewton < 110 ? 5 : 2 * newtons * pixelsPerNewton < 110 ? 2 : 1;
    element("scale").firstElementChild.style.width = `${newtons * pixelsPerNewton}px`;
    element("scale").lastElementChild.textContent = `${Number(newtons.toPrecision(1))} N`;
  }

  setSliders(list) {
    const container = element("sliders");
    let group = null;
    container.replaceChildren();
    for (const s of list) {
      if (s.group !== group) {
        const head = document.createElement("h2");
        head.textContent = group = s.group;
        container.append(head);
      }
      const label = document.createElement("label"), name = document.createElement("span");
      const value = document.createElement("span"), input = document.createElement("input");
      Object.assign(input, {type: "range", min: s.low, max: s.high, step: (s.high - s.low) / 1000, value: s.value});
      name.textContent = name.title = s.name;
      const show = x => { value.textContent = `${Number(Number(x).toPrecision(3))} ${s.unit}`; };
      input.oninput = () => { show(input.value); this.onSlide(s.name, Number(input.value)); };
      input.ondblclick = () => { input.value = s.start; input.oninput(); };
      input.title = "Double click: back to the initial value";
      input.disabled = !this.onSlide;
      show(s.value);
      label.append(name, value, input);
      container.append(label);
    }
    if (list.length) this.openOnce();
  }
}
