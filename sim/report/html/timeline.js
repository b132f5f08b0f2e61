// The timeline: from above, requests (lanes, or how many from afar), iterations, load.

const MOST_LANES = 40, LANES_BELOW_S = 30;
const view = { from: 0, to: 1 };
const whole = { from: 0, to: 0 };
const most = { prefill: 1, decodes: 1, waiting: 1 }; // in the range, over all runs

function summed(differences) {
  const found = new Float64Array(differences.length);
  let total = 0;
  differences.forEach((difference, at) => { total += difference; found[at] = total / 1e6; });
  return found;
}
function prepare(run) {
  const { rows, requests } = run;
  rows.start = summed(rows.start);
  rows.end = rows.start.map((start, at) => start + rows.length[at] / 1e6);
  requests.arrival = summed(requests.arrival);
  const after = (column) => column.map((value, at) => (value === null ? Infinity : requests.arrival[at] + value / 1e6));
  requests.scheduled = after(requests.wait);
  requests.first = after(requests.ttft);
  requests.finish = after(requests.e2e);
  // A stall: somebody decodes, and the next token is further off than the threshold.
  const firsts = Float64Array.from(requests.first).sort(), finishes = Float64Array.from(requests.finish).sort();
  const decoding = (time) => firstAtOrAfter(firsts, time + 2e-6) - firstAtOrAfter(finishes, time + 2e-6);
  run.stalls = [];
  let last = null;
  rows.decodes.forEach((decodes, at) => {
    if (!decodes) return;
    const next = rows.start[at] + rows.length[at] / 1e6 / rows.repeats[at];
    if (last !== null && page.stall_s && next - last > page.stall_s && decoding(last) > 0) run.stalls.push([last, next]);
    last = rows.end[at];
  });
  whole.to = Math.max(whole.to, rows.end[rows.end.length - 1]);
  if (!run.num_blocks) run.num_blocks = rows.kv.reduce((a, b) => Math.max(a, b), 1);
}
function inRange(run) {
  return [firstAtOrAfter(run.rows.end, view.from), firstAtOrAfter(run.rows.start, view.to)];
}
function scale() {
  for (const name of Object.keys(most)) {
    most[name] = 1;
    for (const run of page.runs) {
      const [from, until] = inRange(run), column = run.rows[name];
      for (let at = from; at < until; at++) if (column[at] > most[name]) most[name] = column[at];
    }
  }
}
function iterationEnds(run) {
  // Ends of the single iterations in the range, and whether each had decodes; null if they are too many.
  const { rows } = run, [from, until] = inRange(run), found = [];
  for (let at = from; at < until; at++) {
    if (found.length > 4000) return null;
    const each = (rows.end[at] - rows.start[at]) / rows.repeats[at];
    for (let step = 1; step <= rows.repeats[at]; step++) found.push([rows.start[at] + each * step, rows.decodes[at] > 0]);
  }
  return found;
}
function firstAtOrAfter(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}
function visible(run) {
  const { arrival, finish, first } = run.requests, found = [];
  const until = firstAtOrAfter(arrival, view.to);
  for (let at = 0; at < until; at++) {
    const leaves = finish[at] === Infinity && first[at] === Infinity && run.requests.wait[at] === null ? arrival[at] : finish[at];
    if (leaves > view.from) found.push(at);
  }
  return found;
}
function lanes(run) {
  const all = visible(run);
  if (all.length > MOST_LANES && view.to - view.from > LANES_BELOW_S) return { all, shown: null };
  if (all.length <= MOST_LANES) return { all, shown: all };
  // Some of each: who waits all along, the largest prompts, and the decodes with the longest gaps.
  const { scheduled, first, prompt, max_tbt: gap } = run.requests;
  const waiting = all.filter((at) => scheduled[at] >= view.to).slice(0, MOST_LANES / 10);
  const prefilled = all.filter((at) => scheduled[at] < view.to && first[at] > view.from);
  const some = prefilled.sort((a, b) => prompt[b] - prompt[a]).slice(0, MOST_LANES / 3);
  const decoding = all.filter((at) => first[at] <= view.from).sort((a, b) => (gap[b] || 0) - (gap[a] || 0) || a - b);
  const shown = [...waiting, ...some, ...decoding.slice(0, MOST_LANES - waiting.length - some.length)];
  return { all, shown: shown.sort((a, b) => scheduled[a] - scheduled[b] || a - b) };
}
const EDGE = { left: 64, right: 46, bottom: 22 };
function layout(height) {
  const lanesTo = Math.round((height - EDGE.bottom) * 0.52), stripTo = Math.round((height - EDGE.bottom) * 0.8);
  return { lanes: [4, lanesTo], strip: [lanesTo + 8, stripTo], load: [stripTo + 8, height - EDGE.bottom] };
}
const place = (time, width) => EDGE.left + ((time - view.from) / (view.to - view.from)) * (width - EDGE.left - EDGE.right);

function drawPanel(run, context, width, height, colors) {
  const parts = layout(height), right = width - EDGE.right;
  const at = ticks(view.from, view.to, Math.max(2, width / 110));
  const decimals = Math.max(0, Math.min(6, -Math.floor(Math.log10(at.step) + 1e-9)));
  for (const time of at.values) {
    line(context, place(time, width), 4, place(time, width), height - EDGE.bottom, colors.line);
    label(context, `${time.toFixed(decimals)} s`, place(time, width), height - 10, "center", colors.faint);
  }
  context.save();
  context.beginPath();
  context.rect(EDGE.left, 0, right - EDGE.left, height - EDGE.bottom + 1);
  context.clip();
  run.lanes = lanes(run);
  if (run.lanes.shown) drawLanes(run, context, width, parts.lanes, colors); else drawCounts(run, context, width, parts.lanes, colors);
  drawStrip(run, context, width, parts.strip, colors);
  drawLoad(run, context, width, parts.load, colors);
  context.restore();
  const narrow = width < 600;
  if (run.lanes.shown) {
    const some = run.lanes.shown.length < run.lanes.all.length;
    label(context, some ? `${run.lanes.shown.length} of` : "", EDGE.left - 6, 14, "right", colors.faint);
    label(context, count(run.lanes.all.length), EDGE.left - 6, some ? 29 : 14, "right", colors.faint);
    label(context, "requests", EDGE.left - 6, some ? 44 : 29, "right", colors.faint);
  } else {
    label(context, count(run.mostHere), EDGE.left - 6, 10, "right", colors.faint);
    label(context, "requests", EDGE.left - 6, 26, "right", colors.faint);
  }
  label(context, count(most.prefill), EDGE.left - 6, parts.strip[0] + 6, "right", colors.prefill);
  label(context, "0", EDGE.left - 6, (parts.strip[0] + parts.strip[1]) / 2, "right", colors.faint);
  label(context, count(most.decodes), EDGE.left - 6, parts.strip[1] - 6, "right", colors.decode);
  label(context, count(most.waiting), EDGE.left - 6, parts.load[0] + 6, "right", colors.waiting);
  label(context, "0", EDGE.left - 6, parts.load[1] - 4, "right", colors.faint);
  label(context, narrow ? "KV" : "KV full", right + 4, parts.load[0] + 6, "left", colors.kv);
}
function drawLanes(run, context, width, [top, bottom], colors) {
  const { arrival, scheduled, first, finish } = run.requests;
  const pitch = Math.min(14, (bottom - top) / run.lanes.shown.length), bar = Math.max(1.5, pitch * 0.62);
  const box = (from, to, y, size, color) => {
    const x0 = Math.max(place(from, width), EDGE.left - 2), x1 = Math.min(place(to, width), width);
    context.fillStyle = color;
    if (x1 > x0) context.fillRect(x0, y - size / 2, Math.max(x1 - x0, 0.7), size);
  };
  const ends = iterationEnds(run), tokens = ends ? ends.filter((end) => end[1]).map((end) => end[0]) : [];
  const showsTokens = ends !== null && tokens.length < (width - EDGE.left - EDGE.right) / 4;
  const stalls = run.stalls.filter(([begin, end]) => end > view.from && begin < view.to);
  run.lanes.shown.forEach((at, lane) => {
    const y = top + (lane + 0.5) * pitch;
    box(arrival[at], Math.min(scheduled[at], view.to), y, Math.max(1, bar * 0.3), colors.wait);
    box(scheduled[at], Math.min(first[at], view.to), y, bar, colors.prefill);
    box(first[at], Math.min(finish[at], view.to), y, showsTokens ? Math.max(1, bar * 0.25) : bar * 0.6, colors.decode);
    for (const [begin, end] of stalls) {
      if (begin >= first[at] - 2e-6 && end <= finish[at] + 2e-6) box(begin, end, y, bar, colors.stall);
    }
    if (showsTokens) for (const time of tokens) if (time >= first[at] - 2e-6 && time <= finish[at] + 2e-6) {
      context.fillStyle = colors.decode;
      context.fillRect(place(time, width) - 0.6, y - bar / 2, 1.2, bar);
    }
  });
}
function drawCounts(run, context, width, [top, bottom], colors) {
  // How many requests wait, are prefilled and decode in each column of pixels, stacked; stalls above.
  const { arrival, scheduled, first, finish } = run.requests, columns = Math.ceil(width - EDGE.left - EDGE.right);
  const scale = run.requests.total / Math.max(1, run.requests.arrival.length);
  const stacks = [[first, finish], [scheduled, first], [arrival, scheduled]].map(([begin, end]) => {
    const change = new Float64Array(columns + 2);
    const column = (time) => Math.max(0, Math.min(columns + 1, Math.round(place(time, width) - EDGE.left)));
    for (const at of run.lanes.all) if (begin[at] < view.to) { change[column(begin[at])]++; change[column(Math.min(end[at], view.to))]--; }
    for (let x = 1; x < change.length; x++) change[x] += change[x - 1];
    return change.map((value) => value * scale);
  });
  run.mostHere = 1;
  for (let x = 0; x < columns; x++) run.mostHere = Math.max(run.mostHere, Math.round(stacks[0][x] + stacks[1][x] + stacks[2][x]));
  const tall = bottom - top - 8;
  for (let x = 0; x < columns; x++) {
    let y = bottom;
    [colors.decode, colors.prefill, colors.wait].forEach((color, which) => {
      const size = (stacks[which][x] / run.mostHere) * tall;
      context.fillStyle = color;
      context.fillRect(EDGE.left + x, y - size, 1, size);
      y -= size;
    });
  }
  context.fillStyle = colors.stall;
  for (const [begin, end] of run.stalls) {
    if (end > view.from && begin < view.to) context.fillRect(place(begin, width), top, Math.max(1, place(end, width) - place(begin, width)), 5);
  }
}
function byColumn(run, width, column) {
  // The largest of a column of rows in every column of pixels.
  const { rows } = run, found = new Float64Array(Math.ceil(width));
  for (let at = firstAtOrAfter(rows.end, view.from); at < rows.end.length && rows.start[at] < view.to; at++) {
    const last = Math.min(found.length - 1, Math.ceil(place(rows.end[at], width)) - 1);
    for (let x = Math.max(0, Math.floor(place(rows.start[at], width))); x <= last; x++) found[x] = Math.max(found[x], column[at]);
  }
  return found;
}
function drawStrip(run, context, width, [top, bottom], colors) {
  // Prefill tokens upwards, decodes downwards, by their square roots so that a chunk can be seen.
  const middle = (top + bottom) / 2, tall = middle - top - 1, { rows } = run;
  const prefill = byColumn(run, width, rows.prefill), decodes = byColumn(run, width, rows.decodes);
  for (let x = EDGE.left; x < width; x++) {
    const up = Math.sqrt(prefill[x] / most.prefill) * tall, downwards = Math.sqrt(decodes[x] / most.decodes) * tall;
    context.fillStyle = colors.prefill;
    context.fillRect(x, middle - up, 1, up);
    context.fillStyle = colors.decode;
    context.fillRect(x, middle, 1, downwards);
  }
  line(context, EDGE.left, middle, width, middle, colors.faint);
  const ends = iterationEnds(run);
  if (ends === null || ends.length > width / 5) return;
  for (const [end] of ends) line(context, place(end, width), top, place(end, width), bottom, colors.paper);
}
function drawLoad(run, context, width, [top, bottom], colors) {
  const curves = [[run.rows.waiting, most.waiting, colors.waiting, []], [run.rows.kv, run.num_blocks, colors.kv, [5, 3]]];
  context.lineWidth = 1.5;
  for (const [column, full, color, dashes] of curves) {
    const found = byColumn(run, width, column);
    context.strokeStyle = color;
    context.setLineDash(dashes);
    context.beginPath();
    for (let x = EDGE.left; x < width; x++) context.lineTo(x, bottom - 1 - (found[x] / full) * (bottom - top - 2));
    context.stroke();
  }
  context.setLineDash([]);
  context.lineWidth = 1;
}
function describe(run, canvas, event) {
  // What is under the pointer, in words.
  const { rows, requests } = run, width = canvas.clientWidth, [top, bottom] = layout(canvas.clientHeight).lanes;
  const time = view.from + ((event.offsetX - EDGE.left) / (width - EDGE.left - EDGE.right)) * (view.to - view.from);
  if (time < view.from || time > view.to) return null;
  if (event.offsetY < bottom && run.lanes.shown) {
    const pitch = Math.min(14, (bottom - top) / run.lanes.shown.length), at = run.lanes.shown[Math.floor((event.offsetY - top) / pitch)];
    if (at !== undefined) {
      const known = (name, value) => (value === null ? `${name} -` : `${name} ${seconds(value / 1e6)}`);
      return [`request ${requests.id[at]}: ${count(requests.prompt[at])} prompt, ${count(requests.output[at])} output tokens`,
        `arrived ${requests.arrival[at].toFixed(3)} s, ${known("waited", requests.wait[at])}`,
        `${known("TTFT", requests.ttft[at])}, ${known("longest gap", requests.max_tbt[at])}`,
        requests.preemptions[at] ? `preempted ${requests.preemptions[at]} times` : ""].filter(Boolean).join("\n");
    }
  }
  const at = firstAtOrAfter(rows.end, time);
  if (at >= rows.end.length || rows.start[at] > time) return `${time.toFixed(3)} s: the replica is idle`;
  const each = rows.length[at] / 1e6 / rows.repeats[at];
  return [`${time.toFixed(3)} s: ${rows.repeats[at] > 1 ? `${count(rows.repeats[at])} iterations of ${seconds(each)}` : `an iteration of ${seconds(each)}`}`,
    `${count(rows.decodes[at])} decodes, ${count(rows.prefill[at])} prefill tokens`,
    `${count(rows.waiting[at])} waiting, ${count(rows.kv[at])} KV blocks`].join("\n");
}

// The range: shown, changed by buttons, dragging and keys, and drawn at most once a frame.

let panels = [], isDue = false;
function show(from, to) {
  const length = Math.min(Math.max(to - from, 1e-3), whole.to - whole.from);
  view.from = Math.max(whole.from, Math.min(from, whole.to - length));
  view.to = view.from + length;
  element("range").textContent = `${seconds(length)} from ${view.from.toFixed(2)} s, of ${seconds(whole.to)}`;
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; scale(); panels.forEach((redraw) => redraw()); });
}
function zoom(factor, around = (view.from + view.to) / 2) {
  show(around - (around - view.from) * factor, around + (view.to - around) * factor);
}
function pan(share) {
  const by = (view.to - view.from) * share;
  show(view.from + by, view.to + by);
}
const KEYS = { ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2) };
function attach(canvas) {
  const run = page.runs[canvas.dataset.run];
  const timeAt = (event) => view.from + ((event.offsetX - EDGE.left) / (canvas.clientWidth - EDGE.left - EDGE.right)) * (view.to - view.from);
  let begun = null, band = null;
  const redraw = surface(canvas, (context, width, height, colors) => {
    drawPanel(run, context, width, height, colors);
    if (!band) return;
    context.fillStyle = colors.ink;
    context.globalAlpha = 0.15;
    context.fillRect(place(band[0], width), 0, place(band[1], width) - place(band[0], width), height - EDGE.bottom);
  });
  panels.push(redraw);
  canvas.onpointerdown = (event) => { begun = timeAt(event); canvas.setPointerCapture(event.pointerId); };
  canvas.onpointermove = (event) => {
    if (begun !== null) { band = [begun, timeAt(event)]; redraw(); return hideTip(); }
    const text = describe(run, canvas, event);
    if (text) showTip(event, text); else hideTip();
  };
  canvas.onpointerup = () => {
    const chosen = band && [...band].sort((a, b) => a - b);
    begun = band = null;
    if (chosen && place(chosen[1], canvas.clientWidth) - place(chosen[0], canvas.clientWidth) > 4) show(...chosen); else redraw();
  };
  canvas.onpointercancel = () => { begun = band = null; redraw(); };
  canvas.onpointerleave = hideTip;
  canvas.ondblclick = () => show(whole.from, whole.to);
  canvas.onkeydown = (event) => { const move = KEYS[event.key]; if (move) { move(); event.preventDefault(); } };
}
function startTimeline() {
  page.runs.forEach(prepare);
  for (const part of document.querySelectorAll("#timeline [hidden]")) part.hidden = false;
  element("stall-means").textContent = page.stall_s ? `no token for ${seconds(page.stall_s)}` : "stall";
  document.querySelectorAll("canvas.timeline").forEach(attach);
  const actions = {
    whole: () => show(whole.from, whole.to), stall: () => show(...page.window),
    in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.5), right: () => pan(0.5),
  };
  for (const [id, action] of Object.entries(actions)) element(id).onclick = action;
  for (const button of document.querySelectorAll("button.zoom")) button.onclick = () => {
    const from = +button.dataset.from, to = +button.dataset.to, edge = Math.max(0.15 * (to - from), 0.05);
    show(from - edge, to + edge);
    document.querySelector(`canvas.timeline[data-run="${button.dataset.run}"]`).scrollIntoView({ block: "center" });
  };
  show(...page.window);
}

element("distributions").hidden = false;
distributionPlot("left", "ttft_s");
distributionPlot("right", "tbt_s");
if (page.window) startTimeline();
colorKeys();
dark.addEventListener("change", () => { colorKeys(); drawings.forEach((redraw) => redraw()); });
