// A word in many sentences: a map of its uses, coloured by sense, and the uses in a list.

import { post } from "../api.js";
import { area, debounce, div, field, fill, h, note, select } from "../dom.js";
import { t } from "../i18n.js";
import { layerField, modelField, named } from "../models.js";
import { senseMap } from "../sensemap.js";
import { status } from "../status.js";

export function mountSenses(root, { models, params, save, announce }) {
  let model = named(models, params.get("model"));
  let layer = model.onnx ? "" : (params.get("layer") ?? "");
  let count = params.get("senses") ?? "";
  const word = h("input", {
    value: params.get("word") ?? t("senses.word.example"),
    maxlength: 80,
    spellcheck: false,
  });
  const texts = area(params.get("texts") ?? t("senses.texts.example"), 8, 60000);
  const results = h("div");
  const work = status("senses.busy", results);
  const layers = h("div");

  async function ask() {
    save({ model: model.name, word: word.value, texts: texts.value, senses: count, layer });
    const inputs = lines(texts.value);
    if (!word.value.trim() || inputs.length < 2) {
      work.stop();
      return void fill(results, note(t("senses.few")));
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
    fill(results, senseMap(answer));
    announce(t("senses.said", { uses: answer.uses.length, senses: answer.senses.length }));
  }

  function showLayers() {
    fill(
      layers,
      layerField(model, layer, (chosen) => {
        layer = chosen;
        ask();
      }),
    );
  }

  const soon = debounce(ask, 600);
  word.addEventListener("input", soon);
  texts.addEventListener("input", soon);
  const counts = [["", t("senses.count.auto")], ...["1", "2", "3", "4", "5", "6"].map((one) => [one, one])];
  showLayers();
  fill(
    root,
    div(
      "card form-grid",
      div(
        "stack",
        field(t("senses.word"), word),
        modelField(models, model, (chosen) => {
          model = chosen;
          layer = "";
          showLayers();
          ask();
        }),
        div(
          "pair-of-fields",
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

const lines = (text) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
