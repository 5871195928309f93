// Which words decided a candidate: said in a line, and shown as colours of the sentence.

import { post } from "./api.js";
import { debounce, div, fill, h } from "./dom.js";
import { decimal, t } from "./i18n.js";
import { status } from "./status.js";
import { isWord, pieceText } from "./words.js";

const NAMED = 4; // words that the line names

/** `events(mask)` makes the listeners of a candidate's button; `current()` is the question that was answered. */
export function whyBox(words, current, putIn, announce) {
  const work = status("fill.why.busy");
  const said = div("why-said");
  const known = new Map();
  let pinned = null;

  const ask = debounce(async (mask, piece) => {
    const { model, masked, places } = current();
    const key = JSON.stringify([model.name, masked, mask, piece]);
    const body = { model: model.name, inputs: masked, mask, target: piece.trim() };
    const answer = known.get(key) ?? (await work.run((signal) => post("/attribution", body, signal)));
    if (!answer) return;
    known.set(key, answer);
    show(wordScores(answer.tokens, places), mask, piece);
  }, 180);

  function show(scores, mask, piece) {
    const largest = Math.max(...scores.map(Math.abs), 1e-9);
    words.paint(scores.map((score) => score / largest));
    const line = t("fill.why", { word: pieceText(piece), words: strongest(scores, words.words) || "–" });
    const use = h(
      "button",
      { type: "button", class: "quiet", onclick: () => putIn(mask, piece) },
      t("fill.use", { word: pieceText(piece) }),
    );
    fill(said, h("p", {}, line, " ", use), legend());
    announce(line);
  }

  function clear() {
    ask.cancel();
    work.stop();
    pin(null);
    words.paint(null);
    fill(said, h("p", { class: "soft" }, t("fill.why.hint")), legend());
  }

  function pin(button) {
    pinned?.setAttribute("aria-pressed", "false");
    pinned = button;
    pinned?.setAttribute("aria-pressed", "true");
  }

  const events = (mask) => (candidate, button) => {
    const look = () => (!pinned || pinned === button) && ask(mask, candidate.token_str);
    const click = () => {
      pin(pinned === button ? null : button);
      ask(mask, candidate.token_str);
    };
    return { mouseenter: look, focus: look, click };
  };
  return { box: div("why", work.line, said), clear, events };
}

/** The scores of words: the sums of their tokens'. */
function wordScores(tokens, places) {
  const within = ({ start, end }) =>
    tokens.filter((token) => token.end > token.start && token.start < end && token.end > start);
  return places.map((place) => within(place).reduce((sum, token) => sum + token.score, 0));
}

function strongest(scores, words) {
  return scores
    .map((score, index) => ({ score, word: words[index].text }))
    .filter(({ score, word }) => isWord(word) && decimal(Math.abs(score)) !== decimal(0))
    .sort((a, b) => Math.abs(b.score) - Math.abs(a.score))
    .slice(0, NAMED)
    .map(({ score, word }) => `${word} ${score > 0 ? "+" : "−"}${decimal(Math.abs(score))}`)
    .join(", ");
}

function legend() {
  const swatch = (kind) => [h("span", { class: `swatch ${kind}` }), t(`fill.${kind}`)];
  return h("p", { class: "small soft legend" }, swatch("for"), swatch("against"));
}
