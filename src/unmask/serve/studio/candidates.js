// Candidates for hidden words: a list with bars for each mask. Fill and Compare show them.

import { div, h, roving } from "./dom.js";
import { percent, t } from "./i18n.js";
import { pipeline } from "./api.js";
import { pieceText } from "./words.js";

/** The candidates of every mask: a list of lists, whatever their number. */
export async function askCandidates(model, masked, count, signal) {
  const answer = await pipeline(model.name, "fill-mask", masked, { top_k: count }, signal);
  return Array.isArray(answer[0]) ? answer : [answer];
}

/** A column of candidates; `events(candidate, button)` gives the listeners of its button. */
export function candidateColumn(title, candidates, events = null) {
  const largest = candidates[0]?.score || 1;
  const rest = 1 - candidates.reduce((sum, { score }) => sum + score, 0);
  const list = h(
    "ol",
    { class: "candidates" },
    candidates.map((candidate) => h("li", {}, row(candidate, largest, events))),
  );
  if (events) roving(list);
  return h(
    "section",
    { class: "column" },
    h("h3", { class: "minor" }, title),
    list,
    rest > 0.0005 && h("p", { class: "soft small" }, t("fill.rest", { share: percent(rest) })),
  );
}

function row(candidate, largest, events) {
  const inside = [
    h("span", { class: "candidate-word" }, pieceText(candidate.token_str)),
    h(
      "span",
      { class: "bar-track", "aria-hidden": "true" },
      h("span", { class: "share", vars: { "--share": candidate.score / largest } }),
    ),
    h("span", { class: "figure" }, percent(candidate.score)),
  ];
  if (!events) return div("candidate", inside);
  const button = h("button", { type: "button", class: "candidate", "aria-pressed": "false" }, inside);
  for (const [name, act] of Object.entries(events(candidate, button))) button.addEventListener(name, act);
  return button;
}
