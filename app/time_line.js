// Lanes over time on a canvas. Data comes as Arrow tables (see charts.TimeLine.data); all text is drawn or set as text, never as HTML.
// Drag: zoom. Double click: everything. Click on a mark: open it.

const FAMILY_SIGNS = ["\u2715", "\u25bc", "\u25b2", "\u25a0", "\u00b7", "?", "\u25c6", "\u25c7", "\u2691", "\u25cf", "\u2709\ufe0e"];
const CHANGE = 8, CHAIN = 9;
const LIGHT = {
  bad: "#b8400e", waiting: "#0b62a8", working: "#8a929c", faint: "#c9ced6", text: "#2b303a", quiet: "#5b6370",
  grid: "rgba(60,66,80,0.12)", lane: "rgba(60,66,80,0.05)", window: "#a6adb8", tip: "#20242c", tipText: "#ffffff", strip: "#5b6370",
};
const DARK = {
  bad: "#ff8c5a", waiting: "#6cb6ff", working: "#7d8794", faint: "#4a515c", text: "#e8eaee", quiet: "#a9b1bd",
  grid: "rgba(220,226,240,0.13)", lane: "rgba(220,226,240,0.05)", window: "#6a727e", tip: "#f0f2f5", tipText: "#15181d", strip: "#a9b1bd",
};
const STRIP = 46, LABEL = 14, AXIS = 24, SIGNS = 14, GAP = 6;

const column = (table, name) => { const c = table && table.getChild(name); return c ? c.toArray() : []; };

function isDark(element) {
  const probe = getComputedStyle(element).getPropertyValue("--st-background-color").trim() || "#ffffff";
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = probe;
  const hex = canvas.fillStyle;
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}

function hatch(context, colour, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(6 * ratio);
  const c = tile.getContext("2d");
  c.strokeStyle = colour; c.lineWidth = 1.6 * ratio;
  const s = tile.width;
  for (const shift of [-s, 0, s]) { c.beginPath(); c.moveTo(shift, s); c.lineTo(shift + s, 0); c.stroke(); }
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5,
  1728e5, 6048e5, 1728e6];

function saySpan(ms) {
  const sign = ms < 0 ? "\u2212" : "", v = Math.abs(ms);
  if (v < 0.5) return "0";
  if (v < 999.5) return sign + Math.round(v) + " ms";
  if (v < 59950) return sign + (v / 1000).toFixed(1) + " s";
  const s = Math.round(v / 1000);
  if (s < 3600) return sign + Math.floor(s / 60) + " min" + (s % 60 ? " " + (s % 60) + " s" : "");
  if (s < 86400) return sign + Math.floor(s / 3600) + " h" + (s % 3600 >= 60 ? " " + Math.floor((s % 3600) / 60) + " min" : "");
  return sign + Math.floor(s / 86400) + " d" + (s % 86400 >= 3600 ? " " + Math.floor((s % 86400) / 3600) + " h" : "");
}

// The text, its middle left out where it does not fit.
function fitted(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let keep = text.length;
  const cut = () => text.slice(0, Math.ceil(keep / 2)) + "\u2026" + text.slice(text.length - Math.floor(keep / 2));
  while (keep > 2 && context.measureText(cut()).width > room) keep--;
  return cut();
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".time-line");
  const canvas = root.querySelector("canvas"), tip = root.querySelector(".tip");
  const view = data.view, texts = data.texts, lanes = data.lanes;
  const bars = { lane: column(data.bars, "lane"), from: column(data.bars, "from"), to: column(data.bars, "to"),
    level: column(data.bars, "level"), style: column(data.bars, "style"), tip: column(data.bars, "tip") };
  const marks = { at: column(data.marks, "at"), family: column(data.marks, "family"), tip: column(data.marks, "tip"), target: column(data.marks, "target") };
  const above = { at: column(data.above, "at"), value: column(data.above, "value") };
  const below = { at: column(data.below, "at"), value: column(data.below, "value") };
  const waiting = { at: column(data.belowWaiting, "at"), value: column(data.belowWaiting, "value") };
  const hasSigns = marks.at.length > 0;
  const zone = view.zone || "UTC";
  const format = (options, locale = "en-GB") => { try { return new Intl.DateTimeFormat(locale, { ...options, timeZone: zone }); }
    catch (e) { return new Intl.DateTimeFormat(locale, { ...options, timeZone: "UTC" }); } };
  const toDay = format({ day: "numeric", month: "short" }), toMinute = format({ hour: "2-digit", minute: "2-digit" });
  const toSecond = format({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const toAll = format({ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" }, "sv-SE");
  const isRelative = view.zero !== null && view.zero !== undefined;
  let low = view.from, high = view.to, drag = null, hover = null;

  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", view.alt);

  root.querySelector(".png").onclick = () => {  // as it is drawn now: the chosen time, the reader's colours
    const copy = document.createElement("canvas");
    copy.width = canvas.width; copy.height = canvas.height;
    const context = copy.getContext("2d");
    context.fillStyle = getComputedStyle(root).getPropertyValue("--st-background-color").trim() || "#ffffff";
    context.fillRect(0, 0, copy.width, copy.height);
    context.drawImage(canvas, 0, 0);
    copy.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = (view.alt.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60) || "time-line") + ".png";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  };

  const laneHeight = view.laneHeight || Math.max(3, Math.min(24, 720 / Math.max(1, lanes.length)));
  const heads = new Set(view.heads || []);
  const scrub = root.querySelector(".scrub"), scrubs = view.scrub !== null && view.scrub !== undefined;
  let held = scrubs ? view.scrub : null;
  const labelEvery = Math.ceil(13 / laneHeight);  // thin lanes: every so many have their name drawn, the others on hover
  const aboveHeight = above.at.length ? STRIP + GAP : 0, belowHeight = below.at.length ? STRIP + GAP : 0;
  const lanesTop = aboveHeight + (hasSigns ? SIGNS : 2);
  const height = lanesTop + lanes.length * laneHeight + belowHeight + AXIS;

  const geometry = () => {
    const width = Math.max(200, root.clientWidth);
    const gutter = Math.min(230, Math.max(112, width * 0.24));  // on a phone room for a partition and its two owners
    return { width, gutter, scale: (width - gutter - 4) / (high - low) };
  };
  const sayTime = (at) => isRelative ? saySpan(at - view.zero) : toAll.format(at) + "";

  function sayTick(at, step) {
    if (isRelative) return saySpan(at - view.zero);
    if (step >= 864e5) return toDay.format(at);
    if (step >= 6e4) { const t = toMinute.format(at); return t === "00:00" ? toDay.format(at) : t; }
    if (step >= 1e3) return toSecond.format(at);
    return toSecond.format(at) + "." + String(((at % 1000) + 1000) % 1000).padStart(3, "0");
  }

  // The most of each pixel's column.
  function mostOf(steps, g, columns) {
    const most = new Float64Array(columns);
    for (let i = 0; i < steps.at.length; i++) {
      const until = i + 1 < steps.at.length ? steps.at[i + 1] : high;
      if (until < low || steps.at[i] > high || !(steps.value[i] > 0)) continue;
      const a = Math.max(0, Math.floor((steps.at[i] - low) * g.scale)), b = Math.min(columns - 1, Math.floor((until - low) * g.scale));
      for (let x = a; x <= b; x++) if (steps.value[i] > most[x]) most[x] = steps.value[i];
    }
    return most;
  }

  // `part`, where given: so much of it is drawn in a pattern, from the floor.
  function strip(context, g, steps, top, name, colour, quiet, part, pattern) {
    const columns = Math.ceil(g.width - g.gutter - 4);
    const most = mostOf(steps, g, columns), parts = part && part.at.length ? mostOf(part, g, columns) : null;
    const peak = most.reduce((a, b) => Math.max(a, b), 0);
    if (peak > 0) for (let x = 0; x < columns; x++) if (most[x] > 0) {
      const h = Math.max(1.5, (STRIP - LABEL) * most[x] / peak);
      context.fillStyle = colour;
      context.fillRect(g.gutter + x, top + STRIP - h, 1, h);
      if (!parts || !(parts[x] > 0)) continue;
      const p = h * Math.min(1, parts[x] / most[x]);
      context.clearRect(g.gutter + x, top + STRIP - p, 1, p);
      context.fillStyle = pattern;
      context.fillRect(g.gutter + x, top + STRIP - p, 1, p);
    }
    context.fillStyle = quiet;
    context.fillRect(g.gutter, top + STRIP, g.width - g.gutter - 4, 1);
    context.textAlign = "left"; context.textBaseline = "middle";
    const words = name.split(" "), room = g.gutter - 10;
    let first = words[0], i = 1;
    while (i < words.length && context.measureText(first + " " + words[i]).width < room) first += " " + words[i++];
    const second = words.slice(i).join(" ");
    context.fillText(fitted(context, first, room), 2, top + STRIP - (second ? 24 : 16));
    context.fillText(fitted(context, second, room), 2, top + STRIP - 9);
    const count = Math.round(peak), unit = name.split(", ").pop();
    const label = "highest bar: " + count.toLocaleString("en-GB") + " " + (count === 1 ? unit.replace(/^(\S+?)s(?= |$)/, "$1") : unit);
    context.fillText(label, g.gutter + 4, top + 6);
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, g = geometry();
    const c = isDark(root) ? DARK : LIGHT;
    canvas.style.height = height + "px"; canvas.style.width = g.width + "px";
    if (canvas.width !== Math.round(g.width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(g.width * ratio); canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, g.width, height);
    context.font = "12px " + (getComputedStyle(root).getPropertyValue("--st-font") || "sans-serif");
    const lanesBottom = lanesTop + lanes.length * laneHeight;
    const patterns = { waiting: hatch(context, c.waiting, ratio), faint: hatch(context, c.quiet, ratio) };

    // ticks
    const wanted = Math.max(2, (g.width - g.gutter) / (isRelative ? 90 : 100));
    const step = STEPS_MS.find((s) => (high - low) / s <= wanted) || STEPS_MS[STEPS_MS.length - 1] * Math.ceil((high - low) / STEPS_MS[STEPS_MS.length - 1] / wanted);
    const zero = isRelative ? view.zero : 0;
    context.textAlign = "center"; context.textBaseline = "top";
    for (let k = Math.ceil((low - zero) / step); zero + k * step <= high; k++) {
      const at = zero + k * step, x = g.gutter + (at - low) * g.scale;
      context.fillStyle = c.grid; context.fillRect(Math.round(x), 0, 1, height - AXIS + 4);
      context.fillStyle = c.quiet;
      const label = sayTick(at, step), half = context.measureText(label).width / 2;
      if (x - half >= g.gutter - 6 && x + half <= g.width) context.fillText(label, x, height - AXIS + 8);
    }

    // lanes
    context.textBaseline = "middle"; context.textAlign = "left";
    for (let i = 0; i < lanes.length; i++) {
      const top = lanesTop + i * laneHeight;
      if (i % 2 === 0) { context.fillStyle = c.lane; context.fillRect(g.gutter, top, g.width - g.gutter - 4, laneHeight); }
      if (i % labelEvery === 0) {
        context.fillStyle = heads.has(i) ? c.quiet : c.text;
        const label = fitted(context, lanes[i], g.gutter - 8);
        context.fillText(label, 2, top + Math.max(laneHeight, labelEvery > 1 ? 6 : 0) / 2);
      }
    }
    context.save();
    context.beginPath(); context.rect(g.gutter, 0, g.width - g.gutter - 4, height); context.clip();
    const pad = laneHeight > 8 ? 2 : 0.5;
    for (let i = 0; i < bars.lane.length; i++) {
      if (bars.to[i] < low || bars.from[i] > high) continue;
      const x = g.gutter + (Math.max(bars.from[i], low) - low) * g.scale;
      let w = (Math.min(bars.to[i], high) - Math.max(bars.from[i], low)) * g.scale;
      const room = laneHeight - 2 * pad, style = bars.style[i];
      let h = Math.max(1, room * bars.level[i]), y = lanesTop + bars.lane[i] * laneHeight + laneHeight - pad - h;
      if (style === 0) { context.fillStyle = c.working; if (w > 0.15) context.fillRect(x, y, w, h); continue; }
      if (style === 7 || style === 8) { context.fillStyle = style === 7 ? c.bad : c.faint; w = Math.max(w, 2); context.fillRect(x, y, w > 3 ? w - 1 : w, h); continue; }
      w = Math.max(w, 1.5);
      if (style === 1) { context.fillStyle = c.bad; y = lanesTop + bars.lane[i] * laneHeight + (laneHeight - h) / 2; context.fillRect(x, y, w, h); }
      else if (style === 2) { y = lanesTop + bars.lane[i] * laneHeight + (laneHeight - h) / 2; context.clearRect(x, y, w, h); context.fillStyle = patterns.waiting; context.fillRect(x, y, w, h); context.strokeStyle = c.waiting; context.lineWidth = 1; context.strokeRect(x + 0.5, y + 0.5, Math.max(0.5, w - 1), h - 1); }
      else if (style === 3) { y = lanesTop + bars.lane[i] * laneHeight + (laneHeight - h) / 2; context.strokeStyle = c.window; context.lineWidth = 1.5; context.strokeRect(x + 0.75, y, Math.max(0.5, w - 1.5), h); context.fillStyle = c.lane; context.fillRect(x, y, w, h); }
      else if (style === 4) {
        const middle = lanesTop + bars.lane[i] * laneHeight + laneHeight / 2;
        context.fillStyle = c.bad; context.fillRect(x, middle - 0.75, w, 1.5);
        context.fillRect(x, middle - 4, 1.5, 8); context.fillRect(x + w - 1.5, middle - 4, 1.5, 8);
      }
      else if (style === 5) { context.fillStyle = c.faint; context.fillRect(x, y + h * 0.3, w, h * 0.4); }
      else if (style === 9) {
        context.strokeStyle = c.quiet; context.lineWidth = 2; context.beginPath(); context.moveTo(x + 1, y); context.lineTo(x + 1, y + h); context.stroke();
        context.lineWidth = 1; context.setLineDash([2, 5]); context.beginPath(); context.moveTo(x + 4, y + h / 2); context.lineTo(x + w, y + h / 2); context.stroke(); context.setLineDash([]);
      }
      else { context.fillStyle = patterns.faint; context.fillRect(x, y, w, h); context.strokeStyle = c.quiet; context.lineWidth = 1; context.strokeRect(x + 0.5, y + 0.5, Math.max(0.5, w - 1), h - 1); }
    }

    // marks: a line through the lanes with its family's sign on top; signs that would touch are thinned out, failures kept
    context.textAlign = "center"; context.textBaseline = "middle";
    const colourOf = (family) => family === 0 ? c.bad : family === 4 ? c.faint : family === CHANGE ? c.waiting : family === CHAIN ? c.text : c.quiet;
    const isKept = (family) => family === 0 || family === CHANGE;
    const taken = new Map();
    let inView = 0, changes = 0;
    for (let i = 0; i < marks.at.length; i++) if (marks.at[i] >= low && marks.at[i] <= high) { inView++; if (marks.family[i] === CHANGE) changes++; }
    const crowd = Math.min(1, 0.16 * (g.width - g.gutter) / Math.max(1, inView));  // where marks crowd, they must not hide the lanes
    const isFlagOnly = changes > (g.width - g.gutter) / 40;  // a fleet is deployed somewhere all the time
    for (const isFailure of [false, true]) for (let i = 0; i < marks.at.length; i++) {
      if (isKept(marks.family[i]) !== isFailure || marks.at[i] < low || marks.at[i] > high) continue;
      const x = g.gutter + (marks.at[i] - low) * g.scale;
      context.fillStyle = colourOf(marks.family[i]);
      context.globalAlpha = Math.max(0.06, (marks.family[i] === 4 ? 0.7 : 0.85) * crowd);
      if (!isFlagOnly || marks.family[i] !== CHANGE) context.fillRect(x - 0.5, lanesTop, marks.family[i] === 0 ? 1.5 : 1, lanesBottom - lanesTop);
      context.globalAlpha = 1;
      const cell = Math.round(x / 9), held = taken.get(cell);
      if (held === undefined || isFailure) taken.set(cell, i);
    }
    let lastX = -99;
    for (const [, i] of [...taken.entries()].sort((a, b) => a[0] - b[0])) {
      const x = g.gutter + (marks.at[i] - low) * g.scale;
      if (x - lastX < 8 && !isKept(marks.family[i])) continue;
      context.clearRect(x - 4, lanesTop - SIGNS, 8, SIGNS - 1);
      context.fillStyle = colourOf(marks.family[i]);
      context.fillText(FAMILY_SIGNS[marks.family[i]] || "\u25c6", x, lanesTop - SIGNS / 2);
      lastX = x;
    }
    named(context, g, low, high, lanesTop - SIGNS / 2, c.quiet);
    if (drag && Math.abs(drag.to - drag.from) > 3) {
      context.fillStyle = c.waiting; context.globalAlpha = 0.18;
      context.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), height - AXIS);
      context.globalAlpha = 1;
    }
    if (held !== null && held >= low && held <= high) { context.fillStyle = c.text; context.fillRect(g.gutter + (held - low) * g.scale - 0.75, 0, 1.5, height - AXIS); }
    if (hover !== null) { context.fillStyle = c.text; context.globalAlpha = 0.4; context.fillRect(hover, 0, 1, height - AXIS); context.globalAlpha = 1; }
    context.restore();
    if (above.at.length) strip(context, g, above, 0, view.above, ({ waiting: c.waiting, bad: c.bad })[view.aboveTone] || c.strip, c.quiet);
    if (below.at.length) strip(context, g, below, lanesBottom + GAP, view.below, c.bad, c.quiet, waiting, patterns.waiting);
    tip.style.background = c.tip; tip.style.color = c.tipText;
    root.dataset.drawn = String(bars.lane.length);
  }

  // what a mark is, beside its sign; of marks too close for that, all names stand beside the first
  const named = (context, g, low, high, y, colour) => {
    const names = view.markNames || [], groups = [];
    for (const i of names.map((_, i) => i).filter((i) => marks.at[i] >= low && marks.at[i] <= high).sort((a, b) => marks.at[a] - marks.at[b])) {
      const x = g.gutter + (marks.at[i] - low) * g.scale, last = groups[groups.length - 1];
      if (last && x - last.x < context.measureText(last.said).width + 22) { last.said += `, ${names[i]}`; last.end = x; }
      else groups.push({ x, end: x, said: names[i] });
    }
    context.fillStyle = colour;
    let taken = g.gutter;
    for (const { x, end, said } of groups) {
      const width = context.measureText(said).width, from = end + 7 + width < g.width ? end + 7 : x - 7 - width;
      if (from < taken) continue;
      context.textAlign = "left";
      context.fillText(said, from, y);
      taken = from + width + 8;
    }
    context.textAlign = "center";
  };

  const nearestMark = (x, g) => {
    let best = -1, gap = 5;
    for (let i = 0; i < marks.at.length; i++) {
      const away = Math.abs(g.gutter + (marks.at[i] - low) * g.scale - x);
      if (away < gap) { gap = away; best = i; }
    }
    return best;
  };
  const barAt = (lane, at, slackPx, g) => {
    let found = -1, smallest = Infinity;
    for (let i = 0; i < bars.lane.length; i++) if (bars.lane[i] === lane) {
      const slack = bars.style[i] === 0 ? 0 : slackPx / g.scale, size = bars.to[i] - bars.from[i];
      if (bars.from[i] - slack <= at && at <= bars.to[i] + slack && (size < smallest || (size === smallest && bars.style[i] >= 7))) { found = i; smallest = size; }
    }
    return found;
  };
  // What each lane says at a moment, as words: who held what.
  function say(at) {
    if (!scrubs || !scrub) return;
    const g = geometry(), rows = [];
    const head = document.createElement("p");
    head.className = "at"; head.textContent = "At " + sayTime(at) + (view.scrubHint ? " \u00b7 " + view.scrubHint : "");
    for (let lane = 0; lane < lanes.length; lane++) {
      if (heads.has(lane)) continue;
      const found = barAt(lane, at, 0, g);
      if (found < 0 || bars.tip[found] < 0) continue;
      const row = document.createElement("div"), name = document.createElement("b"), what = document.createElement("span");
      name.textContent = lanes[lane]; what.textContent = texts[bars.tip[found]];
      if (bars.style[found] === 1) what.className = "bad";
      if (bars.style[found] === 2) what.className = "waiting";
      row.append(name, what); rows.push(row);
    }
    if (!rows.length) { const none = document.createElement("div"); none.textContent = "Nobody is known to have held anything."; rows.push(none); }
    scrub.replaceChildren(head, ...rows);
    scrub.hidden = false;
  }
  function show(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, g = geometry();
    hover = x > g.gutter && x < g.width - 4 ? x : null;
    const lines = [];
    let mark = -1;
    if (held !== null && held >= low && held <= high) { context.fillStyle = c.text; context.fillRect(g.gutter + (held - low) * g.scale - 0.75, 0, 1.5, height - AXIS); }
    if (hover !== null) {
      const at = low + (x - g.gutter) / g.scale;
      mark = nearestMark(x, g);
      if (mark >= 0) lines.push(texts[marks.tip[mark]], sayTime(marks.at[mark]));
      else {
        const lane = Math.floor((y - lanesTop) / laneHeight);
        if (lane >= 0 && lane < lanes.length) {
          lines.push(lanes[lane]);
          const found = barAt(lane, at, 2, g);
          if (found >= 0 && bars.tip[found] >= 0) lines.push(texts[bars.tip[found]], saySpan(bars.to[found] - bars.from[found]) + " from " + sayTime(bars.from[found]));
        }
        lines.push(sayTime(at));
      }
      if (!drag) say(at);
    }
    canvas.style.cursor = mark >= 0 && marks.target[mark] >= 0 ? "pointer" : "crosshair";
    tip.replaceChildren(...lines.map((text) => { const d = document.createElement("div"); d.textContent = text; return d; }));
    tip.hidden = lines.length === 0;
    if (!tip.hidden) {
      tip.style.left = Math.max(0, Math.min(x + 12, g.width - tip.offsetWidth - 4)) + "px";
      tip.style.top = Math.max(0, Math.min(y + 14, height - tip.offsetHeight - 2)) + "px";
    }
  }

  canvas.onpointerdown = (e) => { if (e.button === 0) { if (scrubs) canvas.focus({ preventScroll: true }); const x = e.clientX - canvas.getBoundingClientRect().left; drag = { from: x, to: x }; canvas.setPointerCapture(e.pointerId); } };
  canvas.onpointermove = (e) => { if (drag) drag.to = e.clientX - canvas.getBoundingClientRect().left; show(e); requestAnimationFrame(draw); };
  canvas.onpointerleave = () => { hover = null; tip.hidden = true; if (held !== null) say(held); requestAnimationFrame(draw); };
  canvas.onpointercancel = () => { drag = null; hover = null; tip.hidden = true; requestAnimationFrame(draw); };
  canvas.onpointerup = (e) => {
    if (!drag) return;
    const g = geometry(), [a, b] = [drag.from, drag.to].sort((p, q) => p - q), x = drag.to;
    drag = null;
    if (b - a > 6) {
      const from = low + (Math.max(a, g.gutter) - g.gutter) / g.scale, to = low + (Math.max(b, g.gutter) - g.gutter) / g.scale;
      if (to - from >= 1) { low = from; high = to; if (!isRelative && !scrubs) setTriggerValue("range", [Math.floor(from), Math.ceil(to)]); }
    } else {
      const mark = nearestMark(x, g);
      if (mark >= 0 && marks.target[mark] >= 0) setTriggerValue("mark", marks.target[mark]);
      else if (scrubs) { held = low + (x - g.gutter) / g.scale; say(held); }
    }
    draw();
  };
  canvas.ondblclick = () => { low = view.from; high = view.to; if (!isRelative && !scrubs) setTriggerValue("range", "all"); draw(); };

  if (scrubs) {
    canvas.tabIndex = 0;
    canvas.onkeydown = (e) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!by || held === null) return;
      e.preventDefault();
      held = Math.min(high, Math.max(low, held + by * (high - low) / (e.shiftKey ? 20 : 200)));
      say(held); draw();
    };
    say(held);
  } else if (scrub) scrub.hidden = true;

  const watcher = new ResizeObserver(() => draw());
  watcher.observe(root);
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  const later = () => setTimeout(draw, 150);
  scheme.addEventListener("change", later);
  draw();
  return () => { watcher.disconnect(); scheme.removeEventListener("change", later); };
}
