// Plots: Vega-Lite draws them, expressions interpreted and not compiled, so that the page's policy can forbid eval.
const plots = JSON.parse(document.getElementById("plots").textContent);

function made(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside.filter((part) => part !== null)); // strings become text, never markup
  return element;
}

function showTip(handler, event, item, value) {
  const tip = document.getElementById("tip");
  tip.hidden = value === null || value === undefined || value === "";
  if (tip.hidden) return;
  const lines = typeof value === "object" ? Object.entries(value) : [["", value]];
  tip.replaceChildren(
    ...lines.map(([name, one]) => made("div", {}, made("span", {}, String(name)), " ", made("b", {}, String(one))))
  );
  const across = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const down = event.clientY + 14 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 8 : event.clientY + 14;
  tip.style.left = `${Math.max(4, across)}px`;
  tip.style.top = `${Math.max(4, down)}px`;
}

async function drawChart(holder) {
  const spec = plots[holder.dataset.plot];
  // Below the plot, two legends stand one under the other: side by side, one would cover the symbols of the other.
  const below = { orient: "bottom", columns: 2, labelLimit: 130, layout: { bottom: { anchor: "start", direction: "vertical" } } };
  if (holder.clientWidth < 520) spec.config.legend = { ...spec.config.legend, ...below };
  const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: showTip };
  await vegaEmbed(holder, spec, options);
}

// Nearest to the reader first, one after the other; between two plots the reader may scroll and type.
async function drawCharts() {
  const waiting = [...document.querySelectorAll("[data-plot]")];
  const away = (holder) => {
    const { top, bottom } = holder.getBoundingClientRect();
    return Math.max(0, top - innerHeight, -bottom);
  };
  while (waiting.length) {
    waiting.sort((one, other) => away(other) - away(one));
    if (away(waiting.at(-1)) > 0) ready("yes"); // all that is in view is drawn
    await drawChart(waiting.pop());
    await new Promise((go) => setTimeout(go));
  }
  ready("yes");
  ready("all");
}

// For those who measure: when the page can be used, and when all of it is drawn.
function ready(how) {
  const { dataset } = document.documentElement;
  if (dataset.ready === how) return;
  dataset.ready = how;
  performance.mark(how === "all" ? "drawn" : "ready");
}

function numbersOf(spec) {
  const tables = [spec, ...(spec.layer || [])].filter((part) => part.data).map((part) => part.data.values);
  return tables.filter((rows) => rows.length).map((rows) => {
    const fields = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((field) => field !== "series" && field !== "place");
    const head = made("tr", {}, ...fields.map((field) => made("th", { scope: "col" }, field)));
    const body = rows.map((row) => made("tr", {}, ...fields.map((field) => made("td", {}, shownNumber(row[field])))));
    return made("table", {}, made("thead", {}, head), made("tbody", {}, ...body));
  });
}

function shownNumber(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(4) : String(value);
}

for (const details of document.querySelectorAll("[data-numbers]")) {
  details.addEventListener("toggle", () => {
    const holder = details.querySelector("div");
    if (details.open && !holder.hasChildNodes()) {
      const seen = new Set(); // layers may share their data
      holder.append(...numbersOf(plots[details.dataset.numbers]).filter((table) => !seen.has(table.textContent) && seen.add(table.textContent)));
    }
  });
}
