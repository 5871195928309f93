// Runs: the curves of a training run, live while it trains.

import { get } from "../api.js";
import { curves } from "../curves.js";
import { div, field, fill, h, note, select } from "../dom.js";
import { compact, duration, known, number, percent, t } from "../i18n.js";
import { emptyCard } from "../models.js";
import { status } from "../status.js";

const PAUSE = 2000; // milliseconds between two looks
const ASIDE = ["step", "epoch", "tokens", "seconds", "seed", "best", "skipped"]; // not curves
const SHARES = ["accuracy", "scores", "mfu", "fill", "guess"];
const NO_SHARES = ["scores.matthews", "scores.spearman", "scores.pearson", "scores.mae"]; // from -1 to 1, or of any size
const FIRST = ["loss", "accuracy", "scores", "parts", "lr", "grad_norm", "tokens_per_s"];

export function mount(root, { info, params, save, announce }) {
  if (!info.runs) return void fill(root, emptyCard(t("runs.off")));
  const work = status("runs.busy");
  const list = h("div");
  const facts = h("p", { class: "soft run-facts" });
  const charts = div("charts");
  let chosen = params.get("run");
  let records = [];
  let next = ""; // where the records that we have end
  let timer = 0;

  async function start() {
    const runs = await work.run((signal) => get("/runs", signal));
    if (!runs) return;
    if (!runs.length) return void fill(charts, note(t("runs.none")));
    if (!runs.some(({ name }) => name === chosen)) chosen = newest(runs).name;
    const names = runs.map(({ name, done }) => [name, t(done ? "runs.done" : "runs.going", { name })]);
    fill(list, field(t("runs.run"), select(names, chosen, open)));
    open(chosen);
  }

  function open(name) {
    clearTimeout(timer);
    chosen = name;
    next = "";
    save({ run: name });
    fill(charts);
    look(true);
  }

  async function look(first = false) {
    const ask = (signal) => get(`/runs/${encodeURIComponent(chosen)}?after=${next}`, signal);
    // later looks are silent: a line that comes and goes every two seconds says nothing
    const answer = first ? await work.run(ask) : await ask(leaving.signal).catch(() => null);
    if (leaving.signal.aborted) return;
    if (answer?.name === chosen) show(answer, first);
    if (!answer?.done) timer = setTimeout(look, PAUSE);
  }

  function show({ records: fresh, whole, next: end, done }, first) {
    records = whole ? fresh : records.concat(fresh);
    next = end;
    if (!fresh.length && !first && !done) return;
    const last = records.at(-1);
    facts.textContent = last
      ? t(done ? "runs.facts.done" : "runs.facts", {
          step: number(last.step, 8),
          tokens: compact(last.tokens ?? 0),
          time: duration(last.seconds ?? 0),
        })
      : t("runs.empty");
    fill(charts, chartsOf(records));
    const option = list.querySelector("option:checked");
    if (option) option.textContent = t(done ? "runs.done" : "runs.going", { name: chosen });
    if (first) announce(facts.textContent);
  }

  const leaving = new AbortController();
  fill(root, div("card", div("pair-of-fields", list, facts)), work.line, charts);
  start();
  return () => {
    clearTimeout(timer);
    leaving.abort();
    work.stop();
  };
}

const newest = (runs) => runs.reduce((best, run) => (run.updated > best.updated ? run : best));

/** A chart for each thing measured, with a curve for each split and seed; means of one objective are not shown twice. */
function chartsOf(records) {
  const found = new Map();
  const best = new Map(); // the step whose model was kept, by curve
  const seeds = new Set(records.map(({ seed }) => seed)).size;
  for (const record of records) {
    if (record.split === "cloze") continue;
    const split = splitName(record.split);
    const name = seeds > 1 ? t("runs.seed", { split, seed: record.seed }) : split;
    if (record.best) best.set(name, record.step);
    for (const [path, value] of numbersOf(record)) {
      const series = found.get(path) ?? found.set(path, new Map()).get(path);
      const points = series.get(name) ?? series.set(name, []).get(name);
      points.push([record.step, value]);
    }
  }
  const parts = [...found.keys()].filter((path) => path.startsWith("parts."));
  if (parts.length === 1) found.delete(parts[0]);
  const rank = (path) => (FIRST.indexOf(path.split(".")[0]) + FIRST.length + 1) % (FIRST.length + 1);
  return [...found]
    .sort(([a], [b]) => rank(a) - rank(b))
    .map(([path, series]) =>
      curves(
        title(path),
        [...series].map(([name, points]) => ({ name, points, best: best.get(name) })),
        SHARES.includes(path.split(".")[0]) && !NO_SHARES.includes(path) ? percent : compact,
      ),
    );
}

/** The numbers of a record with their paths, one level deep. */
function numbersOf(record) {
  const inner = (key, value) => Object.entries(value).map(([name, one]) => [`${key}.${name}`, one]);
  return Object.entries(record)
    .filter(([key]) => !ASIDE.includes(key))
    .flatMap(([key, value]) =>
      value && typeof value === "object" && !Array.isArray(value) ? inner(key, value) : [[key, value]],
    )
    .filter(([, value]) => typeof value === "number");
}

/** What is measured, in words; a name that we have none for stands as it is. */
function title(path) {
  const [group, name] = path.split(".");
  if (!name) return known(`runs.${path}`) ? t(`runs.${path}`) : path;
  if (group === "scores") return known(`runs.score.${name}`) ? t(`runs.score.${name}`) : name;
  const part = known(`runs.part.${name}`) ? t(`runs.part.${name}`) : name;
  return known(`runs.of.${group}`) ? t(`runs.of.${group}`, { name: part }) : `${group}, ${part}`;
}

const splitName = (split) => (known(`runs.split.${split}`) ? t(`runs.split.${split}`) : split);
