// A table of many rows: a click on a head sorts, a row opens its page. All text is set as text, never as HTML.
// `palette.js` walks its rows by j and k; Enter on a row is a click on its link.

const SVG = "http://www.w3.org/2000/svg";
const AT_ONCE = 200, ON_A_PHONE = 8, SEARCHED_FROM = 16;

function bars(values, top) {
  const svg = document.createElementNS(SVG, "svg"), path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", `0 0 ${values.length} 1`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-label", `at most ${Math.max(0, ...values)} at once`);
  svg.setAttribute("role", "img");
  path.setAttribute("d", values.map((v, i) => (v > 0 ? `M${i + 0.1} 1V${1 - v / top}h.8V1z` : "")).join(""));
  svg.append(path);
  return svg;
}

// The whole table as a file, what is not known left empty. Its texts are such as a spreadsheet may open (`words.cell`).
function take(data, kind) {
  const rows = data.hrefs.map((_, r) => data.columns.map((c) => c.cells[r]));
  const quoted = (v) => (v === null ? "" : `"${String(v).replaceAll('"', '""')}"`);
  const text = kind === "CSV" ? [data.columns.map((c) => c.head), ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n"
    : JSON.stringify(rows.map((row) => Object.fromEntries(row.map((v, at) => [data.columns[at].head, v]))));
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind === "CSV" ? "text/csv" : "application/json" }));
  link.download = `${data.label.replaceAll(" ", "-")}.${kind.toLowerCase()}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".ra-long"), columns = data.columns;
  // Kept at the element: a page that runs again calls this again, and a reader stays where he was.
  const state = root.state || (root.state = { sorted: null, isDown: false, wanted: "", more: 0 });
  const hrefs = data.hrefs.map((middle) => (middle === null ? null : data.around[0] + middle + data.around[1]));
  const once = window.matchMedia("(max-width: 640px)").matches ? ON_A_PHONE : AT_ONCE;
  const numberOf = columns.map((c) => {
    const given = c.decimals === null ? {} : { minimumFractionDigits: c.decimals, maximumFractionDigits: c.decimals };
    const whole = new Intl.NumberFormat("en-US", given);
    const part = c.decimals === null ? new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : whole;
    return (v) => (Number.isInteger(v) ? whole : part).format(v);
  });
  const said = (c, r) => {
    const value = columns[c].cells[r];
    return value === null ? data.placeholder : typeof value === "number" ? numberOf[c](value) : String(value);
  };
  const isNumber = (c) => columns[c].cells.some((v) => typeof v === "number");

  const box = make("div", "ra-long-box"), table = make("table"), head = make("tr"), body = make("tbody"), top = make("thead");
  box.style.setProperty("--ra-height", data.height + "px");
  table.style.setProperty("--ra-width", columns.reduce((sum, c) => sum + c.width, 0) + "px");
  table.setAttribute("aria-label", data.label);
  const group = make("colgroup");
  for (const c of columns) { const col = make("col"); col.style.width = c.width + "px"; group.append(col); }
  top.append(head);
  table.append(group, top, body);
  const more = make("button", "ra-long-more ra-walk");
  more.type = "button";

  const heads = columns.map((c, at) => {
    const cell = make("th"), button = make("button", "", c.head);
    button.type = "button";
    button.title = c.help || "Sort";
    button.onclick = () => {
      if (state.sorted !== at) { state.sorted = at; state.isDown = isNumber(at); }
      else if (state.isDown === isNumber(at)) state.isDown = !state.isDown;
      else state.sorted = null;  // the third click: as it came
      state.more = 0;
      draw();
    };
    cell.append(button);
    head.append(cell);
    return cell;
  });

  function order() {
    const found = data.hrefs.map((_, r) => r).filter((r) => !state.wanted || columns.some((_, c) => said(c, r).toLowerCase().includes(state.wanted)));
    const at = state.sorted;
    if (at === null || at >= columns.length) return found;
    const values = columns[at].cells, sign = state.isDown ? -1 : 1;
    const weight = (v) => (Array.isArray(v) ? v.reduce((a, b) => a + b, 0) : v);
    const compare = new Intl.Collator(undefined, { numeric: true }).compare;
    return found.sort((a, b) => {
      const x = weight(values[a]), y = weight(values[b]);
      if (x === null || y === null) return (x === null) - (y === null);  // what is not known comes last both ways
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : compare(String(x), String(y)));
    });
  }

  function rowOf(r) {
    const row = make("tr");
    columns.forEach((c, at) => {
      const cell = make("td", typeof c.cells[r] === "number" ? "ra-long-n" : ""), value = c.cells[r];
      cell.dataset.head = c.head;
      if (at === 0) {
        const link = make("a", "ra-walk", said(at, r));
        if (hrefs[r] !== null) link.href = hrefs[r]; else link.tabIndex = -1;
        cell.append(link);
      } else if (Array.isArray(value)) cell.append(bars(value, c.top));
      else cell.append(make("span", "", said(at, r)));
      row.append(cell);
    });
    if (hrefs[r] !== null) row.className = "ra-long-leads";
    row.onclick = (e) => {
      if (hrefs[r] === null || e.metaKey || e.ctrlKey || e.shiftKey || !window.getSelection().isCollapsed) return;
      e.preventDefault();
      visit(hrefs[r]);
    };
    row.onmouseover = (e) => {  // what is cut is shown whole
      const cell = e.target instanceof Element ? e.target.closest("td") : null;
      if (cell && !cell.title && cell.scrollWidth > cell.clientWidth) cell.title = cell.textContent;
    };
    return row;
  }

  function draw() {
    const rows = order(), shown = rows.slice(0, once * (1 + state.more)), left = rows.length - shown.length;
    heads.forEach((cell, at) => {
      if (at === state.sorted) cell.setAttribute("aria-sort", state.isDown ? "descending" : "ascending"); else cell.removeAttribute("aria-sort");
    });
    body.replaceChildren(...shown.map(rowOf));
    more.hidden = left <= 0;
    more.textContent = `Show ${Math.min(left, once).toLocaleString("en-US")} more of ${left.toLocaleString("en-US")}`;
    if (hrefs.every((href) => href === null)) box.tabIndex = 0;  // else nothing in it that scrolls takes the keyboard
  }
  more.onclick = () => {
    const before = body.children.length;
    state.more += 1;
    draw();
    body.children[before]?.querySelector(".ra-walk").focus();
  };
  box.append(table, more);

  const find = make("input", "ra-search ra-long-find");
  find.type = "search";
  find.placeholder = "Find in this table";
  find.setAttribute("aria-label", "Find in this table");
  find.value = state.wanted;
  find.oninput = () => { state.wanted = find.value.trim().toLowerCase(); state.more = 0; draw(); };
  const focused = document.activeElement?.matches(".ra-walk") && root.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const scrolled = root.querySelector(".ra-long-box")?.scrollTop ?? 0;
  draw();
  const tools = make("div", "ra-long-tools");
  if (data.isSearched && data.hrefs.length >= SEARCHED_FROM) tools.append(find);
  for (const kind of data.isTaken ? ["CSV", "JSON"] : []) {
    const button = make("button", "", kind);
    button.type = "button";
    button.title = `Save the whole table as ${kind}`;
    button.onclick = () => take(data, kind);
    tools.append(button);
  }
  root.replaceChildren(...(tools.hasChildNodes() ? [tools] : []), box);
  box.scrollTop = scrolled;
  if (focused) [...body.querySelectorAll(".ra-walk")].find((a) => a.getAttribute("href") === focused)?.focus({ preventScroll: true });
}
