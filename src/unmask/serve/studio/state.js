// The state of a panel lives in the address, after the #, so that a link shows what its sender saw.
// What stands there never leaves the browser.

const remembered = new Map();

/** The panel and its parameters, from the address. */
export function readState() {
  const [panel, query = ""] = location.hash.slice(1).split("?");
  return { panel, params: new URLSearchParams(query) };
}

/** Write parameters into the address without a step in the history; empty ones are left out. */
export function writeState(panel, values) {
  const kept = Object.entries(values).filter(
    ([, value]) => value !== "" && value !== null && value !== undefined,
  );
  const query = new URLSearchParams(kept).toString();
  remembered.set(panel, query);
  history.replaceState(null, "", `#${panel}${query ? `?${query}` : ""}`);
}

/** The address of a panel as it was left. */
export function linkTo(panel) {
  const query = remembered.get(panel);
  return `#${panel}${query ? `?${query}` : ""}`;
}
