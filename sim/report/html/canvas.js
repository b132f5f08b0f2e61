"use strict";
// Draws the page's plots on canvases from the JSON in #data. No library and no network.
//
// Three files, one script: canvas.js (formats, colours, canvases, axes), distributions.js, timeline.js.
// Every draw function starts from an empty canvas and reads colours anew, so that a change of size,
// range or light and dark is one more draw.

const page = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const tip = element("tip");
const NAMES = {
  ttft_s: "TTFT", tbt_s: "TBT, all gaps between tokens", e2e_s: "E2E", tpot_s: "TPOT",
  queue_s: "queue delay", max_tbt_s: "longest gap of each request",
};

// Formats.

function seconds(value) {
  if (value >= 0.9995) return `${digits(value)} s`;
  return value >= 0.0009995 ? `${digits(value * 1e3)} ms` : `${digits(value * 1e6)} µs`;
}
function digits(value) {
  if (value >= 99.95) return Math.round(value).toLocaleString("en-US");
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}
const count = (value) => value.toLocaleString("en-US");
const percent = (share) => `${(100 * share).toFixed(share < 0.001 ? 4 : share < 0.01 ? 3 : 2)} %`;

// Colours: those of the style sheet, and each run's own, lighter in the dark.

function theme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "ink", "faint", "line", "wait", "prefill", "decode", "stall", "waiting", "kv"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
const dark = matchMedia("(prefers-color-scheme: dark)");
function runColor(run) {
  if (run.color === "#000000") return theme().ink;
  if (!dark.matches) return run.color;
  const parts = [1, 3, 5].map((at) => parseInt(run.color.slice(at, at + 2), 16));
  return `rgb(${parts.map((part) => Math.round(part + (255 - part) * 0.38)).join(",")})`;
}
function colorKeys() {
  for (const head of document.querySelectorAll("th[data-key]")) {
    const run = page.runs[head.dataset.key];
    head.style.setProperty("--run", runColor(run));
    head.style.setProperty("--dash", run.dashes.length ? "dashed" : "solid");
  }
}

// Canvases: sharp on every screen, drawn again whenever something changes.

const drawings = [];
function surface(canvas, draw) {
  const redraw = () => {
    const width = canvas.clientWidth, height = canvas.clientHeight, ratio = devicePixelRatio || 1;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = "12px system-ui, sans-serif";
    draw(context, width, height, theme());
  };
  new ResizeObserver(redraw).observe(canvas);
  drawings.push(redraw);
  return redraw;
}
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const right = event.pageX + 14 + tip.offsetWidth > scrollX + document.documentElement.clientWidth;
  tip.style.left = `${Math.max(scrollX, right ? event.pageX - 14 - tip.offsetWidth : event.pageX + 14)}px`;
  tip.style.top = `${event.pageY + 14}px`;
}
const hideTip = () => { tip.hidden = true; };

// Axes.

function ticks(from, to, most) {
  const rough = (to - from) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) found.push(value);
  return { values: found, step };
}
function logTicks(from, to) {
  // Powers of ten; where there are few of them also their doubles and fives.
  const factors = to / from < 500 ? [1, 2, 5] : [1], found = [];
  for (let power = Math.floor(Math.log10(from)); 10 ** power <= to; power++) {
    for (const factor of factors) found.push(factor * 10 ** power);
  }
  return found.filter((value) => value >= from * 0.999999 && value <= to * 1.000001);
}
function line(context, x0, y0, x1, y1, color, dashes = []) {
  context.strokeStyle = color;
  context.setLineDash(dashes);
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
  context.setLineDash([]);
}
function label(context, text, x, y, align, color) {
  context.fillStyle = color;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(text, x, y);
}

