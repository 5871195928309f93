// The frame: header, navigation, settings; it shows one panel at a time.

import { ApiError, get, setKey } from "./api.js";
import { div, field, fill, h, s, segmented } from "./dom.js";
import { isExample, language, loadStrings, setLanguage, t } from "./i18n.js";
import { able } from "./models.js";
import { linkTo, readState, writeState } from "./state.js";
import * as attention from "./panels/attention.js";
import * as compare from "./panels/compare.js";
import * as fillPanel from "./panels/fill.js";
import * as meaning from "./panels/meaning.js";
import * as runs from "./panels/runs.js";
import * as tasks from "./panels/tasks.js";

const PANELS = { fill: fillPanel, meaning, attention, tasks, runs, compare };
const ICONS = {
  fill: "M3 6h7M3 12h18M3 18h11M14 3.5h7v5h-7z",
  meaning: "M7 7.5h.01M10 5h.01M6 11h.01M17 14h.01M14.5 17h.01M18 18h.01M3 21V3M3 21h18",
  attention: "M4 19c0-9 8-9 8 0M12 19c0-16 9-16 9 0M2 19h20",
  tasks: "M4 5h16M4 12h10M4 19h7M16 17l2.5 2.5L22 15",
  runs: "M3 3v18h18M6 8c3 7 6 9 14 9",
  compare: "M4 4h6v16H4zM14 4h6v16h-6z",
};
const THEME = "unmask.theme";
const main = document.getElementById("main");
let leave = null;
let info = null;

/** Say something to those who cannot see it. */
function announce(words) {
  fill(document.getElementById("announcer"), words);
}

function frame() {
  const here = readState().panel;
  document.getElementById("skip").textContent = t("app.skip");
  const nav = document.getElementById("nav");
  nav.setAttribute("aria-label", t("app.panels"));
  const icon = (path) =>
    s("svg", { viewBox: "0 0 24 24", "aria-hidden": "true", class: "icon" }, s("path", { d: path }));
  fill(
    nav,
    Object.keys(PANELS).map((panel) =>
      h(
        "a",
        { href: linkTo(panel), "aria-current": panel === here && "page" },
        icon(ICONS[panel]),
        h("span", {}, t(`${panel}.name`)),
      ),
    ),
  );
  const theme = localStorage.getItem(THEME) ?? "auto";
  fill(
    document.getElementById("settings"),
    segmented(
      t("app.language"),
      [
        ["en", "EN"],
        ["pt", "PT"],
      ],
      language(),
      changeLanguage,
    ),
    segmented(
      t("app.theme"),
      ["auto", "light", "dark"].map((one) => [one, t(`app.theme.${one}`)]),
      theme,
      changeTheme,
    ),
  );
}

function changeLanguage(chosen) {
  const { panel, params } = readState();
  const own = Object.fromEntries([...params].filter(([, value]) => !isExample(value))); // they change with the language
  if (!own.text) delete own.hidden;
  setLanguage(chosen);
  writeState(panel, own);
  showAgain(chosen);
}

function changeTheme(chosen) {
  localStorage.setItem(THEME, chosen);
  document.documentElement.dataset.theme = chosen;
  showAgain(chosen);
}

/** Show the panel in its new clothes, with the switch that was used still in focus. */
function showAgain(chosen) {
  if (info) show({ keepFocus: true });
  else frame();
  document.querySelector(`#settings input[value="${chosen}"]`).focus();
}

/** The panel to begin with: one that the loaded models can serve. */
const firstPanel = () =>
  able(info, "fill-mask").length ? "fill" : able(info, ...tasks.TASKS).length ? "tasks" : "meaning";

/** Show the panel that the address names. */
function show({ keepFocus = false } = {}) {
  leave?.();
  leave = null;
  let { panel, params } = readState();
  if (!PANELS[panel]) {
    panel = firstPanel();
    params = new URLSearchParams();
    writeState(panel, {});
  }
  frame();
  document.title = `${t(`${panel}.name`)} · unmask Studio`;
  const heading = h("h1", { tabindex: "-1" }, t(`${panel}.title`));
  const body = div(`panel panel-${panel}`);
  fill(main, div("intro", heading, h("p", { class: "lead" }, t(`${panel}.lead`))), body);
  const save = (values) => {
    writeState(panel, values);
    document.querySelector("#nav [aria-current]").href = linkTo(panel);
  };
  leave = PANELS[panel].mount(body, { info, params, save, announce });
  if (!keepFocus) heading.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function askForKey(words) {
  const input = h("input", { type: "password", autocomplete: "off", required: true });
  const form = h(
    "form",
    {
      class: "card narrow",
      onsubmit: (event) => {
        event.preventDefault();
        setKey(input.value);
        start();
      },
    },
    h("h1", {}, t("key.title")),
    h("p", { class: "status failed", role: "alert" }, words),
    field(t("key.label"), input, t("key.hint")),
    h("button", { class: "primary" }, t("key.go")),
  );
  fill(main, form);
  input.focus();
}

async function start() {
  try {
    info = await get("/info");
    if (info.key_needed) await get("/v1/models");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401 || error.status === 403) return askForKey(error.message);
    return fill(
      main,
      div(
        "card narrow",
        h("h1", {}, t("app.down")),
        h("p", { class: "status failed", role: "alert" }, error.message),
        h("button", { class: "primary", onclick: start }, t("app.again")),
      ),
    );
  }
  show({ keepFocus: true });
}

await loadStrings();
document.documentElement.dataset.theme = localStorage.getItem(THEME) ?? "auto";
frame();
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address after the # belongs to the panel
  main.focus();
});
window.addEventListener("hashchange", () => info && show());
start();
