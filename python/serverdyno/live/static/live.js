// The page of a run: it receives server-sent events and draws their figures.
"use strict";

const MOST_ROWS = 200;
const MOST_SECONDS = 600;
const place = (id) => document.getElementById(id);
let about = null;
let charts = {};
let levels = [];
let rates = [];
let current = "";

function begin(data) {
  const again = about !== null;
  about = data;
  place("title").textContent = data.title;
  document.title = `${data.title}: a run`;
  place("about").textContent = `suite ${data.suite}; ${data.folder}`;
  place("head").replaceChildren(
    row(["configuration", "repetition", data.axis, data.unit, "p50 ms", "p99 ms", "errors", "server CPUs", "generator CPUs"], "th"),
  );
  if (again) return;
  charts = {
    throughput: new Chart(place("throughput"), data.axis, data.unit),
    p99: new Chart(place("p99"), data.axis, "ms"),
    server: new Chart(place("server"), data.axis, "CPUs"),
    rate: new Chart(place("rate"), "seconds", "operations/s"),
  };
}

function curves(figure) {
  return about.configurations
    .map((name) => {
      const byLevel = new Map();
      for (const level of levels) {
        if (level.configuration !== name || level[figure] === null) continue;
        byLevel.set(level.level, [...(byLevel.get(level.level) || []), level[figure]]);
      }
      const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
      return { name, points: [...byLevel].map(([x, values]) => ({ x, y: mean(values) })) };
    })
    .filter((curve) => curve.points.length);
}

function take(events) {
  for (const event of events) {
    if (event.kind === "level") {
      levels.push(event);
      const cells = [
        event.configuration, event.repetition, number(event.level), number(event.throughput), number(event.p50_ms),
        number(event.p99_ms), number(event.errors), number(event.server_cpus), number(event.generator_cpus),
      ];
      place("levels").prepend(row(cells));
      while (place("levels").rows.length > MOST_ROWS) place("levels").deleteRow(-1);
    } else if (event.kind === "end") {
      ended(event.report);
    } else {
      const said = event.hint ? `${event.text} (${event.hint})` : event.text;
      place("notices").append(element("p", event.kind === "failed" ? `Failed: ${said}` : said, event.kind === "failed" ? "bad" : ""));
    }
  }
  place("progress").max = about.levels_planned;
  place("progress").value = levels.length;
  charts.throughput.draw(curves("throughput"));
  charts.p99.draw(curves("p99_ms"));
  charts.server.draw(curves("server_cpus"));
  nodes();
}

function nodes() {
  const newest = levels[levels.length - 1];
  place("nodes-section").hidden = !newest?.nodes.length;
  if (!newest?.nodes.length) return;
  place("nodes-head").replaceChildren(row(["node", "clients", "operations/s", "Mbit/s received", "generator CPUs", "errors"], "th"));
  place("nodes").replaceChildren(
    ...newest.nodes.map((each) =>
      row([each.node, number(each.clients), number(each.operations_s), number(each.mbit_s), number(each.generator_cpus), number(each.errors)]),
    ),
  );
}

function tile(name, value, bad) {
  const made = element("div", name);
  made.append(element("b", value, bad ? "bad" : ""));
  return made;
}

function show(now) {
  const done = `${levels.length} of ${about.levels_planned} load levels finished`;
  if (now.configuration === undefined) {
    if (now.stage) place("state").textContent = `${done}. Now: ${now.stage}`;
    place("now").replaceChildren();
    return;
  }
  const left = Math.max(0, now.length_s - now.elapsed_s);
  place("state").textContent = `${done}. About ${duration(left + now.after_s)} left.`;
  const level = `${number(now.level)} ${now.noun}${now.level === 1 ? "" : "s"}`;
  place("now").replaceChildren(
    tile("configuration", now.configuration),
    tile(`repetition ${now.repetition}`, level),
    tile("operations per second", now.elapsed_s ? number(now.operations_s) : `${now.prepared ?? 0} clients ready`),
    tile("p99 ms so far", now.p99_ms ? number(now.p99_ms) : "–"),
    tile("errors in this load level", number(now.errors ?? 0), now.errors > 0),
    tile("time left of this load level", duration(left)),
  );
  const running = `${now.configuration} ${now.repetition} ${now.level}`;
  if (running !== current) [current, rates] = [running, []];
  if (now.elapsed_s && now.operations_s !== null) {
    rates.push({ x: now.elapsed_s, y: now.operations_s });
    rates = rates.slice(-2 * MOST_SECONDS);
    charts.rate.draw([{ name: "operations/s", points: rates }]);
  }
}

function ended(report) {
  events.close();
  place("now").replaceChildren();
  place("state").textContent = report
    ? `The run has ended. Report: ${report}`
    : "The run has ended, but it has written no report.";
}

const events = new EventSource("events");
events.addEventListener("about", (event) => begin(JSON.parse(event.data)));
events.addEventListener("new", (event) => take(JSON.parse(event.data)));
events.addEventListener("now", (event) => events.readyState !== EventSource.CLOSED && show(JSON.parse(event.data)));
events.onerror = () => {
  if (events.readyState !== EventSource.CLOSED) place("state").textContent = "The run does not answer: it has ended or was killed. `dyno resume` continues it.";
};
