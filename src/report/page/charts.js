"use strict";
// Small charts as SVG. Everything that comes from the model goes into text nodes and attributes, never into markup.

const SVG = "http://www.w3.org/2000/svg";
const PAPER_WIDTH = 720;

function svgNode(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function htmlNode(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// A linear map of numbers to pixels, with round numbers to write beside it.
function makeScale(low, high, begin, end, count = 6) {
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.floor(low / step) * step;
  const last = Math.ceil(high / step) * step;
  const scale = (value) => begin + ((value - first) / (last - first)) * (end - begin);
  scale.ticks = [];
  for (let i = 0; first + i * step <= last + step / 2; ++i) scale.ticks.push(Number((first + i * step).toPrecision(12)));
  return scale;
}

function showTip(text, event) {
  const tip = document.getElementById("tip");
  tip.textContent = text;
  tip.hidden = false;
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, event.clientY - tip.offsetHeight - 12)}px`;
}

function hideTip() { document.getElementById("tip").hidden = true; }

// Draws into `box` at its width, and again whenever that changes; for printing at that of paper.
function drawAtWidth(box, draw) {
  let drawn = 0;
  const redraw = (wanted) => {
    const width = Math.max(280, Math.round(wanted || PAPER_WIDTH));
    if (width === drawn) return;
    drawn = width;
    box.replaceChildren(draw(width));
  };
  redraw(box.clientWidth);
  new ResizeObserver(() => redraw(box.clientWidth)).observe(box);
  if (box.closest(".panel")) return;
  window.addEventListener("beforeprint", () => redraw(PAPER_WIDTH));
  window.addEventListener("afterprint", () => redraw(box.clientWidth));
}

function legend(box, entries) {
  box.replaceChildren(...entries.map(([variable, text]) => {
    const mark = htmlNode("i");
    mark.style.background = `var(--${variable})`;
    return htmlNode("span", {}, mark, text);
  }));
}

function gridLines(svg, y, left, right, unit) {
  for (const tick of y.ticks) {
    svg.append(svgNode("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }));
    svg.append(svgNode("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, String(tick)));
  }
  svg.append(svgNode("text", { x: left - 8, y: 12, "text-anchor": "end" }, unit));
}

// series: [{name, values}], one value (dB, "identical" or null) a layer. Identical ones lie on the upper edge.
function layerChart(width, names, series, selected, choose) {
  const height = Math.min(340, Math.max(220, width * 0.4)), left = 44, right = width - 10, top = 22, bottom = height - 26;
  const finite = series.flatMap((line) => line.values).filter((value) => typeof value === "number");
  const y = makeScale(Math.min(0, ...finite), Math.max(10, ...finite) + 3, bottom, top);
  const x = (i) => left + ((i + 0.5) / names.length) * (right - left);
  const at = (value) => (value === "identical" ? top : y(value));
  const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": "SQNR of each layer" });
  gridLines(svg, y, left, right, "dB");
  svg.append(svgNode("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, `${names.length} layers, input to output`));
  const radius = names.length > 150 ? 2 : 3.5;
  for (const { name, values } of series) {
    let path = "";
    values.forEach((value, i) => { if (value !== null) path += `${path ? "L" : "M"}${x(i).toFixed(1)} ${at(value).toFixed(1)}`; });
    if (name === "outputs" && path) svg.append(svgNode("path", { class: name, d: path }));
    values.forEach((value, i) => {
      if (value !== null) svg.append(svgNode("circle", { class: `${name} point`, cx: x(i).toFixed(1), cy: at(value).toFixed(1), r: radius, "data-layer": i }));
    });
  }
  const mark = svgNode("line", { class: "selected", x1: x(selected), x2: x(selected), y1: top, y2: bottom, opacity: 0.6 });
  const cursor = svgNode("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" });
  svg.append(mark, cursor);
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const position = ((event.clientX - box.left) / box.width) * width;
    return Math.min(names.length - 1, Math.max(0, Math.floor(((position - left) / (right - left)) * names.length)));
  };
  svg.addEventListener("pointermove", (event) => {
    const i = nearest(event);
    cursor.setAttribute("x1", x(i));
    cursor.setAttribute("x2", x(i));
    cursor.setAttribute("visibility", "visible");
    showTip([names[i], ...series.map((line) => `${line.label}: ${decibels(line.values[i])}`)].join("\n"), event);
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
  svg.addEventListener("click", (event) => choose(nearest(event)));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(Math.min(names.length - 1, Math.max(0, svg.current + step)));
  });
  svg.current = selected;
  svg.select = (i) => {
    svg.current = i;
    mark.setAttribute("x1", x(i));
    mark.setAttribute("x2", x(i));
  };
  return svg;
}

// Counts of the float model, those of the quantized one over them, and what a quantizer can hold. Roots of counts: tails are
// what ranges are about.
function histogramChart(width, histogram, quantized, range) {
  const height = 150, left = 8, right = width - 8, top = 8, bottom = height - 22;
  const low = Math.min(histogram.lower, range ? range[0] : Infinity), high = Math.max(histogram.upper, range ? range[1] : -Infinity);
  const span = high > low ? high - low : 1;
  const x = (value) => left + ((value - low) / span) * (right - left);
  const most = Math.sqrt(Math.max(1, ...histogram.counts, ...(quantized ? quantized.counts : [])));
  const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "histogram" });
  const bars = (counts, kind, inset) => {
    const step = (histogram.upper - histogram.lower) / counts.length;
    counts.forEach((count, i) => {
      if (count === 0) return;
      const from = step > 0 ? x(histogram.lower + i * step) : left, to = step > 0 ? x(histogram.lower + (i + 1) * step) : right;
      const tall = Math.max(1, (Math.sqrt(count) / most) * (bottom - top));
      const inner = Math.max(0.5, (to - from) * (1 - 2 * inset));
      svg.append(svgNode("rect", { class: kind, x: (from + (to - from) * inset).toFixed(2), y: (bottom - tall).toFixed(2), width: inner.toFixed(2),
        height: tall.toFixed(2), "data-count": count }));
    });
  };
  bars(histogram.counts, "bar", 0.05);
  if (quantized) bars(quantized.counts, "bar-quantized", 0.3);
  svg.append(svgNode("line", { class: "grid", x1: left, x2: right, y1: bottom, y2: bottom }));
  for (const edge of range || []) svg.append(svgNode("line", { class: "range", x1: x(edge), x2: x(edge), y1: top, y2: bottom }));
  svg.append(svgNode("text", { x: left, y: height - 6 }, number(low)));
  svg.append(svgNode("text", { x: right, y: height - 6, "text-anchor": "end" }, number(high)));
  if (low < 0 && high > 0) {
    const zero = x(0);
    if (zero > left + 70 && zero < right - 70) svg.append(svgNode("text", { x: zero, y: height - 6, "text-anchor": "middle" }, "0"));
  }
  return svg;
}

// points: [{cost, predicted, measured}] by rising cost, losses in dB, the larger the better.
function frontChart(width, points, chosen, costLabel, say) {
  const height = Math.min(360, Math.max(240, width * 0.45)), left = 44, right = width - 14, top = 22, bottom = height - 40;
  const values = points.flatMap((point) => [point.predicted, point.measured]).filter((value) => typeof value === "number");
  const costs = points.map((point) => point.cost);
  const x = makeScale(Math.min(...costs), Math.max(...costs), left, right, width < 500 ? 4 : 8);
  const y = makeScale(Math.min(...values), Math.max(...values), bottom, top);
  const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Pareto front" });
  gridLines(svg, y, left, right, "dB");
  for (const tick of x.ticks) svg.append(svgNode("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle" }, compact(tick)));
  svg.append(svgNode("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, costLabel));
  let path = "";
  for (const point of points) {
    if (typeof point.predicted === "number") path += `${path ? "L" : "M"}${x(point.cost).toFixed(1)} ${y(point.predicted).toFixed(1)}`;
  }
  svg.append(svgNode("path", { class: "predicted", d: path }));
  points.forEach((point, i) => {
    const value = point.measured ?? point.predicted;
    if (typeof value !== "number" || (point.measured === null && i !== chosen)) return;
    const dot = svgNode("circle", { class: `point ${i === chosen ? "chosen" : "measured"}`, cx: x(point.cost).toFixed(1), cy: y(value).toFixed(1),
      r: i === chosen ? 6 : 4, "data-point": i, tabindex: 0, role: "button", "aria-label": point.text });
    dot.addEventListener("pointermove", (event) => showTip(point.text, event));
    dot.addEventListener("pointerleave", hideTip);
    dot.addEventListener("click", () => say(point.text));
    dot.addEventListener("keydown", (event) => { if (event.key === "Enter") say(point.text); });
    svg.append(dot);
  });
  return svg;
}

// points: [{bytes, loss, isChosen, isOnFront, name, text}]. The loss has a logarithmic axis; none at all is its lower end.
function trialsChart(width, points, say) {
  const height = Math.min(360, Math.max(240, width * 0.45)), left = 60, right = width - 14, top = 22, bottom = height - 40;
  const least = 1e-5;
  const level = (loss) => Math.log10(Math.max(loss, least));
  const x = makeScale(0, Math.max(...points.map((point) => point.bytes)) / 1e6, left, right, width < 500 ? 4 : 8);
  const levels = points.map((point) => level(point.loss));
  const from = Math.floor(Math.min(...levels)), to = Math.max(from + 1, Math.ceil(Math.max(...levels)));
  const y = (value) => bottom - ((value - from) / (to - from)) * (bottom - top);
  const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Loss against bytes" });
  for (let tick = from; tick <= to; ++tick) {
    svg.append(svgNode("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }));
    svg.append(svgNode("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, `${Number((100 * 10 ** tick).toPrecision(2))} %`));
  }
  for (const tick of x.ticks) svg.append(svgNode("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle" }, compact(tick)));
  svg.append(svgNode("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, "MB of the file; loss upwards"));
  const front = points.filter((point) => point.isOnFront).sort((a, b) => a.bytes - b.bytes);
  const path = front.map((point, i) => `${i ? "L" : "M"}${x(point.bytes / 1e6).toFixed(1)} ${y(level(point.loss)).toFixed(1)}`).join("");
  svg.append(svgNode("path", { class: "predicted", d: path }));
  for (const point of points) {
    const at = { cx: x(point.bytes / 1e6).toFixed(1), cy: y(level(point.loss)).toFixed(1) };
    const dot = svgNode("circle", { class: `point ${point.isChosen ? "chosen" : "measured"}`, ...at, r: point.isChosen ? 6 : 4, "data-trial": point.name,
      tabindex: 0, role: "button", "aria-label": point.text });
    dot.addEventListener("pointermove", (event) => showTip(point.text, event));
    dot.addEventListener("pointerleave", hideTip);
    dot.addEventListener("click", () => say(point.text));
    dot.addEventListener("keydown", (event) => { if (event.key === "Enter") say(point.text); });
    svg.append(dot);
  }
  return svg;
}

// parts: [{name, share, text}], shares of the whole.
function stackedBar(width, parts) {
  const height = 34;
  const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Size by format" });
  let left = 0;
  parts.forEach((part, i) => {
    const size = part.share * width;
    const rect = svgNode("rect", { x: left.toFixed(2), y: 0, width: Math.max(1, size - 1).toFixed(2), height, rx: 3, "data-part": part.name,
      fill: `hsl(${(205 + 67 * i) % 360} 45% 48%)` });
    rect.addEventListener("pointermove", (event) => showTip(`${part.name}\n${part.text}`, event));
    rect.addEventListener("pointerleave", hideTip);
    svg.append(rect);
    if (size > 9 * part.name.length) {
      const text = svgNode("text", { x: left + size / 2, y: 22, "text-anchor": "middle" }, part.name);
      text.style.fill = "#fff";
      svg.append(text);
    }
    left += size;
  });
  return svg;
}
