// What task models answer: labels with bars, entities in their text, an answer in its passage.

import { div, h, note } from "./dom.js";
import { decimal, percent, t } from "./i18n.js";
import { slicer } from "./words.js";

const COLOURS = 6;

/** Labels, the likeliest first; of a single one, its number. */
export function labelBars(labels) {
  if (labels.length === 1)
    return h(
      "p",
      { class: "headline" },
      h("span", { class: "big" }, decimal(labels[0].score)),
      labels[0].label,
    );
  const ranked = [...labels].sort((a, b) => b.score - a.score);
  const bar = ({ label, score }, index) =>
    h(
      "li",
      {},
      h(
        "div",
        { class: index ? "candidate" : "candidate best" },
        h("span", { class: "candidate-word" }, label),
        h(
          "span",
          { class: "bar-track", "aria-hidden": "true" },
          h("span", { class: "share", vars: { "--share": Math.min(Math.max(score, 0), 1) } }),
        ),
        h("span", { class: "figure" }, percent(score)),
      ),
    );
  return h("ol", { class: "candidates wide" }, ranked.map(bar));
}

/** A text with its entities marked; each says what it is. */
export function entityText(text, entities) {
  if (!entities.length) return note(t("tasks.noEntities"));
  const slice = slicer(text);
  const kinds = [...new Set(entities.map(kind))].sort();
  let last = 0;
  const parts = [...entities]
    .sort((a, b) => a.start - b.start)
    .flatMap((entity) => {
      const gap = slice(last, entity.start);
      last = entity.end;
      const colour = kinds.indexOf(kind(entity)) % COLOURS;
      return [
        gap,
        h(
          "mark",
          { class: `entity sense-${colour}`, title: percent(entity.score) },
          slice(entity.start, entity.end),
          h("span", { class: "kind" }, kind(entity)),
        ),
      ];
    });
  return h("p", { class: "passage" }, parts, slice(last));
}

const kind = (entity) => entity.entity_group ?? entity.entity;

/** An answer marked in its passage. */
export function answerText(passage, { answer, score, start, end }) {
  if (!answer) return note(t("tasks.noAnswer"));
  const slice = slicer(passage);
  const marked = h("mark", { class: "answer" }, slice(start, end));
  return div(
    "stack",
    h(
      "p",
      { class: "headline" },
      h("span", { class: "big" }, answer),
      " ",
      h("span", { class: "soft" }, percent(score)),
    ),
    h("p", { class: "passage" }, slice(0, start), marked, slice(end)),
  );
}
