// Elements, built and arranged. No text is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("p", {class: "x", onclick: f, vars: {"--w": 0.3}}, "text", child…). */
export function h(tag, props = {}, ...children) {
  return furnish(document.createElement(tag), props, children);
}

/** A box with a class. */
export const div = (kind, ...children) => h("div", { class: kind }, ...children);

/** The same as `h` for SVG. */
export function s(tag, props = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), props, children);
}

function furnish(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else if (name === "vars") setVars(node, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Set CSS variables; unlike a style attribute, the page's security policy allows it. */
export function setVars(node, vars) {
  for (const [name, value] of Object.entries(vars)) node.style.setProperty(name, value);
}

/** Put new children in the place of the old ones. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter(Boolean));
  return node;
}

let labels = 0;

/** A labelled form field. */
export function field(label, control, hint = "") {
  control.id ||= `field-${++labels}`;
  const note = hint && h("p", { class: "hint", id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

/** A field for longer text, which grows with it. */
export function area(value, rows = 2, maxlength = 5000) {
  return h("textarea", { rows, maxlength, spellcheck: false, value });
}

/** A quiet line of text. */
export const note = (words) => h("p", { class: "soft" }, words);

/** A choice of one of a few, as a row of radio buttons; `options` are [value, words]. */
export function segmented(label, options, chosen, change) {
  const name = `choice-${++labels}`;
  const radio = ([value, words]) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => change(value) }),
      h("span", {}, words),
    );
  return h("fieldset", { class: "segmented" }, h("legend", { class: "unseen" }, label), options.map(radio));
}

/** A drop-down list; `options` are [value, words]. */
export function select(options, chosen, change) {
  const list = h(
    "select",
    { onchange: () => change(list.value) },
    options.map(([value, words]) => h("option", { value, selected: value === chosen }, words)),
  );
  return list;
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** One tab stop for many buttons; arrows, Home and End go among them. `columns` makes up and down jump a row. */
export function roving(box, columns = 1) {
  const items = () => [...box.querySelectorAll("button:not(:disabled)")];
  const current = (item) => items().forEach((one) => (one.tabIndex = one === item ? 0 : -1));
  box.onkeydown = (event) => {
    const all = items();
    const here = all.indexOf(event.target);
    if (here < 0) return;
    const [right, down] = STEPS[event.key] ?? [0, 0];
    let next = here + right + down * columns;
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = all.length - 1;
    if (next === here || !all[next]) return;
    event.preventDefault();
    all[next].focus();
  };
  box.onfocusin = (event) => items().includes(event.target) && current(event.target);
  const all = items();
  current(all.find((item) => item.getAttribute("aria-pressed") === "true" && !item.disabled) ?? all[0]);
}

/** Call `act` once `wait` milliseconds have passed without another call. */
export function debounce(act, wait = 350) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...args), wait);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
