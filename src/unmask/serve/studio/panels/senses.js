// A word in many sentences: a map of its uses, coloured by sense, and the uses in a list.

import { post } from "../api.js";
import { debounce, field, fill, h, s, select } from "../dom.js";
import { decimal, t } from "../i18n.js";
import { modelField, named } from "../models.js";
import { status } from "../status.js";
import { slicer } from "../words.js";
import { layerSelect } from "./meaning.js";

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

export function mountSenses(root, { models, params, save, announce }) {
  let model = named(models, params.get("model"));
  let layer = params.get("layer") ?? "";
  let count = params.get("senses") ?? "";
  const word = h("input", {
    value: params.get("word") ?? t("senses.word.example"),
    maxlength: 80,
    spellcheck: false,
  });
  const texts = h("textarea", {
    rows: 8,
    maxlength: 60000,
    spellcheck: false,
    value: params.get("texts") ?? t("senses.texts.example"),
  });
  const work = status("senses.busy");
  const results = h("div");
  const layers = h("div");

  async function ask() {
    save({ model: model.name, word: word.value, texts: texts.value, senses: count, layer });
    const inputs = texts.value
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
    if (!word.value.trim() || inputs.length < 2) {
      work.stop();
      return void fill(results, h("p", { class: "soft" }, t("senses.few")));
    }
    const body = {
      model: model.name,
      word: word.value.trim(),
      inputs,
      senses: count ? Number(count) : null,
      layer: layer === "" ? null : Number(layer),
    };
    const answer = await work.run((signal) => post("/senses", body, signal));
    if (!answer) return;
    fill(
      results,
      answer.uses.length ? view(answer) : h("p", { class: "soft" }, t("senses.absent", { word: word.value })),
    );
    announce(t("senses.said", { uses: answer.uses.length, senses: answer.senses.length }));
  }

  function showLayers() {
    fill(
      layers,
      field(
        t("meaning.layer"),
        layerSelect(model, layer, (chosen) => {
          layer = chosen;
          ask();
        }),
      ),
    );
  }

  const soon = debounce(ask, 600);
  word.addEventListener("input", soon);
  texts.addEventListener("input", soon);
  const counts = [["", t("senses.count.auto")], ...["1", "2", "3", "4", "5", "6"].map((one) => [one, one])];
  showLayers();
  fill(
    root,
    h(
      "div",
      { class: "card form-grid" },
      h(
        "div",
        { class: "stack" },
        field(t("senses.word"), word),
        modelField(models, model, (chosen) => {
          model = chosen;
          layer = "";
          showLayers();
          ask();
        }),
        h(
          "div",
          { class: "pair-of-fields" },
          field(
            t("senses.count"),
            select(counts, count, (chosen) => {
              count = chosen;
              ask();
            }),
          ),
          layers,
        ),
      ),
      field(t("senses.texts"), texts, t("senses.texts.hint")),
    ),
    work.line,
    results,
  );
  ask();
  return () => {
    soon.cancel();
    work.stop();
  };
}

function view({ uses, senses, silhouette }) {
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
  return h(
    "div",
    { class: "split" },
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
    h(
      "div",
      { class: "stack" },
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
