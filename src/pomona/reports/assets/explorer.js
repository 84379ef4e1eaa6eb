// The tree explorer: filters, a list of examples page by page, and the trees of the one that was chosen.
const tests = JSON.parse(document.getElementById("tests").textContent);
const perPage = 40;
const state = { test: null, run: 0, rows: [], at: 0 };
const part = (id) => document.getElementById(id);

function option(text, value) {
  return made("option", { value }, text);
}

async function chooseTest(number) {
  state.test = null;
  state.test = await opened(tests[number]);
  state.texts = null;
  state.missed = new Map();
  part("which-run").replaceChildren(...state.test.runs.map((run, place) => option(run.name, place)));
  state.run = 0;
  filter();
}

// -- rows --------------------------------------------------------------------------------------------------------------

function tokensOf(row) {
  const { tokens, tokenStart, vocabulary } = state.test.corpus;
  return Array.from(tokens.subarray(tokenStart[row], tokenStart[row + 1]), (token) => vocabulary[token]);
}

function answerOf(run, row) {
  return run.texts[run.answers[row]];
}

function goldOf(row) {
  const { answers, targets } = state.test.corpus;
  return answers[targets[row]];
}

// The trees of a row: the gold ones side by side over the columns, and the model's if it chose one.
function treesOf(row, run) {
  const { corpus } = state.test;
  const gold = [];
  let node = corpus.nodeStart[row];
  let columns = 0;
  for (let place = row * corpus.width; place < (row + 1) * corpus.width; place++) {
    const tree = shaped(corpus.arities, node, node + corpus.nodes[place], corpus.bracketed, columns);
    gold.push({ tree, node });
    node += corpus.nodes[place];
    columns = tree.columns;
  }
  const model = run && run.arities ? shaped(run.arities, run.nodeStart[row], run.nodeStart[row + 1], false) : null;
  const together = model !== null && gold.length === 1 && model.columns === columns;
  return { gold, model, columns, marks: together ? compared(gold[0].tree, model) : null };
}

// How many gold lists the model does not close as a unit, for every row; worked out when it is first asked for.
function missedLists(place) {
  if (!state.missed.has(place)) {
    const run = state.test.runs[place];
    const found = new Uint16Array(state.test.corpus.rows);
    for (let row = 0; run.arities && row < found.length; row++) {
      const { gold, marks } = treesOf(row, run);
      if (marks) found[row] = gold[0].tree.children.filter((inside, node) => inside.length && !marks.closed[node]).length;
    }
    state.missed.set(place, found);
  }
  return state.missed.get(place);
}

function wanted() {
  const { corpus, runs } = state.test;
  const run = runs[state.run];
  switch (part("which-rows").value) {
    case "wrong":
      return (row) => !run.right[row];
    case "right":
      return (row) => run.right[row];
    case "disagree":
      return (row) => new Set(runs.map((one) => answerOf(one, row))).size > 1;
    case "missed": {
      const missed = missedLists(state.run);
      return (row) => missed[row] > 0;
    }
    default:
      return () => true;
  }
}

function filter() {
  if (!state.test) return; // pressed before the examples are unpacked; chooseTest calls this again when they are
  const { corpus } = state.test;
  const keep = wanted();
  const nesting = Number(part("least-nesting").value) || 0;
  const length = Number(part("least-length").value) || 0;
  const text = part("has-text").value.trim();
  if (text && !state.texts) state.texts = Array.from({ length: corpus.rows }, (_, row) => tokensOf(row).join(" "));
  const rows = [];
  for (let row = 0; row < corpus.rows; row++) {
    if (corpus.nesting[row] >= nesting && corpus.lengths[row] >= length && keep(row) && (!text || state.texts[row].includes(text))) rows.push(row);
  }
  const amounts = { longest: (row) => -corpus.lengths[row], shortest: (row) => corpus.lengths[row], deepest: (row) => -corpus.nesting[row] };
  const amount = amounts[part("order").value];
  if (amount) rows.sort((one, other) => amount(one) - amount(other) || one - other);
  state.rows = rows;
  const held = corpus.rows < corpus.total ? ` The page holds the first ${corpus.rows.toLocaleString("en")} of ${corpus.total.toLocaleString("en")}.` : "";
  part("count").textContent = `${rows.length.toLocaleString("en")} of ${corpus.rows.toLocaleString("en")} examples.${held}`;
  choose(0);
}

// -- the list ----------------------------------------------------------------------------------------------------------

function choose(place) {
  if (!state.test) return;
  state.at = Math.max(0, Math.min(place, state.rows.length - 1));
  const page = Math.floor(state.at / perPage);
  const pages = Math.max(1, Math.ceil(state.rows.length / perPage));
  const list = part("rows");
  const run = state.test.runs[state.run];
  const first = page * perPage;
  list.replaceChildren(
    ...state.rows.slice(first, first + perPage).map((row, offset) => {
      const right = Boolean(run.right[row]);
      const text = tokensOf(row).slice(0, 40).join(" ");
      return made(
        "li",
        { role: "option", id: `row-${first + offset}`, "aria-selected": String(first + offset === state.at), "aria-setsize": state.rows.length, "aria-posinset": first + offset + 1, class: right ? "right" : "wrong" },
        made("span", { class: "verdict", "aria-label": right ? "right" : "wrong" }, right ? "✓" : "✗"),
        made("span", { class: "text" }, text),
        made("span", { class: "depth", title: "nesting depth" }, String(state.test.corpus.nesting[row]))
      );
    })
  );
  if (state.rows.length) list.setAttribute("aria-activedescendant", `row-${state.at}`);
  else list.removeAttribute("aria-activedescendant");
  const current = document.getElementById(`row-${state.at}`);
  if (current) {
    // Scroll the list alone: scrollIntoView would move the whole page as well.
    const [top, bottom] = [current.offsetTop - list.offsetTop, current.offsetTop - list.offsetTop + current.offsetHeight];
    if (top < list.scrollTop) list.scrollTop = top;
    if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
  }
  part("page").textContent = `page ${page + 1} of ${pages}`;
  part("previous-page").disabled = page === 0;
  part("next-page").disabled = page + 1 >= pages;
  show();
}

const moves = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

function move(event, keys) {
  if (!state.test || !keys.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  choose(state.at + moves[event.key]);
}

// -- the example -------------------------------------------------------------------------------------------------------

function show() {
  const holder = part("shown");
  if (!state.rows.length) {
    holder.replaceChildren(made("p", { class: "note" }, "No example passes these filters."));
    return;
  }
  const row = state.rows[state.at];
  const { corpus, runs } = state.test;
  const run = runs[state.run];
  const facts = [`row ${row + 1}`, `${corpus.lengths[row]} tokens`, `nesting ${corpus.nesting[row]}`, `dependency ${corpus.dependency[row]}`];
  if (corpus.ids) facts.splice(1, 0, `id ${corpus.ids[row]}`);
  const words = tokensOf(row).join(" ");
  holder.replaceChildren(
    made("p", { class: "facts" }, facts.join(" · ")),
    made("p", { class: "sentence", tabindex: "0" }, words.length > 4000 ? `${words.slice(0, 4000)} …` : words),
    answers(row, runs),
    ...picture(row, run)
  );
}

function answers(row, runs) {
  const chips = runs.map((run, place) => {
    const right = Boolean(run.right[row]);
    const chip = made("button", { type: "button", class: `chip ${right ? "right" : "wrong"}`, "aria-pressed": String(place === state.run) }, `${run.name}: `, made("b", {}, answerOf(run, row)), right ? " ✓" : " ✗");
    chip.addEventListener("click", () => {
      part("which-run").value = String(place);
      state.run = place;
      show();
    });
    return chip;
  });
  return made("div", { class: "answers" }, made("span", { class: "chip gold" }, "gold: ", made("b", {}, goldOf(row))), ...chips);
}

function picture(row, run) {
  const { corpus } = state.test;
  const { gold, model, marks } = treesOf(row, run);
  const drawn = gold.reduce((sum, one) => sum + one.tree.count, 0) + (model ? model.count : 0);
  if (drawn > most) return [made("p", { class: "note" }, `This tree has ${drawn.toLocaleString("en")} nodes, more than are drawn here.`)];
  const tokens = tokensOf(row);
  const labels = corpus.bracketed ? tokens : gold.flatMap(leafLabels);
  const own = model && !marks; // a tree over other columns than the gold ones has a row of its own
  const [above, below] = [placed(labels), placed(own ? (model.columns === tokens.length ? tokens : Array.from({ length: model.columns }, (_, at) => String(at + 1))) : labels)];
  const tall = Math.max(...gold.map((one) => one.tree.height[one.tree.count - 1])) * size.gold;
  const base = size.margin + tall + size.row / 2;
  const lower = own ? base + size.row + 8 : base;
  const deep = model ? model.height[model.count - 1] * size.model + 20 : 0;
  const width = Math.ceil(Math.max(above.width, own ? below.width : 0));
  const height = Math.ceil(lower + size.row / 2 + deep + size.margin);
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "tree", role: "group", "aria-label": model ? "The gold tree above the tokens, the model's tree below them" : "The gold tree" });
  const status = made("p", { class: "status", role: "status" }, "");
  const parts = gold.map(({ tree, node }, place) =>
    drawnTree(tree, { middles: above.middles, base, up: -1, step: size.gold, name: gold.length > 1 ? `gold tree ${place + 1}` : "gold tree", node: goldNode(tree, node, marks) })
  );
  if (model) parts.push(drawnTree(model, { middles: below.middles, base: lower, up: 1, step: size.model, name: `tree of ${run.name}`, node: modelNode(model, marks, answerOf(run, row), run.right[row]) }));
  const rows = [tokenRow(labels, above.middles, base), ...(own ? [tokenRow(Array.from(below.middles, (_, at) => tokens[at] ?? ""), below.middles, lower)] : [])];
  svg.append(...parts.map((one) => one.lines), ...rows.map((one) => one.group), ...parts.map((one) => one.nodes));
  parts.forEach((one, place) => {
    const tree = place < gold.length ? gold[place].tree : model;
    const under = place < gold.length || !own ? rows[0] : rows[1];
    one.nodes.addEventListener("focusin", (event) => told(event, tree, under, status));
    one.nodes.addEventListener("mouseover", (event) => told(event, tree, under, status));
  });
  return [legend(model, marks, gold, run), made("div", { class: "canvas" }, svg), status];
}

function leafLabels({ tree, node }) {
  const { corpus } = state.test;
  const found = [];
  for (let leaf = 0; leaf < tree.count; leaf++) {
    if (tree.children[leaf].length) continue;
    const [name, value] = [corpus.names[corpus.symbols[node + leaf]], corpus.outcomes[corpus.values[node + leaf]]];
    found.push(value === undefined || value === name ? name : `${name}=${value}`);
  }
  return found;
}

function goldNode(tree, first, marks) {
  const { corpus } = state.test;
  return (node) => {
    const label = corpus.names[corpus.symbols[first + node]] || "·";
    const value = corpus.outcomes[corpus.values[first + node]];
    const kind = marks ? (marks.closed[node] ? "closed" : "missed") : "list";
    const also = marks ? (marks.closed[node] ? "; the model closes it as a unit" : "; the model does not close it as a unit") : "";
    return { label, value, kind, words: `${label}${value === undefined ? "" : `, value ${value}`}, tokens ${tree.first[node] + 1} to ${tree.last[node] + 1}${also}` };
  };
}

function modelNode(tree, marks, answer, right) {
  return (node) => {
    const root = node === tree.count - 1;
    const kind = marks ? (marks.list[node] ? "closed" : marks.crossing[node] ? "crossing" : "inside") : "inside";
    const means = { closed: "a list of the gold tree", crossing: "crosses a list of the gold tree", inside: "within a list" };
    const words = `${root ? `answer ${answer}, ${right ? "right" : "wrong"}; ` : ""}tokens ${tree.first[node] + 1} to ${tree.last[node] + 1}${marks ? `: ${means[kind]}` : ""}`;
    return root ? { label: "answer", value: answer, kind: `${kind} root ${right ? "right" : "wrong"}`, words } : { label: "", value: "", kind, words };
  };
}

function tokenRow(labels, middles, y) {
  const group = shape("g", { class: "tokens" });
  const cells = labels.map((label, place) => {
    const text = shape("text", { x: middles[place], y, dy: "0.35em", "text-anchor": "middle" }, document.createTextNode(label));
    group.append(text);
    return text;
  });
  return { group, cells };
}

function told(event, tree, row, status) {
  const mark = event.target.closest("[data-node]");
  if (!mark) return;
  const node = Number(mark.dataset.node);
  for (const other of row.group.closest("svg").querySelectorAll("text.under")) other.classList.remove("under");
  for (let place = tree.first[node]; place <= tree.last[node]; place++) row.cells[place]?.classList.add("under");
  status.textContent = mark.getAttribute("aria-label");
}

function legend(model, marks, gold, run) {
  if (!model) return made("p", { class: "legend" }, "The gold tree with the value of every node. This run chooses no trees.");
  if (!marks) return made("p", { class: "legend" }, "The gold tree above, the model's below, over its own tokens.");
  const lists = gold[0].tree.children.filter((inside) => inside.length).length;
  const closed = marks.closed.filter(Boolean).length;
  const crossing = marks.crossing.filter(Boolean).length;
  return made(
    "p",
    { class: "legend" },
    `Gold above, ${run.name} below: `,
    made("span", { class: "key closed" }, `${closed} of ${lists} lists closed as a unit`),
    ", ",
    made("span", { class: "key missed" }, `${lists - closed} not`),
    "; ",
    made("span", { class: "key crossing" }, `${crossing} constituents cross a list`),
    "."
  );
}

// -- wiring ------------------------------------------------------------------------------------------------------------

async function startExplorer() {
  if (!part("explorer")) return;
  part("which-test").replaceChildren(...tests.map((test, place) => option(test.name, place)));
  part("which-test").addEventListener("change", (event) => chooseTest(Number(event.target.value)));
  part("which-run").addEventListener("change", (event) => {
    state.run = Number(event.target.value);
    filter();
  });
  for (const id of ["which-rows", "order"]) part(id).addEventListener("change", () => filter());
  for (const id of ["least-nesting", "least-length", "has-text"]) part(id).addEventListener("input", () => filter());
  part("rows").addEventListener("keydown", (event) => move(event, Object.keys(moves)));
  part("rows").addEventListener("click", (event) => {
    const row = event.target.closest("[role=option]");
    if (row) choose(Number(row.id.slice("row-".length)));
  });
  document.addEventListener("keydown", (event) => {
    if (!event.target.closest("input, select, textarea, [role=listbox]")) move(event, ["j", "k"]);
  });
  part("previous-page").addEventListener("click", () => choose((Math.floor(state.at / perPage) - 1) * perPage));
  part("next-page").addEventListener("click", () => choose((Math.floor(state.at / perPage) + 1) * perPage));
  await chooseTest(0);
}

await startExplorer();
await drawCharts();
