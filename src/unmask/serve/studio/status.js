// What goes on: one job at a time, said in words, the older one aborted when a newer begins.

import { h, fill } from "./dom.js";
import { t } from "./i18n.js";

const PATIENCE = 250; // milliseconds before a spinner is shown: quick answers do not flicker
const LONG = 4000;

/** A line that says what goes on, and `run(job)`: jobs get a signal; resolves to null when overtaken or failed. */
export function status(busyKey = "status.busy") {
  const line = h("p", { class: "status", role: "status" });
  let current = null;
  let timers = [];

  const quiet = () => timers.forEach(clearTimeout);
  const spin = (words) => fill(line, h("span", { class: "spinner", "aria-hidden": "true" }), words);
  const say = (words) => {
    quiet();
    line.className = "status";
    fill(line, words);
  };
  const fail = (words) => {
    quiet();
    line.className = "status failed";
    fill(line, words);
  };

  async function run(job) {
    current?.abort();
    const own = (current = new AbortController());
    quiet();
    timers = [
      setTimeout(() => {
        line.className = "status";
        spin(t(busyKey));
      }, PATIENCE),
      setTimeout(() => spin(t("status.slow")), LONG),
    ];
    try {
      const result = await job(own.signal);
      if (own !== current) return null;
      say("");
      return result;
    } catch (error) {
      if (own === current && error.name !== "AbortError") fail(error.message);
      return null;
    }
  }

  function stop() {
    current?.abort();
    current = null;
    say("");
  }

  return { line, run, stop, say, fail };
}
