// Distributions: one curve a run, its share of values above (or up to) x; x on a log axis.

const FLOOR = 1e-5; // the smallest share above that is drawn
function shareAt(curve, x) {
  const { value, share } = curve;
  if (x < value[0]) return 0;
  let low = 0, high = value.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (value[middle] <= x) low = middle; else high = middle;
  }
  if (low === value.length - 1 || value[low + 1] === value[low]) return share[low];
  return share[low] + (share[low + 1] - share[low]) * (x - value[low]) / (value[low + 1] - value[low]);
}
function distributionPlot(side, first) {
  const canvas = element(`plot-${side}`), select = element(`metric-${side}`);
  const curves = () => page.runs.map((run) => run.distributions[select.value]);
  const box = { left: 56, right: 12, top: 8, bottom: 26 };
  let range = [1, 10], pointed = null;
  const across = (x, width) => box.left
    + (Math.log(x / range[0]) / Math.log(range[1] / range[0])) * (width - box.left - box.right);
  const isTail = () => element("tail").checked;
  const down = (share, height) => {
    const whole = height - box.top - box.bottom;
    if (!isTail()) return box.top + (1 - share) * whole;
    return box.top + Math.log(Math.max(1 - share, FLOOR)) / Math.log(FLOOR) * whole;
  };
  const redraw = surface(canvas, (context, width, height, colors) => {
    const positive = curves().flatMap((curve) => curve.value).filter((value) => value > 0);
    const least = positive.reduce((a, b) => Math.min(a, b), Infinity), most = positive.reduce((a, b) => Math.max(a, b), 0);
    range = most ? [Math.max(least, most * 1e-6) * 0.9, most * 1.15] : [0.1, 10];
    for (const x of logTicks(...range)) {
      line(context, across(x, width), box.top, across(x, width), height - box.bottom, colors.line);
      label(context, seconds(x).replace(/\.0+ /, " "), across(x, width), height - 12, "center", colors.faint);
    }
    for (const share of isTail() ? [0, 0.9, 0.99, 0.999, 0.9999] : [0, 0.25, 0.5, 0.75, 1]) {
      line(context, box.left, down(share, height), width - box.right, down(share, height), colors.line);
      const text = isTail() ? `${+(100 * (1 - share)).toPrecision(1)} %` : `${100 * share} %`;
      label(context, text, box.left - 6, down(share, height), "right", colors.faint);
    }
    const limits = page.runs.map((run) => run.slo[{ max_tbt_s: "tbt_s" }[select.value] || select.value]).filter(Boolean);
    if (limits.length && limits[0] > range[0] && limits[0] < range[1]) {
      line(context, across(limits[0], width), box.top, across(limits[0], width), height - box.bottom, colors.faint, [2, 4]);
      label(context, `SLO ${seconds(limits[0])}`, across(limits[0], width) + 4, height - box.bottom - 9, "left", colors.faint);
    }
    context.save();
    context.beginPath();
    context.rect(box.left, box.top - 2, width - box.left - box.right, height - box.top - box.bottom + 4);
    context.clip();
    context.lineWidth = 2;
    page.runs.forEach((run, place) => {
      const { value, share } = curves()[place];
      context.strokeStyle = runColor(run);
      context.setLineDash(run.dashes.map((length) => length * 2));
      context.beginPath();
      value.forEach((x, at) => context.lineTo(across(Math.max(x, range[0]), width), down(share[at], height)));
      context.stroke();
    });
    context.restore();
    if (pointed) line(context, across(pointed, width), box.top, across(pointed, width), height - box.bottom, colors.ink);
  });
  for (const name of Object.keys(NAMES)) select.add(new Option(NAMES[name], name, name === first, name === first));
  const renamed = () => {
    const text = `${NAMES[select.value]}: share ${isTail() ? "above" : "up to"} a value`;
    element(`name-${side}`).textContent = text;
    canvas.setAttribute("aria-label", `${text}, one curve a run`);
    redraw();
  };
  select.onchange = renamed;
  element("tail").addEventListener("change", renamed);
  canvas.onpointermove = (event) => {
    const width = canvas.clientWidth, share = (event.offsetX - box.left) / (width - box.left - box.right);
    pointed = share < 0 || share > 1 ? null : range[0] * (range[1] / range[0]) ** share;
    redraw();
    if (!pointed) return hideTip();
    const lines = page.runs.map((run, place) => {
      const curve = curves()[place], upto = curve.value.length ? shareAt(curve, pointed) : null;
      return `${run.name}: ${upto === null ? "none" : percent(isTail() ? 1 - upto : upto)}`;
    });
    showTip(event, `${isTail() ? "above" : "up to"} ${seconds(pointed)}\n${lines.join("\n")}`);
  };
  canvas.onpointerleave = () => { pointed = null; hideTip(); redraw(); };
  renamed();
}

