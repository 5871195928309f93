// The interface in two languages; every string stands in strings.json.

const LANGUAGES = ["en", "pt"];
const KEPT = "unmask.language";
let strings = {};
let current = "en";

/** Read the strings, and take the language chosen before, else the browser's. */
export async function loadStrings() {
  strings = await (await fetch("/studio/strings.json")).json();
  const wanted = [localStorage.getItem(KEPT), ...navigator.languages].filter(Boolean);
  const known = wanted.map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => LANGUAGES.includes(tag));
  apply(known ?? "en");
}

function apply(language) {
  current = language;
  document.documentElement.lang = language === "pt" ? "pt-BR" : "en";
}

/** The language of the interface: "en" or "pt". */
export const language = () => current;

/** Change it, and keep the choice. */
export function setLanguage(chosen) {
  localStorage.setItem(KEPT, chosen);
  apply(chosen);
}

/** Whether a text is one of the examples that the panels begin with. */
export const isExample = (text) =>
  Object.entries(strings).some(
    ([key, words]) => /example|^tasks\..*-.*\./.test(key) && Object.values(words).includes(text),
  );

/** An example in the language of a model, if its card says one of ours; else in that of the interface. */
export const example = (key, model) => strings[key][model.language?.slice(0, 2)] ?? t(key);

/** Whether there are words of a key. */
export const known = (key) => key in strings;

/** The words of a key, with {names} replaced, and {name|one|more} by the one or the other word. */
export function t(key, values = {}) {
  const words = strings[key]?.[current];
  if (words === undefined) throw new Error(`no words for ${key}`);
  return words.replace(/\{(\w+)(?:\|(.*?)\|(.*?))?\}/g, (_, name, one, more) => {
    if (one === undefined) return values[name];
    return String(values[name]) === "1" ? one : more;
  });
}

/** A number as people of the language write it. */
export function number(value, digits = 2) {
  const tiny = value && Math.abs(value) < 1e-3;
  const shape = tiny
    ? { notation: "scientific", maximumSignificantDigits: 2 }
    : { maximumSignificantDigits: digits + 1 };
  return new Intl.NumberFormat(document.documentElement.lang, shape).format(value);
}

/** A number with fixed decimals. */
export function decimal(value, digits = 2) {
  return decimalAs("decimal", value, digits);
}

function decimalAs(style, value, digits) {
  const fixed = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const shape = { style, ...fixed, signDisplay: "negative" }; // never -0.00
  return new Intl.NumberFormat(document.documentElement.lang, shape).format(value);
}

/** A share in per cent. */
export function percent(share) {
  const size = Math.abs(share);
  const digits = size === 0 || size >= 0.0995 ? 0 : size >= 0.00995 ? 1 : 2;
  return decimalAs("percent", share, digits);
}

/** A large number in few letters. */
export function compact(value) {
  const shape = { notation: "compact", maximumSignificantDigits: 3 };
  return Math.abs(value) < 1e4
    ? number(value)
    : new Intl.NumberFormat(document.documentElement.lang, shape).format(value);
}

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];

/** A time in the unit that suits it. */
export function duration(seconds) {
  const [unit, size] = UNITS.find(([, size]) => seconds >= 2 * size) ?? ["second", 1];
  const shape = { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: size > 1 ? 1 : 0 };
  return new Intl.NumberFormat(document.documentElement.lang, shape).format(seconds / size);
}
