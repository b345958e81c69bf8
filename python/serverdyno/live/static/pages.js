// Common parts of both pages: formatted numbers, tables of plain text, and a chart with one line per configuration.
"use strict";

const SERIES = 6;

function number(value, digits = 3) {
  if (value === null || value === undefined) return "unknown";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return Number(value.toPrecision(digits)).toString();
}

function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

// Text is never read as HTML: names come from plans and servers.
function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function row(cells, tag = "td") {
  const made = document.createElement("tr");
  for (const cell of cells) {
    if (cell instanceof Node) made.append(cell);
    else made.append(element(tag, cell));
  }
  return made;
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// `curves`: [{name, points: [{x, y, low?, high?}]}]. All curves share one list of x, as the chart library requires.
function aligned(curves) {
  const xs = [...new Set(curves.flatMap((curve) => curve.points.map((point) => point.x)))].sort((a, b) => a - b);
  const ys = curves.map((curve) => {
    const found = new Map(curve.points.map((point) => [point.x, point.y]));
    return xs.map((x) => (found.has(x) ? found.get(x) : null));
  });
  return [xs, ...ys];
}

class Chart {
  constructor(place, axis, unit) {
    this.place = place;
    this.axis = axis;
    this.unit = unit;
    this.names = [];
    this.plot = null;
    new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(place);
  }

  size() {
    return { width: Math.max(200, this.place.clientWidth), height: 280 };
  }

  draw(curves) {
    const names = curves.map((curve) => curve.name);
    if (this.plot && names.join("\n") === this.names.join("\n")) {
      this.plot.setData(aligned(curves));
      return;
    }
    if (this.plot) this.plot.destroy();
    this.names = names;
    const ink = style("--quiet");
    const grid = { stroke: style("--grid"), width: 1 };
    const line = (name, place) => ({
      label: name,
      stroke: style(`--series-${place % SERIES}`),
      dash: place < SERIES ? [] : [6, 4],
      width: 2,
      spanGaps: true,
      points: { show: true, size: 7 },
      value: (_, value) => (value === null || value === undefined ? "" : number(value)),
    });
    this.plot = new uPlot(
      {
        ...this.size(),
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [
          { label: this.axis, stroke: ink, grid },
          { label: this.unit, stroke: ink, grid, size: 74, values: (_, ticks) => ticks.map((tick) => number(tick)) },
        ],
        series: [{ label: this.axis }, ...names.map(line)],
      },
      aligned(curves),
      this.place,
    );
  }
}
