// Attention: all heads at a glance, one of them drawn over the text.

import { post } from "../api.js";
import { debounce, field, fill, h, roving, segmented, select, setVars } from "../dom.js";
import { decimal, t } from "../i18n.js";
import { able, modelField, named, emptyCard } from "../models.js";
import { overText } from "../overtext.js";
import { status } from "../status.js";
import { drawSquare, readWeights } from "../weights.js";

const MEASURES = ["entropy", "distance", "previous", "next", "self", "first", "separator"];
const PICTURE = 64; // pixels
const AT_ONCE = 12; // pictures drawn before the page gets its turn

export function mount(root, { info, params, save, announce }) {
  const models = able(info);
  if (!models.length) return void fill(root, emptyCard(t("attention.none")));
  const chosen = {
    model: named(models, params.get("model")),
    measure: params.get("show") ?? "picture",
    head: params.get("head") ?? "0.0",
    token: params.get("token") ?? "",
    way: params.get("way") ?? "from",
  };
  const text = h("textarea", {
    rows: 2,
    maxlength: 5000,
    spellcheck: false,
    value: params.get("text") ?? t("attention.example"),
  });
  const work = status("attention.busy");
  const results = h("div");
  let closeView = () => {};

  const keep = () =>
    save({ ...chosen, show: chosen.measure, measure: null, model: chosen.model.name, text: text.value });

  async function ask() {
    keep();
    if (!text.value.trim()) {
      work.stop();
      return void fill(results, h("p", { class: "soft" }, t("attention.empty")));
    }
    const body = { model: chosen.model.name, inputs: text.value };
    const answer = await work.run((signal) => post("/attention", body, signal));
    if (!answer) return;
    closeView();
    const view = attentionView(text.value, answer, chosen, keep, announce);
    closeView = view.close;
    fill(results, view.box);
    view.draw();
  }

  const soon = debounce(ask, 500);
  text.addEventListener("input", () => {
    chosen.token = "";
    soon();
  });
  fill(
    root,
    h(
      "div",
      { class: "card" },
      h(
        "div",
        { class: "fields" },
        field(t("attention.text"), text),
        modelField(models, chosen.model, (model) => {
          Object.assign(chosen, { model, head: "0.0", token: "" });
          ask();
        }),
      ),
    ),
    work.line,
    results,
  );
  ask();
  return () => {
    soon.cancel();
    work.stop();
    closeView();
  };
}

function attentionView(text, answer, chosen, keep, announce) {
  const weights = readWeights(answer);
  const detail = overText(text, answer.tokens, (token) => {
    chosen.token = token;
    keep();
  });
  const title = h("h2");
  const grid = headGrid(answer, weights, pick);
  const rollout = h(
    "button",
    { type: "button", class: "quiet", onclick: () => pick("rollout") },
    t("attention.rollout"),
  );

  function pick(head) {
    chosen.head = head;
    keep();
    show();
    announce(title.textContent);
  }

  function show() {
    const [layer, head] = chosen.head.split(".").map(Number);
    const known = layer < answer.layers && head < answer.heads;
    const together = chosen.head === "rollout";
    if (!known && !together) chosen.head = "0.0";
    title.textContent = together
      ? t("attention.rollout")
      : t("attention.head", { layer: (known ? layer : 0) + 1, head: (known ? head : 0) + 1 });
    const values = together
      ? Float32Array.from(answer.rollout.flat())
      : weights(known ? layer : 0, known ? head : 0);
    rollout.setAttribute("aria-pressed", String(together));
    grid.mark(chosen.head);
    detail.show(values, chosen.way, chosen.token);
    fill(facts, together ? t("attention.rollout.note") : factLine(answer.summary[layer][head]));
  }

  const facts = h("p", { class: "small soft" });
  const ways = ["from", "to"].map((way) => [way, t(`attention.way.${way}`)]);
  const measures = ["picture", ...MEASURES].map((measure) => [measure, t(`attention.show.${measure}`)]);
  const box = h(
    "div",
    { class: "split attention" },
    h(
      "section",
      { class: "card" },
      h("h2", {}, t("attention.glance")),
      field(
        t("attention.show"),
        select(measures, chosen.measure, (measure) => {
          chosen.measure = measure;
          keep();
          grid.draw(measure);
        }),
      ),
      grid.box,
      h("p", { class: "small soft" }, t("attention.glance.hint")),
      rollout,
    ),
    h(
      "section",
      { class: "card" },
      title,
      facts,
      segmented(t("attention.way"), ways, chosen.way, (way) => {
        chosen.way = way;
        keep();
        show();
      }),
      detail.box,
      h("p", { class: "small soft" }, t("attention.hint")),
    ),
  );
  const draw = () => {
    grid.draw(chosen.measure);
    show();
  };
  return {
    box,
    draw,
    close: () => {
      grid.close();
      detail.close();
    },
  };
}

const factLine = (summary) =>
  ["entropy", "distance"]
    .map((name) => `${t(`attention.show.${name}`)}: ${decimal(summary[name])}`)
    .join(" · ");

/** Layers × heads as small pictures, or coloured by a measure. */
function headGrid({ layers, heads, tokens, summary }, weights, pick) {
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
    h("span", { class: "column-name" }, String(head + 1)),
  );
  const box = h(
    "div",
    { class: "heads", role: "group", "aria-label": t("attention.glance"), vars: { "--heads": heads } },
    h("span", {}),
    names.map((name) => {
      name.setAttribute("aria-hidden", "true");
      return name;
    }),
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

  const mark = (name) =>
    cells.forEach((cell, index) =>
      cell.setAttribute("aria-pressed", String(name === `${Math.floor(index / heads)}.${index % heads}`)),
    );
  return { box, draw, mark, close: () => cancelAnimationFrame(turn) };
}
