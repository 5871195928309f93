// Fill: hide words of a sentence, read the candidates, see which words decided one of them.

import { post } from "../api.js";
import { askCandidates, candidateColumn } from "../candidates.js";
import { debounce, field, fill, h } from "../dom.js";
import { decimal, percent, t } from "../i18n.js";
import { able, modelField, named, emptyCard } from "../models.js";
import { sentence } from "../sentence.js";
import { status } from "../status.js";
import { hide, isWord, pieceText, splitWords } from "../words.js";

const COUNT = 10;

export function mount(root, { info, params, save, announce }) {
  const models = able(info, "fill-mask");
  if (!models.length) return void fill(root, emptyCard(t("fill.none")));
  let model = named(models, params.get("model"));
  let asked = null; // {masked, places, masks} of the last request
  const example = t("fill.example");
  const text = h("textarea", {
    rows: 2,
    maxlength: 20000,
    spellcheck: false,
    value: params.get("text") ?? example,
  });
  const words = sentence(hideWords);
  const work = status("fill.busy");
  const results = h("div", { class: "columns" });
  const why = whyBox(words, () => ({ model, ...asked }), putIn, announce);

  function start() {
    const given = params.get("hidden") ?? (text.value === example ? t("fill.example.hidden") : "");
    words.show(text.value, given.split(",").filter(Boolean).map(Number));
    ask();
  }

  function hideWords(chosen) {
    words.show(text.value, chosen);
    soon();
  }

  function typed() {
    words.show(text.value, words.keepMasks(text.value));
    why.clear();
    soon();
  }

  async function ask() {
    save({ model: model.name, text: text.value, hidden: [...words.chosen].join(",") });
    const { masked, places } = hide(text.value, words.words, words.chosen, model.mask_token);
    const masks = words.words.flatMap((word, index) => (word.mask || words.chosen.has(index) ? [index] : []));
    why.clear();
    if (!masks.length) {
      work.stop();
      asked = null;
      fill(results, h("p", { class: "soft" }, t(text.value.trim() ? "fill.choose" : "fill.nothing")));
      return;
    }
    results.classList.add("stale");
    const answer = await work.run((signal) => askCandidates(model, masked, COUNT, signal));
    if (!answer) return;
    results.classList.remove("stale");
    asked = { masked, places, masks };
    fill(
      results,
      answer.map((list, mask) => candidateColumn(columnTitle(mask, answer.length), list, why.events(mask))),
    );
    announce(
      answer
        .map((list) => t("fill.said", { word: pieceText(list[0].token_str), share: percent(list[0].score) }))
        .join(" "),
    );
  }

  function columnTitle(mask, count) {
    const word = words.words[asked.masks[mask]];
    const place = count > 1 ? t("fill.gap", { number: mask + 1 }) : t("fill.candidates");
    return word.mask ? place : t("fill.instead", { place, word: word.text });
  }

  /** Put a candidate in the place of a hidden word. */
  function putIn(mask, piece) {
    const index = asked.masks[mask];
    const word = words.words[index];
    const chosen = new Set([...words.chosen].filter((one) => one !== index));
    text.value = text.value.slice(0, word.start) + piece.trim() + text.value.slice(word.end);
    const grown = splitWords(text.value).length - words.words.length;
    words.show(
      text.value,
      [...chosen].map((one) => (one > index ? one + grown : one)),
    );
    ask();
  }

  const soon = debounce(ask);
  text.addEventListener("input", typed);
  fill(
    root,
    h(
      "div",
      { class: "card" },
      h(
        "div",
        { class: "fields" },
        field(t("fill.text"), text),
        modelField(models, model, (chosen) => {
          model = chosen;
          ask();
        }),
      ),
      h("p", { class: "hint" }, t("fill.hint")),
      words.box,
      why.box,
    ),
    work.line,
    h("h2", { class: "unseen" }, t("fill.candidates")),
    results,
  );
  start();
  return () => {
    soon.cancel();
    work.stop();
    why.clear();
  };
}

/** The line below the sentence that says which words decided a candidate; it colours them too. */
function whyBox(words, current, putIn, announce) {
  const work = status("fill.why.busy");
  const said = h("div", { class: "why-said" });
  const box = h("div", { class: "why" }, work.line, said);
  const known = new Map();
  let pinned = null;

  const ask = debounce(async (mask, piece) => {
    const { model, masked } = current();
    const key = JSON.stringify([model.name, masked, mask, piece]);
    const body = { model: model.name, inputs: masked, mask, target: piece.trim() };
    const answer = known.get(key) ?? (await work.run((signal) => post("/attribution", body, signal)));
    if (!answer) return;
    known.set(key, answer);
    show(answer, mask, piece);
  }, 180);

  function show(answer, mask, piece) {
    const { places } = current();
    const scores = places.map(({ start, end }) =>
      answer.tokens
        .filter((token) => token.end > token.start && token.start < end && token.end > start)
        .reduce((sum, token) => sum + token.score, 0),
    );
    const largest = Math.max(...scores.map(Math.abs), 1e-9);
    words.paint(scores.map((score) => score / largest));
    const ranked = scores
      .map((score, index) => ({ score, word: words.words[index].text }))
      .filter(({ score, word }) => isWord(word) && Math.abs(score) > 0.02 * largest)
      .sort((a, b) => Math.abs(b.score) - Math.abs(a.score))
      .slice(0, 4);
    const list = ranked
      .map(({ score, word }) => `${word} ${score > 0 ? "+" : "−"}${decimal(Math.abs(score))}`)
      .join(", ");
    const line = t("fill.why", { word: pieceText(piece), words: list || "–" });
    fill(
      said,
      h(
        "p",
        {},
        line,
        " ",
        h(
          "button",
          { type: "button", class: "quiet", onclick: () => putIn(mask, piece) },
          t("fill.use", { word: pieceText(piece) }),
        ),
      ),
      legend(),
    );
    announce(line);
  }

  function legend() {
    return h(
      "p",
      { class: "small soft legend" },
      h("span", { class: "swatch for" }),
      t("fill.for"),
      h("span", { class: "swatch against" }),
      t("fill.against"),
    );
  }

  function clear() {
    ask.cancel();
    work.stop();
    pinned?.setAttribute("aria-pressed", "false");
    pinned = null;
    words.paint(null);
    fill(said);
  }

  const events = (mask) => (candidate, button) => {
    const look = () => (!pinned || pinned === button) && ask(mask, candidate.token_str);
    return {
      mouseenter: look,
      focus: look,
      click: () => {
        const again = pinned === button;
        pinned?.setAttribute("aria-pressed", "false");
        pinned = again ? null : button;
        pinned?.setAttribute("aria-pressed", "true");
        ask(mask, candidate.token_str);
      },
    };
  };
  return { box, clear, events };
}
