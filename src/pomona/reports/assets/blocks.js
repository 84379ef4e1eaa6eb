// Blocks of columns, as pomona.reports.packing writes them: base64, gzip, little-endian numbers.
const kinds = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array };

async function unpack(block) {
  const squeezed = Uint8Array.from(atob(block.bytes), (letter) => letter.charCodeAt(0));
  const stream = new Blob([squeezed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  const columns = {};
  for (const [name, [kind, at, count]] of Object.entries(block.arrays)) columns[name] = new kinds[kind](bytes, at, count);
  return columns;
}

// Where each row's piece of a column begins; the last entry is where it all ends.
function starts(counts, each = 1) {
  const found = new Uint32Array(counts.length / each + 1);
  for (let row = 0, at = 0; row + 1 < found.length; row++) {
    for (let part = 0; part < each; part++) at += counts[row * each + part];
    found[row + 1] = at;
  }
  return found;
}

// A test with all that the runs said about it, unpacked.
async function opened(test) {
  const corpus = { ...test.corpus, ...(await unpack(test.corpus)) };
  corpus.tokenStart = starts(corpus.lengths);
  corpus.nodeStart = starts(corpus.nodes, corpus.width);
  const runs = [];
  for (const run of test.runs) {
    const one = { ...run, ...(await unpack(run)) };
    if (one.arities) one.nodeStart = starts(one.nodes);
    runs.push(one);
  }
  return { name: test.name, corpus, runs };
}
