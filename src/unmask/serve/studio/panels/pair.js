// Two sentences side by side, and how alike each pair of words is.

import { post } from "../api.js";
import { area, debounce, div, field, fill, h, note, roving } from "../dom.js";
import { decimal, example, t } from "../i18n.js";
import { modelAndLayer, named } from "../models.js";
import { status } from "../status.js";
import { slicer } from "../words.js";

export function mountPair(root, { models, params, save, announce }) {
  const { list, layers, state, asked } = modelAndLayer(models, params, ask);
  const model = named(models, params.get("model"));
  const box = (name) => area(params.get(name) ?? example(`pair.${name}.example`, model), 2, 5000);
  const [a, b] = [box("a"), box("b")];
  const results = h("div");
  const work = status("pair.busy", results);

  async function ask() {
    save({ ...state(), a: a.value, b: b.value });
    const inputs = [a.value.trim(), b.value.trim()];
    if (!inputs[0] || !inputs[1]) {
      work.stop();
      return void fill(results, note(t("pair.empty")));
    }
    const body = { ...asked(), inputs };
    const answer = await work.run((signal) => post("/words", body, signal));
    if (!answer) return;
    fill(results, view(inputs, answer));
    announce(t("pair.sentence", { value: decimal(answer.sentence) }));
  }

  const soon = debounce(ask, 500);
  a.addEventListener("input", soon);
  b.addEventListener("input", soon);
  fill(
    root,
    div(
      "card stack",
      div("halves", field(t("pair.a"), a), field(t("pair.b"), b)),
      div("pair-of-fields", list, layers),
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

function view(inputs, { words, similarity, sentence }) {
  const cells = similarity.flat(); // too many to be arguments of Math.min
  const lowest = cells.reduce((a, b) => Math.min(a, b), 0);
  const highest = cells.reduce((a, b) => Math.max(a, b), lowest + 1e-9);
  const strength = (value) => Math.max(0, (value - lowest) / (highest - lowest)) ** 2;
  const column = (index) => similarity.map((row) => row[index]);
  const sides = [0, 1].map((side) => wordRow(inputs[side], words[side], (index) => point(side, index)));
  const open = cells.length <= 400;
  const table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("pair.table") });
  const drawTable = () => table.firstChild ?? fill(table, matrix(words, similarity, strength));
  if (open) drawTable();

  function point(side, index) {
    const values = side === 0 ? similarity[index] : column(index);
    sides[side].buttons.forEach((button, other) =>
      button.setAttribute("aria-pressed", String(other === index)),
    );
    sides[side].paint(null);
    sides[1 - side].buttons.forEach((button) => button.setAttribute("aria-pressed", "false"));
    sides[1 - side].paint(values, strength);
    if (!values.length) return; // the other text has no words
    const best = values.indexOf(Math.max(...values));
    fill(
      said,
      t("pair.nearest", {
        word: words[side][index].text,
        other: words[1 - side][best].text,
        value: decimal(values[best]),
      }),
    );
  }

  const said = h("p", { class: "said", role: "status" }, t("pair.hint"));
  return div(
    "stack",
    div(
      "card",
      h("p", { class: "headline" }, h("span", { class: "big" }, decimal(sentence)), ` ${t("pair.whole")}`),
      div(
        "halves",
        sides.map(({ box }) => box),
      ),
      said,
    ),
    h(
      "details",
      { class: "card", open, ontoggle: drawTable },
      h("summary", {}, t("pair.table")),
      table,
    ),
  );
}

function wordRow(text, words, point) {
  const slice = slicer(text);
  const buttons = words.map((word, index) =>
    h(
      "button",
      {
        type: "button",
        class: "word",
        "aria-pressed": "false",
        onmouseenter: () => point(index),
        onfocus: () => point(index),
        onclick: () => point(index),
      },
      h("span", {}, word.text),
    ),
  );
  let last = 0;
  const parts = words.flatMap((word, index) => {
    const gap = slice(last, word.start);
    last = word.end;
    return [gap, buttons[index]];
  });
  const box = h("div", { class: "sentence smaller", role: "group", "aria-label": text }, parts, slice(last));
  roving(box);
  const paint = (values, strength) =>
    buttons.forEach((button, index) => {
      button.style.setProperty("--for", values ? strength(values[index]) : 0);
      button.title = values ? decimal(values[index]) : "";
    });
  return { box, buttons, paint };
}

function matrix([rows, columns], similarity, strength) {
  const head = h(
    "tr",
    {},
    h("td"),
    columns.map(({ text }) => h("th", { scope: "col" }, text)),
  );
  const cell = (value) => h("td", { class: "heat", vars: { "--for": strength(value) } }, decimal(value));
  const body = rows.map(({ text }, index) =>
    h("tr", {}, h("th", { scope: "row" }, text), similarity[index].map(cell)),
  );
  return h("table", { class: "matrix" }, h("thead", {}, head), h("tbody", {}, body));
}
