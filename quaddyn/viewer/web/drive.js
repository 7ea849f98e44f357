"use strict";
// Input of a live page that is sent to the viewer: pressed keys, gamepad axes, pulls, pause, steps and sliders.

const KEYS = ["KeyW", "KeyA", "KeyS", "KeyD", "KeyQ", "KeyE", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight",
  "ShiftLeft"];
const SEND_PERIOD = 200;  // [ms]; the viewer releases the keys of a page that sends nothing for a second
const DEAD_ZONE = 0.12;  // smaller values of a gamepad axis are zero

class Drive {
  constructor(mayControl) {  // the server ignores the input of a page without the token
    Object.assign(this, {mayControl, pressedKeys: new Set(), paused: false, axes: [0, 0, 0], pulled: null});
    this.socket = null;
    addEventListener("keydown", event => {
      if (!KEYS.includes(event.code) || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.target instanceof HTMLInputElement) return;  // a slider
      event.preventDefault();
      if (!this.pressedKeys.has(event.code)) { this.pressedKeys.add(event.code); this.send(); }
    });
    addEventListener("keyup", event => { if (this.pressedKeys.delete(event.code)) this.send(); });
    addEventListener("blur", () => this.release());  // keys are released when the page loses the focus
    document.addEventListener("visibilitychange", () => this.release());
    setInterval(() => { if (!document.hidden) this.send(); }, SEND_PERIOD);
    setInterval(() => this.poll(), 50);
  }

  release() {
    this.pressedKeys.clear();
    this.axes = [0, 0, 0];
    this.pulled = null;
    this.send();
  }

  poll() {  // left stick: forward and leftward; right stick: turn
    const pad = document.hidden ? null : Array.from(navigator.getGamepads?.() ?? []).find(p => p?.connected);
    const stick = i => { const x = pad?.axes[i] ?? 0; return Math.abs(x) < DEAD_ZONE ? 0 : Math.max(-1, Math.min(1, x)); };
    const axes = [-stick(1), -stick(0), -stick(2)].map(x => x + 0);
    if (axes.some((x, i) => Math.abs(x - this.axes[i]) > 0.01)) { this.axes = axes; this.send(); }
  }

  send(fields = {}) {
    if (!this.mayControl || this.socket?.readyState !== WebSocket.OPEN) return;
    const {axes, paused, pulled} = this, pull = pulled ? {pull: pulled} : {};
    this.socket.send(JSON.stringify({keys: [...this.pressedKeys], axes, paused, ...pull, ...fields}));
  }

  pause(paused) { if (paused !== this.paused) { this.paused = paused; this.send(); } }
  step() { this.send({step: 1}); }
  pull(pulled) { this.pulled = pulled; this.send(); }
  slide(name, value) { this.send({slide: [name, value]}); }
}
