// A word in many sentences: a map of its uses, coloured by sense, and the uses in a list.

import { post } from "../api.js";
import { area, debounce, div, field, fill, h, note, select } from "../dom.js";
import { example, t } from "../i18n.js";
import { modelAndLayer, named } from "../models.js";
import { senseMap } from "../sensemap.js";
import { status } from "../status.js";

export function mountSenses(root, { models, params, save, announce }) {
  const { list, layers, state, asked } = modelAndLayer(models, params, ask);
  const model = named(models, params.get("model"));
  let count = params.get("senses") ?? "";
  const word = h("input", {
    value: params.get("word") ?? example("senses.word.example", model),
    maxlength: 80,
    spellcheck: false,
  });
  const texts = area(params.get("texts") ?? example("senses.texts.example", model), 8, 60000);
  const results = h("div");
  const work = status("senses.busy", results);

  async function ask() {
    save({ ...state(), word: word.value, texts: texts.value, senses: count });
    const inputs = lines(texts.value);
    if (!word.value.trim() || inputs.length < 2) {
      work.stop();
      return void fill(results, note(t("senses.few")));
    }
    const body = { ...asked(), word: word.value.trim(), inputs, senses: count ? Number(count) : null };
    const answer = await work.run((signal) => post("/senses", body, signal));
    if (!answer) return;
    fill(results, senseMap(answer));
    announce(t("senses.said", { uses: answer.uses.length, senses: answer.senses.length }));
  }

  const soon = debounce(ask, 600);
  word.addEventListener("input", soon);
  texts.addEventListener("input", soon);
  const counts = [["", t("senses.count.auto")], ...["1", "2", "3", "4", "5", "6"].map((one) => [one, one])];
  fill(
    root,
    div(
      "card form-grid",
      div(
        "stack",
        field(t("senses.word"), word),
        list,
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
