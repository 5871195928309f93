// Curves of a run as SVG, with the values under the pointer.

import { fill, h, s } from "./dom.js";
import { number, t } from "./i18n.js";

const [WIDTH, HEIGHT] = [380, 210];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 12, 12, 30];
const POINTS = 160; // a longer curve shows means
const COLOURS = 6;

/** A chart of series {name, points: [[step, value]…], best: the step to mark}; `write` puts values in words. */
export function curves(title, series, write) {
  const shown = series.map(({ name, points, best }) => ({
    name,
    points: thin(points),
    best: points.find(([step]) => step === best),
  }));
  const all = shown.flatMap(({ points, best }) => (best ? [...points, best] : points));
  const xs = span(all.map(([x]) => x));
  const grid = ticks(...span(all.map(([, y]) => y)));
  const place = {
    x: (x) => LEFT + ((x - xs[0]) / (xs[1] - xs[0] || 1)) * (WIDTH - LEFT - RIGHT),
    y: (y) => HEIGHT - BOTTOM - ((y - grid[0]) / (grid.at(-1) - grid[0])) * (HEIGHT - TOP - BOTTOM),
  };
  const last = shown.map(({ name, points }) => `${name} ${write(points.at(-1)[1])}`).join(", ");
  const picture = s(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      class: "curves",
      role: "img",
      "aria-label": t("runs.chart", { title, values: last }),
    },
    axes(xs, grid, place, write),
    shown.map((one, index) => curve(one, index, place)),
  );
  const legend = h(
    "p",
    { class: "curve-legend small" },
    shown.flatMap(({ name, points, best }, index) => [
      key(name, index, write(points.at(-1)[1])),
      best && bestKey(best, write),
    ]),
  );
  follow(picture, shown, place, write, legend);
  return h("figure", { class: "card" }, h("h2", { class: "minor" }, title), legend, picture);
}

const colour = (index) => `series-${index % COLOURS}`;

const key = (name, index, value) =>
  h(
    "span",
    {},
    h("span", { class: `line-key ${colour(index)}`, "aria-hidden": "true" }),
    `${name} `,
    h("strong", {}, value),
  );

const bestKey = ([step, value], write) =>
  h(
    "span",
    {},
    h("span", { class: "best-key", "aria-hidden": "true" }),
    t("runs.best", { value: write(value), step: number(step, 6) }),
  );

function axes(xs, grid, place, write) {
  const lines = grid.map((value) => [
    s("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: place.y(value), y2: place.y(value) }),
    s("text", { class: "end", x: LEFT - 8, y: place.y(value) + 4 }, write(value)),
  ]);
  const ends = xs.map((x, index) =>
    s("text", { class: index ? "end" : "", x: place.x(x), y: HEIGHT - 8 }, number(x, 6)),
  );
  return s(
    "g",
    {},
    lines.flat(),
    ends,
    s("text", { class: "middle", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8 }, t("runs.step")),
  );
}

function curve({ points, best }, index, place) {
  const ring = best && s("circle", { class: "best", r: 6, cx: place.x(best[0]), cy: place.y(best[1]) });
  const way = points
    .map(([x, y], number) => `${number ? "L" : "M"}${place.x(x).toFixed(1)} ${place.y(y).toFixed(1)}`)
    .join("");
  const dots =
    points.length <= 30
      ? points.map(([x, y]) => s("circle", { r: 2.6, cx: place.x(x), cy: place.y(y) }))
      : [];
  return s("g", { class: `curve ${colour(index)}` }, s("path", { d: way }), dots, ring);
}

/** Show the values nearest to the pointer in the legend. */
function follow(picture, series, place, write, legend) {
  const line = s("line", { class: "pointer", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  const rest = [...legend.childNodes];
  picture.append(line);
  picture.addEventListener("pointermove", (event) => {
    const frame = picture.getBoundingClientRect();
    const x = ((event.clientX - frame.left) / frame.width) * WIDTH;
    const near = series.map(({ points }) =>
      points.reduce((best, point) =>
        Math.abs(place.x(point[0]) - x) < Math.abs(place.x(best[0]) - x) ? point : best,
      ),
    );
    const step = near.reduce((best, point) =>
      Math.abs(place.x(point[0]) - x) < Math.abs(place.x(best[0]) - x) ? point : best,
    )[0];
    line.setAttribute("x1", place.x(step));
    line.setAttribute("x2", place.x(step));
    line.setAttribute("visibility", "visible");
    const values = near.map((point, index) => key(series[index].name, index, write(point[1])));
    fill(legend, values, h("span", { class: "soft" }, `${t("runs.step")} ${number(step, 6)}`));
  });
  picture.addEventListener("pointerleave", () => {
    line.setAttribute("visibility", "hidden");
    fill(legend, rest);
  });
}

/** At most POINTS points: means of neighbours. */
function thin(points) {
  const size = Math.ceil(points.length / POINTS);
  if (size <= 1) return points;
  const mean = (group, axis) => group.reduce((sum, point) => sum + point[axis], 0) / group.length;
  return Array.from({ length: Math.ceil(points.length / size) }, (_, index) => {
    const group = points.slice(index * size, (index + 1) * size);
    return [group.at(-1)[0], mean(group, 1)];
  });
}

const span = (values) => [
  values.reduce((a, b) => Math.min(a, b), Infinity),
  values.reduce((a, b) => Math.max(a, b), -Infinity),
];

/** Round numbers from at most `low` to at least `high`. */
function ticks(low, high) {
  const rough = (high - low || Math.abs(high) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => rough <= factor * power * 1.000001);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(Math.ceil(high / step - 1e-9), first + 1);
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}
