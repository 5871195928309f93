// Fill: hide words of a sentence, read the candidates, see which words decided one of them.

import { askCandidates, candidateColumn } from "../candidates.js";
import { area, debounce, div, field, fill, h, note } from "../dom.js";
import { example, percent, t } from "../i18n.js";
import { able, modelField, named, emptyCard } from "../models.js";
import { sentence } from "../sentence.js";
import { status } from "../status.js";
import { whyBox } from "../why.js";
import { hide, pieceText, splitWords } from "../words.js";

const COUNT = 10;

export function mount(root, { info, params, save, announce }) {
  const models = able(info, "fill-mask");
  if (!models.length) return void fill(root, emptyCard(t("fill.none")));
  let model = named(models, params.get("model"));
  let asked = null; // {model, masked, places, masks} of the last answer
  const begin = example("fill.example", model);
  const text = area(params.get("text") ?? begin, 2, 20000);
  const words = sentence(hideWords);
  const results = div("columns");
  const work = status("fill.busy", results);
  const why = whyBox(words, () => asked, putIn, announce);

  function hideWords(chosen) {
    words.show(text.value, chosen);
    why.clear();
    work.stop(); // an answer about the words as they were would be shown beside others
    work.outdate(true);
    soon();
  }

  async function ask() {
    save({ model: model.name, text: text.value, hidden: [...words.chosen].join(",") });
    const { masked, places } = hide(text.value, words.words, words.chosen, model.mask_token);
    const masks = words.words.flatMap((word, index) => (word.mask || words.chosen.has(index) ? [index] : []));
    why.clear();
    why.box.hidden = !masks.length;
    if (!masks.length) {
      work.stop();
      return void fill(results, note(t(text.value.trim() ? "fill.choose" : "fill.nothing")));
    }
    const answer = await work.run((signal) => askCandidates(model, masked, COUNT, signal));
    if (!answer) return;
    asked = { model, masked, places, masks };
    const gaps = masks.map((index) => words.words[index]);
    fill(
      results,
      answer.map((list, mask) => candidateColumn(columnTitle(gaps, mask), list, why.events(mask))),
    );
    announce(
      answer
        .map(([{ token_str: piece, score }]) =>
          t("fill.said", { word: pieceText(piece), share: percent(score) }),
        )
        .join(" "),
    );
  }

  function putIn(mask, piece) {
    const index = asked.masks[mask];
    text.value = withPiece(text.value, words.words[index], piece);
    const grown = splitWords(text.value).length - words.words.length;
    const others = [...words.chosen].filter((one) => one !== index);
    words.show(
      text.value,
      others.map((one) => (one > index ? one + grown : one)),
    );
    ask();
  }

  const soon = debounce(ask);
  text.addEventListener("input", () => hideWords(words.keepMasks(text.value)));
  fill(
    root,
    div(
      "card",
      div(
        "fields",
        field(t("fill.text"), text, t("fill.hint")),
        modelField(models, model, (chosen) => {
          model = chosen;
          ask();
        }),
      ),
      words.box,
      why.box,
    ),
    work.line,
    h("h2", { class: "unseen" }, t("fill.candidates")),
    results,
  );
  const given = params.get("hidden") ?? (text.value === begin ? example("fill.example.hidden", model) : "");
  words.show(text.value, given.split(",").filter(Boolean).map(Number));
  ask();
  return () => {
    soon.cancel();
    work.stop();
    why.clear();
  };
}

function columnTitle(gaps, mask) {
  const place = gaps.length > 1 ? t("fill.gap", { number: mask + 1 }) : t("fill.candidates");
  return gaps[mask].mask ? place : t("fill.instead", { place, word: gaps[mask].text });
}

/** The text with a piece in the place of a word; a piece that continues a word is joined to the one before. */
function withPiece(text, word, piece) {
  const joined = piece.startsWith("##");
  const before = text.slice(0, word.start);
  return (joined ? before.trimEnd() : before) + piece.replace(/^##/, "").trim() + text.slice(word.end);
}
