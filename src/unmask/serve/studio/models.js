// Which loaded models can do a thing, and choosing among them.

import { div, field, fill, h, select } from "./dom.js";
import { number, t } from "./i18n.js";

/** Models that can do one of the tasks. */
export const able = (info, ...tasks) =>
  info.models.filter((model) => tasks.some((task) => model.tasks.includes(task)));

/** Models with a network to look into; a graph shows only what comes out of it. */
export const inspectable = (info) => info.models.filter((model) => !model.onnx);

/** The model of that name among `models`, else the first. */
export const named = (models, name) => models.find((model) => model.name === name) ?? models[0];

/** A choice of model; of a single one, its name. */
export function modelField(models, chosen, change, label = t("model.label")) {
  if (models.length === 1) {
    return h(
      "p",
      { class: "model-name" },
      h("span", { class: "soft" }, `${label} `),
      h("strong", {}, models[0].name),
      h("br"),
      h("small", { class: "soft" }, facts(models[0])),
    );
  }
  const hint = h("small", { class: "soft" }, facts(chosen));
  const list = select(
    models.map(({ name }) => [name, name]),
    chosen.name,
    (name) => {
      const model = named(models, name);
      hint.textContent = facts(model);
      change(model);
    },
  );
  return h("div", {}, field(label, list), hint);
}

/** A model's size in a line. */
function facts({ family, layers, heads, width, vocab_size: vocabulary, standardised }) {
  const sizes = { family, layers, heads, width, vocabulary: number(vocabulary, 5) };
  return t("model.facts", sizes) + (standardised.length ? t("model.standardised") : "");
}

/** What to say where a panel has nothing to show. */
export function emptyCard(words) {
  return div("card empty", h("p", {}, words));
}

/** A choice of model and of its layer, which begins anew with another model; `asked` is what requests say. */
export function modelAndLayer(models, params, changed) {
  let model = named(models, params.get("model"));
  let layer = layersOf(model).includes(params.get("layer")) ? params.get("layer") : "";
  const layers = h("div");
  const showLayers = () =>
    fill(
      layers,
      layerField(model, layer, (chosen) => {
        layer = chosen;
        changed();
      }),
    );
  const list = modelField(models, model, (chosen) => {
    model = chosen;
    layer = "";
    showLayers();
    changed();
  });
  showLayers();
  return {
    list,
    layers,
    state: () => ({ model: model.name, layer }),
    asked: () => ({ model: model.name, layer: layer === "" ? null : Number(layer) }),
  };
}

/** The layers that have vectors to compare, where there is a choice. */
const layersOf = (model) =>
  model.onnx ? [] : Array.from({ length: model.layers + 1 }, (_, layer) => String(layer));

/** A choice of the layer whose vectors are compared; "" leaves it to the server. Graphs have the last alone. */
function layerField(model, chosen, change) {
  const numbers = layersOf(model);
  if (!numbers.length) return null;
  const names = numbers.map((layer) => [
    layer,
    layer === "0" ? t("meaning.layer.input") : t("meaning.layer.number", { layer }),
  ]);
  return field(t("meaning.layer"), select([["", t("meaning.layer.auto")], ...names], chosen, change));
}
