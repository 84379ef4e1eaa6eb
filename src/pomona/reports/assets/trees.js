// Trees over columns. A tree is the number of children of each node in post-order; nothing here recurses.

// Children, parent, height and the columns under each node. In a bracketed sentence a list has two columns of its own.
function shaped(arities, from, to, bracketed, column = 0) {
  const count = to - from;
  const tree = { count, children: [], parent: new Int32Array(count).fill(-1), height: new Int32Array(count), first: new Int32Array(count), last: new Int32Array(count) };
  const open = [];
  for (let node = 0; node < count; node++) {
    const inside = open.splice(open.length - arities[from + node]);
    tree.children.push(inside);
    for (const child of inside) {
      tree.parent[child] = node;
      tree.height[node] = Math.max(tree.height[node], tree.height[child] + 1);
    }
    open.push(node);
  }
  const waiting = [count - 1];
  while (waiting.length) {
    const node = waiting.pop();
    if (node < 0) {
      tree.last[~node] = bracketed ? column++ : column - 1;
    } else if (!tree.children[node].length) {
      tree.first[node] = tree.last[node] = column++;
    } else {
      tree.first[node] = bracketed ? column++ : column;
      waiting.push(~node, ...tree.children[node].slice().reverse());
    }
  }
  tree.columns = column;
  return tree;
}

// Which constituents two trees over the same columns share, and which of the model's cross a gold one.
function compared(gold, model) {
  const spans = (tree) => {
    const found = new Set();
    for (let node = 0; node < tree.count; node++) if (tree.children[node].length) found.add(`${tree.first[node]}-${tree.last[node]}`);
    return found;
  };
  const theirs = spans(gold);
  const ours = spans(model);
  const marks = (tree, other) => Array.from(tree.children, (inside, node) => inside.length > 0 && other.has(`${tree.first[node]}-${tree.last[node]}`));
  const closed = marks(gold, ours);
  const list = marks(model, theirs);
  // A span crosses some gold list if the smallest list that holds its first column and reaches beyond it ends inside.
  const crossing = Array.from(model.children, (inside, node) => inside.length > 0 && !list[node] && crosses(gold, model.first[node], model.last[node]));
  return { closed, list, crossing };
}

function crosses(gold, first, last) {
  for (let node = 0; node < gold.count; node++) {
    if (!gold.children[node].length) continue;
    const [low, high] = [gold.first[node], gold.last[node]];
    if ((low < first && first <= high && high < last) || (first < low && low <= last && last < high)) return true;
  }
  return false;
}

// -- drawing ----------------------------------------------------------------------------------------------------------

const svgSpace = "http://www.w3.org/2000/svg";
const most = 6000; // nodes that are drawn
const size = { letter: 7.6, pad: 12, gold: 40, model: 17, row: 26, margin: 14 };

function shape(tag, attributes = {}, ...inside) {
  const element = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

// The middle of each column and the width of all of them; wide labels push their neighbours away.
function placed(labels) {
  const middles = [];
  let at = size.margin;
  for (const label of labels) {
    const wide = Math.max(22, label.length * size.letter + size.pad);
    middles.push(at + wide / 2);
    at += wide;
  }
  return { middles, width: at + size.margin };
}

// One tree, above its row of tokens (up = -1) or below it (up = 1). Nodes are focusable, arrow keys go where they point.
function drawnTree(tree, { middles, base, up, step, name, node: about }) {
  const lines = shape("g", { class: "lines", "aria-hidden": "true" });
  const nodes = shape("g", { role: "tree", "aria-label": name });
  const apart = up > 0 ? 8 : 0; // the root of the model's tree has a label, which needs room
  const y = (node) => base + up * (size.row / 2 + (tree.children[node].length ? tree.height[node] * step - step / 3 : 0) + (tree.parent[node] < 0 ? apart : 0));
  const x = (node) => (middles[tree.first[node]] + middles[tree.last[node]]) / 2;
  const shown = new Map();
  for (let node = tree.count - 1; node >= 0; node--) {
    const inside = tree.children[node];
    if (!inside.length) continue;
    const { label, value, kind, words } = about(node);
    const [left, right] = [middles[tree.first[node]], middles[tree.last[node]]];
    const ends = inside.map(x);
    const wide = tree.first[inside[0]] > tree.first[node]; // a list with tokens of its own reaches to them
    const path = inside.map((child, place) => `M${ends[place]} ${y(node)}V${y(child)}`);
    path.push(`M${wide ? left : ends[0]} ${y(node)}H${wide ? right : ends.at(-1)}`);
    if (wide) path.push(`M${left} ${y(node)}V${base + (up * size.row) / 2}M${right} ${y(node)}V${base + (up * size.row) / 2}`);
    lines.append(shape("path", { class: kind, d: path.join("") }));
    const mark = shape("g", { class: `node ${kind}`, role: "treeitem", tabindex: "-1", "aria-label": words, "data-node": node, transform: `translate(${x(node)} ${y(node)})` });
    if (label) {
      const wide = (label.length + (value ? value.length + 1 : 0)) * size.letter + size.pad;
      const text = shape("text", { "text-anchor": "middle", dy: "0.35em" }, shape("tspan", { class: "name" }, document.createTextNode(label)));
      if (value) text.append(shape("tspan", { class: "value", dx: "5" }, document.createTextNode(value)));
      mark.append(shape("rect", { x: -wide / 2, y: -11, width: wide, height: 22, rx: 6 }), text);
    } else {
      mark.append(kind === "crossing" ? shape("rect", { x: -4.5, y: -4.5, width: 9, height: 9, transform: "rotate(45)" }) : shape("circle", { r: 4.5 }));
    }
    shown.set(node, mark);
    nodes.append(mark);
  }
  if (shown.size) shown.get(tree.count - 1).setAttribute("tabindex", "0");
  nodes.addEventListener("keydown", (event) => {
    const from = Number(event.target.closest("[data-node]")?.dataset.node ?? -1);
    const to = neighbour(tree, from, event.key, up);
    if (to === null || !shown.has(to)) return;
    event.preventDefault();
    focusNode(shown, to);
  });
  nodes.addEventListener("click", (event) => {
    const mark = event.target.closest("[data-node]");
    if (mark) focusNode(shown, Number(mark.dataset.node));
  });
  return { lines, nodes };
}

function focusNode(shown, node) {
  for (const mark of shown.values()) mark.setAttribute("tabindex", "-1");
  shown.get(node).setAttribute("tabindex", "0");
  shown.get(node).focus();
}

// The inner node that an arrow key leads to, or null; a tree that hangs upside down has its root below.
function neighbour(tree, node, key, up) {
  if (node < 0) return null;
  const inner = (list) => list.filter((one) => tree.children[one].length);
  const parent = tree.parent[node];
  if (key === (up < 0 ? "ArrowUp" : "ArrowDown")) return parent < 0 ? null : parent;
  if (key === (up < 0 ? "ArrowDown" : "ArrowUp")) return inner(tree.children[node])[0] ?? null;
  if ((key === "ArrowLeft" || key === "ArrowRight") && parent >= 0) {
    const row = inner(tree.children[parent]);
    return row[row.indexOf(node) + (key === "ArrowLeft" ? -1 : 1)] ?? null;
  }
  return null;
}
