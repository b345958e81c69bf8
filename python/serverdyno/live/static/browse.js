// A table of experiments; for the selected ones, two charts and a table of their load levels.
"use strict";

const FIRST_TICKED = 4;
const place = (id) => document.getElementById(id);
const ticked = new Set();
let experiments = [];
let charts = null;
let unit = null;

function words(experiment) {
  const names = (experiment.curves || []).map((curve) => curve.configuration);
  return [experiment.created, experiment.plan, experiment.title, experiment.suite, experiment.folder, ...names].join(" ").toLowerCase();
}

function highest(experiment) {
  const points = experiment.curves.flatMap((curve) => curve.points.map((point) => ({ ...point, name: curve.configuration })));
  if (!points.length) return "not measured";
  const best = points.reduce((first, second) => (second.mean > first.mean ? second : first));
  return `${number(best.mean)} ${experiment.unit}, ${best.name}`;
}

function list() {
  const wanted = place("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = experiments.filter((each) => wanted.every((word) => words(each).includes(word)));
  place("state").textContent = `${shown.length} of ${experiments.length} experiments`;
  place("rows").replaceChildren(...shown.map(line));
}

function line(experiment) {
  if (experiment.problem) {
    const cell = element("td", `${experiment.folder}: ${experiment.problem}`, "bad wide text");
    cell.colSpan = 7;
    return row([cell]);
  }
  const tick = element("input");
  tick.type = "checkbox";
  tick.checked = ticked.has(experiment.number);
  tick.setAttribute("aria-label", `compare ${experiment.folder}`);
  tick.addEventListener("change", () => {
    if (tick.checked) ticked.add(experiment.number);
    else ticked.delete(experiment.number);
    compare();
  });
  const first = element("td");
  first.append(tick);
  const report = element("td", experiment.has_report ? undefined : `dyno report ${experiment.folder}`, "text");
  if (experiment.has_report) {
    const link = element("a", "report");
    link.href = `reports/${experiment.number}`;
    report.append(link);
  }
  const state = experiment.levels === experiment.levels_planned ? "complete" : `${experiment.levels} of ${experiment.levels_planned} levels`;
  return row([
    first,
    element("td", experiment.created),
    element("td", experiment.title, "text wide"),
    element("td", state, "text"),
    element("td", highest(experiment), "text"),
    element("td", experiment.folder, "text wide"),
    report,
  ]);
}

function compare() {
  const chosen = experiments.filter((each) => ticked.has(each.number));
  const first = chosen[0];
  // Lines in different units, or over different loads, have no common axis.
  const alike = chosen.filter((each) => each.unit === first.unit && each.axis === first.axis);
  const several = alike.length > 1;
  const curves = alike.flatMap((each) =>
    each.curves.map((curve) => ({ name: several ? `${curve.configuration}, ${each.created} (${each.number + 1})` : curve.configuration, points: curve.points })),
  );
  if (!charts || unit !== first?.unit) {
    place("throughput").replaceChildren();
    place("p99").replaceChildren();
    unit = first?.unit;
    charts = {
      throughput: new Chart(place("throughput"), first?.axis ?? "", unit ?? ""),
      p99: new Chart(place("p99"), first?.axis ?? "", "ms"),
    };
  }
  charts.throughput.draw(curves.map(({ name, points }) => ({ name, points: points.map((point) => ({ x: point.level, y: point.mean })) })));
  charts.p99.draw(curves.map(({ name, points }) => ({ name, points: points.map((point) => ({ x: point.level, y: point.p99_ms })) })));
  place("compared-head").replaceChildren(
    row(["configuration", first?.axis ?? "load", unit ?? "throughput", "lowest", "highest", "p99 ms", "errors", "repetitions"], "th"),
  );
  place("compared").replaceChildren(
    ...curves.flatMap((curve, index) =>
      curve.points.map((point) => {
        const name = element("td");
        name.append(element("span", "", `key key-${index % SERIES}`), curve.name);
        return row([name, number(point.level), number(point.mean), number(point.lowest), number(point.highest), number(point.p99_ms), number(point.errors), point.repetitions]);
      }),
    ),
  );
  const left = chosen.length - alike.length;
  if (left) place("state").textContent = `The charts leave out ${left} selected experiments: their unit or load axis differs from the first one's.`;
}

async function start() {
  const answer = await fetch("experiments.json");
  experiments = await answer.json();
  place("head").replaceChildren(row(["compare", "date (UTC)", "title", "state", "highest mean", "folder", "report"], "th"));
  for (const each of experiments.filter((found) => !found.problem).slice(0, FIRST_TICKED)) ticked.add(each.number);
  place("filter").addEventListener("input", list);
  list();
  compare();
}

start().catch((error) => {
  place("state").textContent = `The experiments could not be read: ${error.message}`;
});
