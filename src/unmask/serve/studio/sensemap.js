// The uses of a word: a map of them, coloured by sense, and a list for each sense.

import { div, h, s } from "./dom.js";
import { decimal, t } from "./i18n.js";
import { slicer } from "./words.js";

const SIZE = 400;
const MARGIN = 26;
const COLOURS = 6;
const SHAPES = [
  // told apart without colour too
  "M0-7a7 7 0 1 0 .01 0z",
  "M-6.5-6.5h13v13h-13z",
  "M0-8.5L8 6H-8z",
  "M0-9l9 9-9 9-9-9z",
  "M0 8.5L8-6H-8z",
  "M-2.6-8h5.2v5.4H8v5.2H2.6V8h-5.2V2.6H-8v-5.2h5.4z",
];

/** Map and lists; pointing at a use shows those nearest to it. */
export function senseMap({ uses, senses, silhouette }) {
  const places = scale(uses);
  const points = uses.map((use, index) =>
    s(
      "g",
      { class: `use sense-${use.sense % COLOURS}`, transform: `translate(${places[index]})` },
      s("title", {}, use.text),
      s("path", { d: SHAPES[use.sense % COLOURS] }),
    ),
  );
  const lines = s("g", { class: "near-lines" });
  const items = uses.map((use, index) => useItem(use, () => point(index)));
  points.forEach((node, index) => {
    node.addEventListener("mouseenter", () => point(index));
    node.addEventListener("click", () => items[index].firstChild.focus());
  });

  function point(index) {
    const near = uses[index].nearest.slice(0, 3);
    points.forEach((node, other) => {
      node.classList.toggle("pointed", other === index);
      node.classList.toggle("faded", other !== index && !near.includes(other));
      items[other].classList.toggle("pointed", other === index);
      items[other].classList.toggle("near", near.includes(other));
    });
    lines.replaceChildren(...near.map((other) => s("path", { d: `M${places[index]}L${places[other]}` })));
  }

  const map = s(
    "svg",
    {
      viewBox: `0 0 ${SIZE} ${SIZE}`,
      class: "map",
      role: "img",
      "aria-label": t("senses.map", { uses: uses.length, senses: senses.length }),
    },
    lines,
    points,
  );
  return div(
    "split",
    h(
      "figure",
      { class: "card" },
      map,
      h(
        "figcaption",
        { class: "small soft" },
        t("senses.caption"),
        silhouette !== null && ` ${t("senses.silhouette", { value: decimal(silhouette) })}`,
      ),
    ),
    div(
      "stack",
      senses.map((sense, number) =>
        senseList(
          sense,
          number,
          items.filter((_, index) => uses[index].sense === number),
        ),
      ),
    ),
  );
}

function senseList(sense, number, items) {
  const mark = s(
    "svg",
    { viewBox: "-10 -10 20 20", class: `key sense-${number % COLOURS}`, "aria-hidden": "true" },
    s("path", { d: SHAPES[number % COLOURS] }),
  );
  const name = sense.name.length
    ? sense.name.slice(0, 5).join(", ")
    : t("senses.nameless", { number: number + 1 });
  return h(
    "section",
    { class: "card sense" },
    h(
      "h2",
      { class: "minor" },
      mark,
      name,
      " ",
      h("small", { class: "soft" }, t("senses.uses", { count: sense.size })),
    ),
    h("ul", { class: "uses" }, items),
  );
}

function useItem(use, point) {
  const slice = slicer(use.text);
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: "plain", onmouseenter: point, onfocus: point },
      slice(0, use.start),
      h("mark", {}, slice(use.start, use.end)),
      slice(use.end),
    ),
  );
}

/** Places in the picture, the same unit in both directions. */
function scale(uses) {
  const xs = uses.map(({ x }) => x);
  const ys = uses.map(({ y }) => y);
  const [left, low] = [Math.min(...xs), Math.min(...ys)];
  const span = Math.max(Math.max(...xs) - left, Math.max(...ys) - low) || 1;
  const room = SIZE - 2 * MARGIN;
  const middle = (values, lowest) => (span - (Math.max(...values) - lowest)) / 2;
  const [dx, dy] = [middle(xs, left), middle(ys, low)];
  return uses.map(
    ({ x, y }) =>
      `${(MARGIN + ((x - left + dx) / span) * room).toFixed(1)} ${(SIZE - MARGIN - ((y - low + dy) / span) * room).toFixed(1)}`,
  );
}
