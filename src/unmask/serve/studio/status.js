// What goes on: one job at a time, said in words, the older one aborted when a newer begins.

import { h, fill } from "./dom.js";
import { t } from "./i18n.js";

const PATIENCE = 250; // milliseconds before a spinner is shown: quick answers do not flicker
const LONG = 4000;

/**
 * A line that says what goes on, and `run(job)`: jobs get a signal; resolves to null when overtaken or failed.
 * `results` of an older question are faint and out of use while a newer one is worked on, and when it failed.
 */
export function status(busyKey, results = null) {
  const line = h("p", { class: "status", role: "status" });
  let current = null;
  let timers = [];

  function say(words, { busy = false, failed = false } = {}) {
    line.classList.toggle("failed", failed);
    fill(line, busy && h("span", { class: "spinner", "aria-hidden": "true" }), words);
  }

  /** Whether the results belong to an older question. */
  function outdate(old) {
    results?.classList.toggle("stale", old);
    if (results) results.inert = old;
  }

  function wait() {
    const busy = (words) => {
      outdate(true);
      say(words, { busy: true });
    };
    timers = [setTimeout(() => busy(t(busyKey)), PATIENCE), setTimeout(() => busy(t("status.slow")), LONG)];
  }

  function end(words = "", failed = false) {
    timers.forEach(clearTimeout);
    outdate(failed);
    say(words, { failed });
  }

  async function run(job) {
    current?.abort();
    timers.forEach(clearTimeout);
    const own = (current = new AbortController());
    wait();
    try {
      const result = await job(own.signal);
      if (own !== current) return null;
      end();
      return result;
    } catch (error) {
      if (own === current && error.name !== "AbortError") end(error.message, true);
      return null;
    }
  }

  function stop() {
    current?.abort();
    current = null;
    end();
  }

  return { line, run, stop, outdate };
}
