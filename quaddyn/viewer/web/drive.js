"use strict";
// What a live page tells the viewer: keys that are held down, a gamepad's sticks, pause, steps and sliders.

const KEYS = ["KeyW", "KeyA", "KeyS", "KeyD", "KeyQ", "KeyE", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight",
  "ShiftLeft"];
const BEAT = 200;  // whoever says nothing for a second holds nothing [ms]
const DEAD = 0.12;  // sticks rest within this

class Drive {
  constructor() {
    Object.assign(this, {held: new Set(), paused: false, axes: [0, 0, 0], socket: null});
    addEventListener("keydown", event => {
      if (!KEYS.includes(event.code) || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.target instanceof HTMLInputElement) return;  // a slider
      event.preventDefault();
      if (!this.held.has(event.code)) { this.held.add(event.code); this.tell(); }
    });
    addEventListener("keyup", event => { if (this.held.delete(event.code)) this.tell(); });
    addEventListener("blur", () => this.release());  // keys are released when the page loses the focus
    document.addEventListener("visibilitychange", () => this.release());
    setInterval(() => { if (!document.hidden) this.tell(); }, BEAT);
    setInterval(() => this.poll(), 50);
  }

  release() {
    this.held.clear();
    this.axes = [0, 0, 0];
    this.tell();
  }

  poll() {  // left stick: along and sideways; right stick: turn
    const pad = document.hidden ? null : Array.from(navigator.getGamepads?.() ?? []).find(p => p?.connected);
    const stick = i => { const x = pad?.axes[i] ?? 0; return Math.abs(x) < DEAD ? 0 : Math.max(-1, Math.min(1, x)); };
    const axes = [-stick(1), -stick(0), -stick(2)].map(x => x + 0);
    if (axes.some((x, i) => Math.abs(x - this.axes[i]) > 0.01)) { this.axes = axes; this.tell(); }
  }

  tell(more = {}) {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    this.socket.send(JSON.stringify({keys: [...this.held], axes: this.axes, paused: this.paused, ...more}));
  }

  pause(paused) { if (paused !== this.paused) { this.paused = paused; this.tell(); } }
  step() { this.tell({step: 1}); }
  slide(name, value) { this.tell({slide: [name, value]}); }
}
