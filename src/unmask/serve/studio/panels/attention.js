// Attention: all heads at a glance, one of them drawn over the text.

import { post } from "../api.js";
import { area, debounce, div, field, fill, h, note, segmented, select } from "../dom.js";
import { headGrid, MEASURES } from "../heads.js";
import { decimal, example, t } from "../i18n.js";
import { emptyCard, inspectable, modelField, named } from "../models.js";
import { overText } from "../overtext.js";
import { status } from "../status.js";
import { readWeights } from "../weights.js";

const ROLLOUT = "rollout";
const SHOWN = ["picture", ...MEASURES];
const WAYS = ["from", "to"];

export function mount(root, { info, params, save, announce }) {
  const models = inspectable(info);
  if (!models.length) return void fill(root, emptyCard(t("attention.none")));
  const chosen = {
    model: named(models, params.get("model")),
    measure: known(SHOWN, params.get("show")),
    head: params.get("head") ?? "0.0",
    token: params.get("token") ?? "",
    way: known(WAYS, params.get("way")),
  };
  const text = area(params.get("text") ?? example("attention.example", chosen.model), 2, 5000);
  const results = h("div");
  const work = status("attention.busy", results);
  let closeView = () => {};

  const keep = () =>
    save({ ...chosen, show: chosen.measure, measure: null, model: chosen.model.name, text: text.value });

  async function ask() {
    keep();
    if (!text.value.trim()) {
      work.stop();
      return void fill(results, note(t("attention.empty")));
    }
    const asked = text.value; // what is typed meanwhile is another text
    const body = { model: chosen.model.name, inputs: asked };
    const answer = await work.run((signal) => post("/attention", body, signal));
    if (!answer) return;
    closeView();
    const view = attentionView(asked, answer, chosen, keep, announce);
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
    div(
      "card",
      div(
        "fields",
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
    { type: "button", class: "quiet", onclick: () => pick(ROLLOUT) },
    t("attention.rollout"),
  );

  function pick(head) {
    chosen.head = head;
    keep();
    show();
    announce(title.textContent);
  }

  function show() {
    const place = headPlace(chosen.head, answer);
    title.textContent = place
      ? t("attention.head", { layer: place.layer + 1, head: place.head + 1 })
      : t("attention.rollout");
    rollout.setAttribute("aria-pressed", String(!place));
    grid.mark(place);
    const values = place ? weights(place.layer, place.head) : Float32Array.from(answer.rollout.flat());
    detail.show(values, chosen.way, chosen.token);
    fill(facts, place ? factLine(answer.summary[place.layer][place.head]) : t("attention.rollout.note"));
  }

  const facts = h("p", { class: "small soft" });
  const ways = WAYS.map((way) => [way, t(`attention.way.${way}`)]);
  const measures = SHOWN.map((measure) => [measure, t(`attention.show.${measure}`)]);
  const box = div(
    "split attention",
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

/** The head that "layer.head" names, the first one if there is no such head; null for all together. */
function headPlace(name, { layers, heads }) {
  if (name === ROLLOUT) return null;
  const [layer, head] = name.split(".").map(Number);
  return layer >= 0 && layer < layers && head >= 0 && head < heads ? { layer, head } : { layer: 0, head: 0 };
}

/** A value from the address if it is one of those we know, else the first of them. */
const known = (values, given) => (values.includes(given) ? given : values[0]);

const factLine = (summary) =>
  ["entropy", "distance"]
    .map((name) => `${t(`attention.show.${name}`)}: ${decimal(summary[name])}`)
    .join(" · ");
