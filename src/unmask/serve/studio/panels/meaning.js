// Meaning: one word in many sentences, or two sentences word by word.

import { fill, h, segmented } from "../dom.js";
import { t } from "../i18n.js";
import { able, emptyCard } from "../models.js";
import { mountPair } from "./pair.js";
import { mountSenses } from "./senses.js";

export function mount(root, context) {
  const models = able(context.info, "feature-extraction");
  if (!models.length) return void fill(root, emptyCard(t("meaning.none")));
  const body = h("div");
  let leave = null;

  function show(view, params) {
    leave?.();
    const inner = { ...context, models, params, save: (values) => context.save({ view, ...values }) };
    leave = (view === "pair" ? mountPair : mountSenses)(body, inner);
  }

  const first = context.params.get("view") === "pair" ? "pair" : "senses";
  const views = ["senses", "pair"].map((view) => [view, t(`meaning.${view}`)]);
  fill(
    root,
    segmented(t("meaning.view"), views, first, (view) => show(view, new URLSearchParams())),
    body,
  );
  show(first, context.params);
  return () => leave?.();
}
