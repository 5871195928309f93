// All heads of a model at a glance.

import { fill, h, roving, setVars } from "./dom.js";
import { decimal, t } from "./i18n.js";
import { drawSquare } from "./weights.js";

export const MEASURES = ["entropy", "distance", "previous", "next", "self", "first", "separator"];
const PICTURE = 64; // pixels
const AT_ONCE = 12; // pictures drawn before the page gets its turn

/** Layers × heads as small pictures, or coloured by a measure. */
export function headGrid({ layers, heads, tokens, summary }, weights, pick) {
  const cells = Array.from({ length: layers * heads }, (_, cell) => {
    const [layer, head] = [Math.floor(cell / heads), cell % heads];
    const label = t("attention.head", { layer: layer + 1, head: head + 1 });
    return h("button", {
      type: "button",
      class: "head",
      "aria-label": label,
      title: label,
      "aria-pressed": "false",
      onclick: () => pick(`${layer}.${head}`),
    });
  });
  const rows = Array.from({ length: layers }, (_, layer) => [
    h("span", { class: "row-name", "aria-hidden": "true" }, String(layer + 1)),
    cells.slice(layer * heads, (layer + 1) * heads),
  ]);
  const names = Array.from({ length: heads }, (_, head) =>
    h("span", { class: "column-name", "aria-hidden": "true" }, String(head + 1)),
  );
  const box = h(
    "div",
    { class: "heads", role: "group", "aria-label": t("attention.glance"), vars: { "--heads": heads } },
    h("span", {}),
    names,
    rows.flat(2),
  );
  roving(box, heads);
  let turn = 0;

  function draw(measure) {
    cancelAnimationFrame(turn);
    if (measure === "picture") return drawPictures(0);
    const values = summary.flat().map((head) => head[measure]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    cells.forEach((cell, index) => {
      setVars(cell, { "--for": (values[index] - low) / (high - low || 1) });
      fill(cell, h("span", { class: "value" }, decimal(values[index], values[index] >= 10 ? 0 : 1)));
    });
  }

  function drawPictures(first) {
    const colour = getComputedStyle(box).getPropertyValue("--ink-rgb").split(" ").map(Number);
    for (let cell = first; cell < Math.min(first + AT_ONCE, cells.length); cell++) {
      const canvas = h("canvas", { "aria-hidden": "true" });
      setVars(cells[cell], { "--for": 0 });
      drawSquare(canvas, weights(Math.floor(cell / heads), cell % heads), tokens.length, PICTURE, colour);
      fill(cells[cell], canvas);
    }
    if (first + AT_ONCE < cells.length) turn = requestAnimationFrame(() => drawPictures(first + AT_ONCE));
  }

  const mark = (place) =>
    cells.forEach((cell, index) =>
      cell.setAttribute("aria-pressed", String(place !== null && index === place.layer * heads + place.head)),
    );
  return { box, draw, mark, close: () => cancelAnimationFrame(turn) };
}
