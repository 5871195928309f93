// A sentence whose words are buttons: pressed ones are hidden from the model.

import { fill, h, roving } from "./dom.js";
import { decimal, t } from "./i18n.js";
import { isWord, splitWords } from "./words.js";

const FAINT = 0.08; // a weaker share is not worth a colour

/** A box of words over `text`; `chosen` holds the numbers of hidden words, `change` is called when it changes. */
export function sentence(change) {
  const box = h("div", { class: "sentence", role: "group", "aria-label": t("fill.words") });
  const view = { box, words: [], buttons: [], chosen: new Set(), show, paint, keepMasks };

  function show(text, chosen) {
    view.words = splitWords(text);
    view.chosen = new Set([...chosen].filter((index) => index < view.words.length));
    view.buttons = view.words.map(wordButton);
    let last = 0;
    const parts = view.words.flatMap((word, index) => {
      const gap = text.slice(last, word.start);
      last = word.end;
      return [gap, view.buttons[index] ?? word.text];
    });
    fill(box, parts.length ? parts : h("span", { class: "soft" }, t("fill.nothing")));
    box.classList.toggle(
      "many",
      view.words.filter((word, index) => word.mask || view.chosen.has(index)).length > 1,
    );
    roving(box);
  }

  function wordButton(word, index) {
    if (!isWord(word.text)) return null;
    const hidden = word.mask || view.chosen.has(index);
    const said = hidden && !word.mask ? t("fill.hidden", { word: word.text }) : undefined;
    return h(
      "button",
      {
        type: "button",
        class: "word",
        "aria-pressed": String(hidden),
        "aria-label": said,
        disabled: word.mask,
        onclick: () => toggle(index),
      },
      h("span", {}, word.mask ? "?" : word.text),
    );
  }

  function toggle(index) {
    const chosen = new Set(view.chosen);
    if (!chosen.delete(index)) chosen.add(index);
    view.chosen = chosen;
    change(chosen);
    view.buttons[index]?.focus();
  }

  /** Colour words by their share in a decision: `scores` between -1 and 1, or null for none. */
  function paint(scores) {
    view.buttons.forEach((button, index) => {
      const given = scores?.[index] ?? 0;
      const score = Math.abs(given) < FAINT ? 0 : given;
      button?.style.setProperty("--for", Math.max(score, 0));
      button?.style.setProperty("--against", Math.max(-score, 0));
      if (button) button.title = given ? decimal(given) : "";
    });
  }

  /** The hidden words that are still the same in a new text. */
  function keepMasks(text) {
    const now = splitWords(text);
    const shift = now.length - view.words.length;
    const same = (index, moved) => now[moved]?.text === view.words[index]?.text;
    const place = (index) => (same(index, index) ? index : same(index, index + shift) ? index + shift : -1);
    return new Set([...view.chosen].map(place).filter((index) => index >= 0));
  }

  return view;
}
