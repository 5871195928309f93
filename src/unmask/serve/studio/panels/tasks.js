// Tasks: whatever heads are loaded: label a text, mark its entities, answer a question from a passage.

import { pipeline } from "../api.js";
import { answerText, entityText, labelBars } from "../answers.js";
import { debounce, field, fill, h, segmented } from "../dom.js";
import { t } from "../i18n.js";
import { able, modelField, named, emptyCard } from "../models.js";
import { status } from "../status.js";

export const TASKS = ["text-classification", "token-classification", "question-answering"];

export function mount(root, { info, params, save, announce }) {
  const models = able(info, ...TASKS);
  if (!models.length) return void fill(root, emptyCard(t("tasks.none")));
  let model = named(models, params.get("model"));
  let task = params.get("task");
  const form = h("div", { class: "stack" });
  const work = status("tasks.busy");
  const results = h("div", { class: "card" });
  let inputs = null;

  function showForm(given) {
    const known = TASKS.filter((one) => model.tasks.includes(one));
    if (!known.includes(task)) task = known[0];
    inputs = taskInputs(task, given, soon);
    const choice =
      known.length > 1 &&
      segmented(
        t("tasks.task"),
        known.map((one) => [one, t(`tasks.${one}`)]),
        task,
        (one) => {
          task = one;
          showForm(new URLSearchParams());
        },
      );
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
    h(
      "div",
      { class: "card stack" },
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

/** The fields of a task: `box`, `values()`, `complete()`. */
export function taskInputs(task, given, changed) {
  const answering = task === "question-answering";
  const area = (name, rows) =>
    h("textarea", {
      rows,
      maxlength: 60000,
      spellcheck: false,
      value: given.get(name) ?? t(`tasks.${task}.${name}`),
      oninput: changed,
    });
  const text = area("text", answering ? 6 : 3);
  const second = answering
    ? area("question", 1)
    : task === "text-classification"
      ? h("input", { value: given.get("pair") ?? "", maxlength: 5000, oninput: changed })
      : null;
  const values = () => ({
    text: text.value,
    ...(answering ? { question: second.value } : second && { pair: second.value }),
  });
  const complete = () => Boolean(text.value.trim() && (!answering || second.value.trim()));
  const fields = answering
    ? [field(t("tasks.question"), second), field(t("tasks.passage"), text)]
    : [
        field(t("tasks.text"), text),
        second &&
          h(
            "details",
            { open: Boolean(second.value) },
            h("summary", { class: "small" }, t("tasks.pair.add")),
            field(t("tasks.pair"), second, t("tasks.pair.hint")),
          ),
      ];
  return { box: h("div", { class: "stack" }, fields), values, complete };
}

/** Ask a model and show what it says. */
export async function runTask(model, task, { text, question, pair }, signal) {
  if (task === "question-answering") {
    const answer = await pipeline(model.name, task, { question, context: text }, { top_k: 3 }, signal);
    return answerText(text, Array.isArray(answer) ? answer : [answer]);
  }
  if (task === "token-classification") {
    return entityText(
      text,
      await pipeline(model.name, task, text, { aggregation_strategy: "simple" }, signal),
    );
  }
  const input = pair ? { text, text_pair: pair } : text;
  const answer = await pipeline(model.name, task, input, { top_k: 20 }, signal);
  return labelBars(Array.isArray(answer[0]) ? answer[0] : answer);
}
