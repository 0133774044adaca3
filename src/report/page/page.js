const report = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const tensors = new Map(report.tensors.map((tensor) => [tensor.name, tensor]));

function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 0.001 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}
function compact(value) { return Math.abs(value) >= 1e5 ? `${Number((value / 1e6).toPrecision(4))}M` : String(value); }
function decibels(value) { return value === null || value === undefined ? "–" : value === "identical" ? value : typeof value === "string" ? `${value} dB` : `${value.toFixed(1)} dB`; }
function percent(share) { return `${(100 * share).toFixed(1)} %`; }
function bytes(count) {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  while (count >= 1000 && unit < 3) { count /= 1000; ++unit; }
  return `${unit === 0 ? count : count.toPrecision(3)} ${units[unit]}`;
}
function shape(dims) { return dims.length ? dims.map((dim) => (dim < 0 ? "?" : dim)).join(" × ") : "scalar"; }
function scrollToDetail() {
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  element("detail-section").scrollIntoView({ behavior: isCalm ? "instant" : "smooth" });
}
function hideSection(id) { element(id).hidden = true; }
// The worst of a layer's weights; null if none is known.
function weightSqnr(layer) {
  const known = layer.weights.map((weight) => weight.sqnr_db).filter((value) => value !== null);
  if (known.length === 0) return null;
  return known.reduce((worst, value) => (rank(value) < rank(worst) ? value : worst));
}
// For sorting: nothing before everything, identical behind all.
function rank(value) { return value === null || value === undefined ? -Infinity : value === "identical" ? Infinity : value; }
function weightFormats(layer) { return layer.weights.map((weight) => tensors.get(weight.tensor)?.format ?? "–").join(", ") || "–"; }

function tile(title, value, detail) {
  return htmlNode("div", { class: "tile" }, htmlNode("span", {}, title), htmlNode("b", {}, value), htmlNode("span", {}, detail || "\u00a0"));
}

function drawSummary() {
  element("model").textContent = report.model;
  element("origin").textContent = `${report.config ? `${report.config}, ` : ""}made from ${report.reference}`;
  const tiles = [tile("Size", bytes(report.file_bytes), `${percent(report.file_bytes / report.reference_bytes)} of ${bytes(report.reference_bytes)}`)];
  const result = report.evaluation;
  if (result) {
    const samples = `${result.num_samples} samples`;
    if (result.top1 !== null) tiles.push(tile("Top-1", percent(result.top1), `float ${percent(result.reference_top1)}`));
    if (result.top5 !== null) tiles.push(tile("Top-5", percent(result.top5), `float ${percent(result.reference_top5)}`));
    if (result.agreement !== null) tiles.push(tile("Agreement", percent(result.agreement), samples));
    if (result.outputs_identical) tiles.push(tile("Output SQNR", "identical", samples));
    else if (result.sqnr_db !== null) tiles.push(tile("Output SQNR", decibels(result.sqnr_db), samples));
    if (result.time_ratio !== null) tiles.push(tile("Time", `${result.time_ratio.toFixed(2)} ×`, "of float, on this machine"));
  }
  const packed = report.sizes.filter((size) => size.is_quantized);
  const elements = packed.reduce((sum, size) => sum + size.elements, 0);
  if (elements > 0) {
    const bits = (8 * packed.reduce((sum, size) => sum + size.bytes, 0)) / elements;
    tiles.push(tile("Bits per weight", bits.toFixed(2), "quantized ones, as stored"));
  }
  element("tiles").replaceChildren(...tiles);
  element("notes").replaceChildren(...report.notes.map((note) => htmlNode("li", {}, note)));
  element("footer").textContent = `Bitpress ${report.version}. Weights: every element. ` +
    (report.num_layer_samples > 0 ? `Layers and activations: ${report.num_layer_samples} samples.` : "No samples: give --data to measure layers and activations.");
}

function tensorPanel(title, name, sqnr, extra = []) {
  const tensor = tensors.get(name);
  const panel = htmlNode("div", { class: "panel", "data-tensor": name }, htmlNode("h3", {}, `${title}: ${name}`));
  const rows = [];
  if (tensor) {
    if (tensor.histogram.counts.length > 0) {
      const box = htmlNode("div", { class: "chart" });
      panel.append(box);
      drawAtWidth(box, (width) => histogramChart(width, tensor.histogram, tensor.quantized, tensor.range));
      const marks = [["float", "float model"]];
      if (tensor.quantized) marks.push(["weights", "quantized"]);
      if (tensor.range) marks.push(["chosen", "what the quantizer can hold"]);
      const key = htmlNode("div", { class: "legend" });
      legend(key, marks);
      panel.append(key);
    }
    rows.push(["format", tensor.format], ["shape", shape(tensor.shape)], ["smallest", number(tensor.min)], ["largest", number(tensor.max)],
      ["mean", number(tensor.mean)], ["deviation", number(tensor.deviation)]);
    if (tensor.range) rows.push(["quantizer holds", `${number(tensor.range[0])} to ${number(tensor.range[1])}`]);
    if (tensor.elements > 0) rows.push(["zeros", percent(tensor.zeros / tensor.elements)]);
    if (tensor.nonfinite > 0) rows.push(["NaN or infinite", String(tensor.nonfinite)]);
  } else {
    rows.push(["statistics", "none: give --data or --calibration"]);
  }
  if (sqnr !== undefined) rows.push(["SQNR", decibels(sqnr)]);
  panel.append(htmlNode("dl", {}, ...[...rows, ...extra].flatMap(([key, value]) => [htmlNode("dt", {}, key), htmlNode("dd", {}, value)])));
  return panel;
}

function showTensor(name) {
  element("detail").replaceChildren(tensorPanel(tensors.get(name).is_weight ? "Weight" : "Activation", name));
}

let networkChart = null;
function showLayer(i) {
  const layer = report.layers[i];
  const panels = [htmlNode("h3", { class: "layer-title" }, `${layer.op_type} ${layer.node}`)];
  if (layer.note) panels.push(htmlNode("p", { class: "hint layer-title" }, layer.note));
  const isReadOtherwise = layer.input_format && tensors.get(layer.input)?.format !== layer.input_format;
  if (layer.input) panels.push(tensorPanel("Input", layer.input, undefined, isReadOtherwise ? [["read as", layer.input_format]] : []));
  for (const weight of layer.weights) panels.push(tensorPanel("Weight", weight.tensor, weight.sqnr_db));
  const validated = layer.validated_on === "learned" ? " (on the samples it learned from)" : "";
  const from = layer.taken_from ? ` by ${layer.taken_from}` : "";
  const learned = layer.learned ? [["fine-tuned", `${decibels(layer.learned[0])} → ${decibels(layer.learned[1])}${from}${validated}`]] : [];
  panels.push(tensorPanel("Output", layer.output, layer.sqnr_db, learned));
  element("detail").replaceChildren(...panels);
  networkChart?.select(i);
  document.querySelectorAll("#layers tr[data-layer]").forEach((row) => row.classList.toggle("current", Number(row.dataset.layer) === i));
}

function drawNetwork() {
  const layers = report.layers;
  element("tensor-names").replaceChildren(...[...tensors.keys()].map((name) => htmlNode("option", { value: name })));
  element("tensor-name").addEventListener("change", (event) => { if (tensors.has(event.target.value)) showTensor(event.target.value); });
  if (layers.length === 0) { hideSection("network-section"); hideSection("layers-section"); return; }
  const series = [{ name: "weights", label: "weights", values: layers.map(weightSqnr) }, { name: "outputs", label: "output", values: layers.map((layer) => layer.sqnr_db) }];
  const shown = series.filter((line) => line.values.some((value) => value !== null));
  legend(element("network-legend"), shown.map((line) => [line.name, line.name === "weights" ? "weights alone" : "outputs, with all errors before"]));
  const compared = shown.length ? shown[shown.length - 1].values : [];
  let worst = 0;
  compared.forEach((value, i) => { if (value !== null && (compared[worst] === null || rank(value) < rank(compared[worst]))) worst = i; });
  let current = worst;
  const choose = (i) => { current = i; showLayer(i); };
  drawAtWidth(element("network"), (width) => {
    networkChart = layerChart(width, layers.map((layer) => `${layer.op_type} ${layer.node}`), shown, current, choose);
    return networkChart;
  });
  drawLayerTable((i) => { choose(i); scrollToDetail(); });
  choose(worst);
}

const COLUMNS = [
  ["layer", (layer) => layer.node], ["operator", (layer) => layer.op_type], ["input", (layer) => layer.input_format || "–"],
  ["weights", weightFormats], ["weights dB", weightSqnr], ["output dB", (layer) => layer.sqnr_db],
  ["learned dB", (layer) => (layer.learned ? layer.learned[1] : null)],
];

function drawLayerTable(choose) {
  const columns = COLUMNS.filter(([title]) => title !== "learned dB" || report.layers.some((layer) => layer.learned));
  let order = report.layers.map((_, i) => i), sorted = null, isDescending = false;
  const draw = () => {
    const head = columns.map(([title], column) => htmlNode("th", { class: title.endsWith("dB") ? "number" : null,
      "aria-sort": column === sorted ? (isDescending ? "descending" : "ascending") : null }, htmlNode("button", { onclick: () => sort(column) }, title)));
    const rows = order.map((i) => htmlNode("tr", { "data-layer": i }, ...columns.map(([title, read], column) => {
      const value = read(report.layers[i]);
      if (column === 0) return htmlNode("td", { class: "wrap" }, htmlNode("button", { class: "link", onclick: () => choose(i) }, value));
      return title.endsWith("dB") ? htmlNode("td", { class: "number" }, typeof value === "number" ? value.toFixed(1) : value ?? "–") : htmlNode("td", {}, value);
    })));
    element("layers").replaceChildren(htmlNode("thead", {}, htmlNode("tr", {}, ...head)), htmlNode("tbody", {}, ...rows));
  };
  const sort = (column) => {
    isDescending = column === sorted && !isDescending;
    sorted = column;
    const [title, read] = columns[column];
    const key = (i) => (title.endsWith("dB") ? rank(read(report.layers[i])) : read(report.layers[i]));
    order = report.layers.map((_, i) => i).sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a - b));
    if (isDescending) order.reverse();
    draw();
  };
  draw();
}

function drawSizes() {
  const total = report.sizes.reduce((sum, size) => sum + size.bytes, 0);
  drawAtWidth(element("size-bar"), (width) => stackedBar(width, report.sizes.map((size) => ({
    name: size.format, share: size.bytes / total, text: `${bytes(size.bytes)}, ${size.tensors} tensors` }))));
  const row = (cells, name) => htmlNode("tr", {}, ...cells.map((cell, i) => htmlNode(name, { class: i === 0 ? null : "number" }, cell)));
  element("sizes").replaceChildren(
    htmlNode("thead", {}, row(["format", "tensors", "elements", "bytes", "bits per element", "share"], "th")),
    htmlNode("tbody", {}, ...report.sizes.map((size) => row([size.format, size.tensors, size.elements.toLocaleString("en"), bytes(size.bytes),
      size.elements > 0 ? ((8 * size.bytes) / size.elements).toFixed(2) : "–", percent(size.bytes / total)], "td"))));
}

function drawFront() {
  const search = report.search;
  if (!search) { hideSection("front-section"); return; }
  const request = [search.target && `target ${search.target}`, search.budget && `budget ${search.budget}`].filter(Boolean).join(", ");
  element("front-text").textContent = `${search.front.length} points (${search.strategy})${request ? `, ${request}` : ""}: ` +
    (search.is_reached ? "reached." : search.why_not);
  legend(element("front-legend"), [["float", "predicted"], ["weights", "measured"], ["chosen", "chosen"]]);
  const isDivergence = search.front.some((point) => "predicted_divergence" in point);
  // A divergence is drawn in dB below 1 nat, so that better is higher here too.
  const height = (loss) => (typeof loss !== "number" ? null : isDivergence ? (loss > 0 ? -10 * Math.log10(loss) : null) : loss);
  const text = (loss) => (isDivergence ? `divergence ${number(loss)}` : decibels(loss));
  const points = search.front.map((point) => {
    const measured = point.measured ? ((isDivergence ? point.measured.divergence : point.measured.sqnr_db) ?? null) : null;
    const predicted = isDivergence ? point.predicted_divergence : point.predicted_sqnr_db;
    const more = point.measured && typeof point.measured.agreement === "number" ? `, agreement ${percent(point.measured.agreement)}` : "";
    return { cost: point.cost, predicted: height(predicted), measured: height(measured),
      text: `${search.cost} ${number(point.cost)}: predicted ${text(predicted)}` + (measured === null ? "" : `, measured ${text(measured)}${more}`) };
  });
  drawAtWidth(element("front"), (width) => frontChart(width, points, search.chosen, search.cost_label, (text) => { element("front-point").textContent = text; }));
}

function tableOf(id, head, rows) {
  const row = (cells, name) => htmlNode("tr", {}, ...cells.map((cell, i) => htmlNode(name, { class: i === 0 ? null : "number" }, cell)));
  element(id).replaceChildren(htmlNode("thead", {}, row(head, "th")), htmlNode("tbody", {}, ...rows.map((cells) => row(cells, "td"))));
}

// The trials of `auto`: loss against bytes, and a row for each configuration.
function drawTrials() {
  const found = report.trials;
  if (!found) { hideSection("trials-section"); return; }
  const loss = (trial) => (typeof trial.loss === "number" ? percent(trial.loss) : "–");
  const time = (trial) => (trial.time_ratio ? trial.time_ratio.toFixed(2) : "–");
  element("trials-text").textContent = `${found.network} network, wanted: ${found.want}, limits: ${found.limits}. ` +
    `Chosen: ${found.chosen}${found.is_tolerable ? "" : ", which does not keep them: none does"}.`;
  const points = found.trials.filter((trial) => typeof trial.loss === "number").map((trial) => ({
    bytes: trial.file_bytes, loss: trial.loss, isChosen: trial.config === found.chosen, isOnFront: found.front.includes(trial.config),
    name: trial.config, text: `${trial.config}: loss ${loss(trial)}, ${bytes(trial.file_bytes)}, time ${time(trial)}` }));
  if (points.length > 0) {
    drawAtWidth(element("trials"), (width) => trialsChart(width, points, (text) => { element("trials-point").textContent = text; }));
  }
  tableOf("trials-table", ["configuration", `loss${found.measure ? ` (${found.measure})` : ""}`, "bytes", "time over float", "keeps the limits"],
    found.trials.map((trial) => (trial.error ? [trial.config, trial.error, "", "", "no"]
      : [trial.config, loss(trial), bytes(trial.file_bytes), time(trial), trial.keeps_limits ? "yes" : "no"])));
}

function drawTask() {
  const task = report.evaluation?.task;
  if (!task) { hideSection("task-section"); return; }
  element("task-text").textContent = `${task.task}${task.how ? `: ${task.how}` : ""}; ${task.num_samples} samples` +
    (task.loss === null ? "" : `; loss ${(100 * task.loss).toFixed(2)} % (${task.loss_name})`);
  tableOf("task", ["figure", "this model", "float model"],
    task.figures.map((figure) => [figure.name, number(figure.value), number(figure.reference)]));
  drawNeighbours(task.neighbours);
  drawPictures();
}

// Samples and their nearest neighbours by both models, those of another rank marked.
function drawNeighbours(neighbours) {
  if (!neighbours) return;
  const { num_neighbours: count, num_samples: all, num_same: same, changed } = neighbours;
  element("neighbours-text").textContent = `${same} of ${all} samples keep their ${count} nearest neighbours in the same order.` +
    (changed.length === 0 ? "" : ` These changed most: neighbours with their cosine, and marked with the other model's rank where it differs.`);
  const cell = (neighbour, place) => htmlNode("td", { class: "wrap" }, `${neighbour.name} `, htmlNode("span", { class: "cosine" }, neighbour.cosine.toFixed(3)),
    ...(neighbour.other_rank === place + 1 ? [] : [" ", htmlNode("span", { class: "moved" }, `${neighbour.other_rank}`)]));
  element("neighbours").replaceChildren(...changed.map((sample) => htmlNode("div", { class: "scroll" }, htmlNode("table", {},
    htmlNode("caption", {}, sample.name),
    htmlNode("thead", {}, htmlNode("tr", {}, ...["rank", "this model", "float model"].map((name) => htmlNode("th", {}, name)))),
    htmlNode("tbody", {}, ...sample.found.map((neighbour, i) => htmlNode("tr", {}, htmlNode("td", {}, `${i + 1}`), cell(neighbour, i), cell(sample.wanted[i], i))))))));
}

// Photos with the boxes of both models over them, or with masks that are laid over them already.
function drawPictures() {
  if (report.pictures.length === 0) return;
  if (report.pictures.some((picture) => picture.has_mask)) {
    legend(element("pictures-legend"), [["chosen", "mask of both models"], ["missed", "pixels in which they differ"]]);
  } else {
    legend(element("pictures-legend"), [["chosen", "box of this model"], ["weights", "box of the float model"], ["missed", "box that only one of them has"]]);
  }
  const kind = (box) => `${box.is_reference ? "float-box" : "box"}${box.is_paired ? "" : " missed"}`;
  element("pictures").replaceChildren(...report.pictures.map((picture) => htmlNode("figure", {},
    svgNode("svg", { viewBox: `0 0 ${picture.width} ${picture.height}`, role: "img", "aria-label": `${picture.name}: ${picture.boxes.length} boxes` },
      svgNode("image", { href: picture.image, width: picture.width, height: picture.height, preserveAspectRatio: "none" }),
      ...picture.boxes.map((box) => svgNode("rect", { class: kind(box), x: box.left, y: box.top, "vector-effect": "non-scaling-stroke",
        width: Math.max(0, box.right - box.left), height: Math.max(0, box.bottom - box.top) },
      svgNode("title", {}, `class ${box.label}, score ${box.score.toFixed(2)}, ${box.is_reference ? "float model" : "this model"}`)))),
    htmlNode("figcaption", {}, picture.name))));
}

function drawKept() {
  const groups = new Map();
  for (const tensor of report.kept_float) {
    const reason = `${tensor.role}: ${tensor.reason}`;
    if (!groups.has(reason)) groups.set(reason, []);
    groups.get(reason).push(tensor.name);
  }
  const sorted = [...groups].sort((a, b) => b[1].length - a[1].length);
  element("kept").replaceChildren(...sorted.map(([reason, names]) => htmlNode("details", {}, htmlNode("summary", {}, `${names.length} × ${reason}`),
    htmlNode("ul", {}, ...names.map((name) => htmlNode("li", {}, tensors.has(name)
      ? htmlNode("button", { class: "link", onclick: () => { showTensor(name); scrollToDetail(); } }, name) : name))))));
  if (sorted.length === 0) element("kept").textContent = "Nothing.";
}

function drawCommands() {
  element("commands").replaceChildren(...report.commands.flatMap(([what, command]) => {
    const copy = htmlNode("button", { class: "copy", onclick: () => navigator.clipboard?.writeText(command).then(() => { copy.textContent = "copied"; }, () => {}) }, "copy");
    return [htmlNode("p", { class: "hint" }, `${what} `, copy), htmlNode("pre", {}, command)];
  }));
  if (report.settings === null) hideSection("settings-box");
  else element("settings").textContent = JSON.stringify(report.settings, null, 2);
}

drawSummary();
drawNetwork();
drawSizes();
drawTrials();
drawTask();
drawFront();
drawKept();
drawCommands();
