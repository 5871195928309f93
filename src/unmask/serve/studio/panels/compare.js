// Compare: two models side by side on the same input.

import { post } from "../api.js";
import { askCandidates, candidateColumn } from "../candidates.js";
import { area, debounce, div, field, fill, h, note } from "../dom.js";
import { decimal, example, number, t } from "../i18n.js";
import { emptyCard, modelField } from "../models.js";
import { sentence } from "../sentence.js";
import { status } from "../status.js";
import { hide, slicer, splitWords } from "../words.js";
import { runTask, taskChoice, taskInputs, TASKS } from "./tasks.js";

const COUNT = 6;
const FILL = "fill-mask";

export function mount(root, { info: { models }, params, save }) {
  if (models.length === 1) return void fill(root, emptyCard(t("compare.one")));
  const pair = firstPair(models, params);
  let task = params.get("task");
  let inputs = null;
  const form = div("stack");
  const sides = pair.map(() => {
    const result = h("div");
    return { work: status("compare.busy", result), result };
  });
  const titles = pair.map(() => h("h2"));

  function showForm(given) {
    soon.cancel();
    const shared = sharedTasks(...pair);
    sides.forEach(({ work, result }) => {
      work.stop();
      fill(result);
    });
    titles.forEach((title, side) => {
      title.textContent = pair[side].name;
    });
    if (!shared.length) {
      inputs = null;
      save({ a: pair[0].name, b: pair[1].name });
      sides.forEach(({ result }, side) => fill(result, abilities(pair[side])));
      return void fill(form, note(t("compare.nothing")));
    }
    if (!shared.includes(task)) task = shared[0];
    inputs = task === FILL ? fillInputs(pair[0], given, soon) : taskInputs(task, pair, given, soon);
    const choice = taskChoice(shared, task, (one) => {
      task = one;
      showForm(new URLSearchParams());
    });
    fill(form, choice, inputs.box);
    ask();
  }

  function ask() {
    save({ a: pair[0].name, b: pair[1].name, task, ...inputs.values() });
    if (!inputs.complete()) return sides.forEach(({ work }) => work.stop());
    const run = task === FILL ? fillAndScore : runTask;
    sides.forEach(async ({ work, result }, side) => {
      const shown = await work.run((signal) => run(pair[side], task, inputs.values(), signal));
      if (shown) fill(result, shown);
    });
  }

  const soon = debounce(ask, 400);
  const choose = (side) =>
    modelField(
      models,
      pair[side],
      (model) => {
        pair[side] = model;
        showForm(new URLSearchParams(inputs?.values() ?? {}));
      },
      t(side ? "compare.b" : "compare.a"),
    );
  fill(
    root,
    div("card stack", div("halves", choose(0), choose(1)), form),
    div(
      "halves versus",
      sides.map(({ work, result }, side) => h("section", { class: "card" }, titles[side], work.line, result)),
    ),
  );
  showForm(params);
  return () => {
    soon.cancel();
    sides.forEach(({ work }) => work.stop());
  };
}

const sharedTasks = (one, other) =>
  [FILL, ...TASKS].filter((task) => one.tasks.includes(task) && other.tasks.includes(task));

/** The models that the address names; else two that have a task in common, if there are such. */
function firstPair(models, params) {
  const asked = (side) => models.find(({ name }) => name === params.get(side));
  const partner = (model) => models.find((other) => other !== model && sharedTasks(model, other).length);
  const first = asked("a") ?? models.find(partner) ?? models[0];
  return [first, asked("b") ?? partner(first) ?? models.find((model) => model !== first)];
}

/** What a model can do by itself, with the way to where it does it. */
function abilities({ name, tasks }) {
  const places = { [FILL]: "fill", "feature-extraction": "meaning" };
  const link = (task) => {
    const address = new URLSearchParams({ model: name, ...(!places[task] && { task }) });
    return h("li", {}, h("a", { href: `#${places[task] ?? "tasks"}?${address}` }, t(`tasks.${task}`)));
  };
  return div("stack", note(t("compare.able")), h("ul", { class: "abilities" }, tasks.map(link)));
}

function fillInputs(model, given, changed) {
  const begin = example("fill.example", model);
  const text = area(given.get("text") ?? begin, 2, 5000);
  const words = sentence((chosen) => {
    words.show(text.value, chosen);
    changed();
  });
  const hidden = given.get("hidden") ?? (text.value === begin ? example("fill.example.hidden", model) : "");
  words.show(text.value, hidden.split(",").filter(Boolean).map(Number));
  text.addEventListener("input", () => {
    words.show(text.value, words.keepMasks(text.value));
    changed();
  });
  const box = div("stack", field(t("fill.text"), text, t("fill.hint")), words.box);
  const values = () => ({ text: text.value, hidden: [...words.chosen].join(",") });
  return { box, values, complete: () => words.words.length > 0 };
}

/** The candidates of each hidden word, and how likely the whole sentence is. */
async function fillAndScore(model, _, { text, hidden }, signal) {
  const words = splitWords(text);
  const chosen = new Set(hidden.split(",").filter(Boolean).map(Number));
  const { masked } = hide(text, words, chosen, model.mask_token);
  const hasMask = words.some((word) => word.mask);
  const columns = hasMask || chosen.size ? await askCandidates(model, masked, COUNT, signal) : [];
  const score = hasMask ? null : (await post("/score", { model: model.name, inputs: [text] }, signal))[0];
  return div(
    "stack",
    columns.map((list, gap) =>
      candidateColumn(columns.length > 1 ? t("fill.gap", { number: gap + 1 }) : t("fill.candidates"), list),
    ),
    score && likelihood(text, score),
  );
}

/** The sentence tinted by how surprising each token is. */
function likelihood(text, score) {
  const slice = slicer(text);
  let last = 0;
  const parts = score.tokens.flatMap(({ start, end, log_probability: likely }) => {
    const gap = slice(last, start);
    last = Math.max(last, end);
    return [
      gap,
      h(
        "span",
        { class: "surprise", title: decimal(likely), vars: { "--against": Math.min(-likely / 12, 1) } },
        slice(start, end),
      ),
    ];
  });
  return h(
    "div",
    {},
    h("h3", {}, t("compare.likely")),
    h("p", { class: "passage" }, parts, slice(last)),
    h("p", { class: "small soft" }, t("compare.perplexity", { value: number(score.pseudo_perplexity, 3) })),
  );
}
