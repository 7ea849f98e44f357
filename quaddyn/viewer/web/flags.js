"use strict";
// Flags after # in the address of the page, such as #t=1.5&theme=dark, and the link that opens the present view again.

// Returns the values of each flag by its name.  Flags are separated by "&" or ";", also where another program has
// turned "&" into "&amp;"; their values are separated by commas, and percent-encoded.
function readFlags() {
  const decode = text => { try { return decodeURIComponent(text); } catch { return text; } };
  const parts = location.hash.slice(1).replaceAll("&amp;", "&").split(/[&;]/).map(part => part.split("="));
  return new Map(parts.map(([name, value]) => [name, value === undefined ? [] : value.split(",").map(decode)]));
}

// Returns the address that shows the present view; that of a live page permits no control.
function makeLink(stage, viewPath) {
  const hidden = [...stage.kinds].filter(([, layer]) => !layer.isVisible).map(([kind]) => kind);
  const flags = {
    t: viewPath === null && stage.player.end > 0 ? [stage.player.time.toFixed(3)] : [],
    theme: [stage.panel.theme], camera: stage.cameraOffsets().map(x => x.toFixed(4)), hide: hidden,
    show: [...stage.inspector.options], select: stage.inspector.selected ? [stage.inspector.selected.name] : []};
  const given = Object.entries(flags).filter(([, values]) => values.length);
  const address = new URL(viewPath ?? location.href, location.href);
  address.hash = given.map(([name, values]) => `${name}=${values.map(encodeURIComponent).join(",")}`).join("&");
  return address.href;
}
