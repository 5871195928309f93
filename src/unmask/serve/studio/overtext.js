// Weights between the tokens of a text, drawn over the text itself as tints and arcs.

import { div, h, roving, s, setVars } from "./dom.js";
import { percent, t } from "./i18n.js";
import { slicer } from "./words.js";

const FAINT = 0.04; // weaker arcs are not drawn
const STRONG = 0.25; // without a chosen token, only stronger ones are

/** The text with its tokens as buttons; `show(values, way, token)` draws [tokens × tokens] weights. */
export function overText(text, tokens, choose) {
  const count = tokens.length;
  const slice = slicer(text);
  const arcs = s("svg", { class: "arcs", "aria-hidden": "true" });
  const buttons = tokens.map((token, index) =>
    h(
      "button",
      {
        type: "button",
        class: token.special ? "token special" : "token",
        "aria-pressed": "false",
        onmouseenter: () => draw(index),
        onfocus: () => draw(index),
        onclick: () => pin(index),
      },
      token.special ? token.text : slice(token.start, token.end) || "·",
    ),
  );
  const words = h(
    "div",
    {
      class: "token-line",
      role: "group",
      "aria-label": t("attention.tokens"),
      onmouseleave: () => draw(pinned),
    },
    withGaps(tokens, buttons, slice),
  );
  const box = div("over-text", arcs, words);
  const watch = new ResizeObserver(() => draw(last));
  let weight = () => 0;
  let pinned = null;
  let last = null;
  roving(words);
  watch.observe(box);

  function show(values, way, token) {
    weight = way === "from" ? (a, b) => values[a * count + b] : (a, b) => values[b * count + a];
    pinned = token !== "" && Number(token) < count ? Number(token) : null;
    draw(pinned);
  }

  function pin(index) {
    pinned = pinned === index ? null : index;
    choose(pinned ?? "");
    draw(index);
  }

  function draw(index) {
    last = index;
    const row = index === null ? null : buttons.map((_, other) => weight(index, other));
    const largest = Math.max(...(row ?? [1]), 1e-9);
    buttons.forEach((button, other) => {
      setVars(button, { "--for": row ? row[other] / largest : 0 });
      button.setAttribute("aria-pressed", String(other === pinned));
      button.classList.toggle("source", other === index);
      button.title = row ? percent(row[other]) : "";
    });
    arcs.replaceChildren(...(row ? rowArcs(index, row, largest) : strongArcs()));
  }

  const rowArcs = (index, row, largest) =>
    row.flatMap((value, other) =>
      other === index || value < FAINT * largest ? [] : [arc(index, other, value / largest)],
    );

  function strongArcs() {
    const found = [];
    for (let a = 0; a < count; a++) {
      for (let b = 0; b < count; b++) {
        if (a !== b && weight(a, b) >= STRONG && found.length < 400)
          found.push(arc(a, b, 0.6 * weight(a, b)));
      }
    }
    return found;
  }

  function arc(from, to, strength) {
    const frame = box.getBoundingClientRect();
    return arcPath(
      frame,
      buttons[from].getBoundingClientRect(),
      buttons[to].getBoundingClientRect(),
      strength,
    );
  }

  return { box, show, close: () => watch.disconnect() };
}

/** Buttons with what stands between them; pieces of a word stand together and are not torn apart. */
function withGaps(tokens, buttons, slice) {
  const parts = [];
  let end = 0;
  tokens.forEach((token, index) => {
    const gap = token.special ? " " : slice(end, token.start);
    if (gap || !parts.length) parts.push(gap, h("span", { class: "whole" }));
    parts.at(-1).append(buttons[index]);
    if (token.special) parts.push(" ", h("span", { class: "whole" }));
    end = Math.max(end, token.end);
  });
  return parts;
}

/** A curve from one button to another, thicker where the weight is larger. */
function arcPath(frame, from, to, strength) {
  const place = (edge) => [edge.left + edge.width / 2 - frame.left, edge.top - frame.top + 2];
  const [[x1, y1], [x2, y2]] = [place(from), place(to)];
  const rise = Math.min(34, 9 + Math.abs(x2 - x1) * 0.14);
  return s("path", {
    d: `M${x1} ${y1}C${x1} ${y1 - rise} ${x2} ${y2 - rise} ${x2} ${y2}`,
    "stroke-width": (0.8 + 2.6 * strength).toFixed(2),
    "stroke-opacity": (0.15 + 0.8 * strength).toFixed(2),
  });
}
