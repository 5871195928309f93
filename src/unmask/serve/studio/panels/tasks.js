// Tasks: whatever heads are loaded: label a text, mark its entities, answer a question from a passage.

import { pipeline } from "../api.js";
import { answerText, entityText, labelBars } from "../answers.js";
import { area, debounce, div, field, fill, h, segmented } from "../dom.js";
import { t } from "../i18n.js";
import { able, modelField, named, emptyCard } from "../models.js";
import { status } from "../status.js";

export const TASKS = ["text-classification", "token-classification", "question-answering"];

/** A choice among tasks, where there are several. */
export const taskChoice = (known, task, choose) =>
  known.length > 1 &&
  segmented(
    t("tasks.task"),
    known.map((one) => [one, t(`tasks.${one}`)]),
    task,
    choose,
  );

export function mount(root, { info, params, save, announce }) {
  const models = able(info, ...TASKS);
  if (!models.length) return void fill(root, emptyCard(t("tasks.none")));
  let model = named(models, params.get("model"));
  let task = params.get("task");
  const form = div("stack");
  const results = div("card");
  const work = status("tasks.busy", results);
  let inputs = null;

  function showForm(given) {
    soon.cancel();
    const known = TASKS.filter((one) => model.tasks.includes(one));
    if (!known.includes(task)) task = known[0];
    inputs = taskInputs(task, [model], given, soon);
    const choice = taskChoice(known, task, (one) => {
      task = one;
      showForm(new URLSearchParams());
    });
    fill(form, choice, inputs.box);
    ask();
  }

  async function ask() {
    save({ model: model.name, task, ...inputs.values() });
    if (!inputs.complete()) {
      work.stop();
      results.hidden = true;
      return;
    }
    const shown = await work.run((signal) => runTask(model, task, inputs.values(), signal));
    if (!shown) return;
    results.hidden = false;
    fill(results, h("h2", {}, t(`tasks.${task}`)), shown);
    announce(t("tasks.done"));
  }

  const soon = debounce(ask, 500);
  results.hidden = true;
  fill(
    root,
    div(
      "card stack",
      modelField(models, model, (chosen) => {
        model = chosen;
        showForm(new URLSearchParams());
      }),
      form,
    ),
    work.line,
    results,
  );
  showForm(params);
  return () => {
    soon.cancel();
    work.stop();
  };
}

/** The fields of a task that models are asked to do: `box`, `values()`, `complete()`. */
export function taskInputs(task, models, given, changed) {
  const value = (name) => given.get(name) ?? t(`tasks.${task}.${name}`);
  const text = area(value("text"), 3, 60000);
  const controls = { text };
  const pairsOnly = models.every(({ pairs }) => pairs);
  const parts = [field(t(task === "question-answering" ? "tasks.passage" : "tasks.text"), text)];
  if (task === "question-answering") {
    controls.question = h("input", { value: value("question"), maxlength: 5000 });
    parts.unshift(field(t("tasks.question"), controls.question));
  }
  if (task === "text-classification" && !models.every(({ pairs }) => pairs === false)) {
    controls.pair = h("input", { value: given.get("pair") ?? "", maxlength: 5000 });
    parts.push(pairField(controls.pair, pairsOnly));
  }
  Object.values(controls).forEach((control) => control.addEventListener("input", changed));
  const values = () =>
    Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value]));
  const needed = ["text", "question", ...(pairsOnly ? ["pair"] : [])];
  const complete = () => needed.every((name) => controls[name]?.value.trim() !== "");
  return { box: div("stack", parts), values, complete };
}

/** The second text: folded away unless it is given, or the models judge nothing but pairs. */
function pairField(control, pairsOnly) {
  if (pairsOnly) return field(t("tasks.pair"), control);
  const open = Boolean(control.value);
  const second = field(t("tasks.pair"), control, t("tasks.pair.hint"));
  return h("details", { open }, h("summary", { class: "small" }, t("tasks.pair.add")), second);
}

/** Ask a model and show what it says. */
export async function runTask(model, task, { text, question, pair }, signal) {
  if (task === "question-answering") {
    return answerText(text, await pipeline(model.name, task, { question, context: text }, {}, signal));
  }
  if (task === "token-classification") {
    return entityText(
      text,
      await pipeline(model.name, task, text, { aggregation_strategy: "simple" }, signal),
    );
  }
  const input = pair ? { text, text_pair: pair } : text;
  const [labels] = await pipeline(model.name, task, input, { top_k: 20 }, signal);
  return labelBars(labels);
}
