// Ctrl-K: a box to type a name into, and what it leads to. All text is set as text, never as HTML.
// Links within a page's own HTML (`page.anchor`) and the pages of the menu are opened by `visit`, too: Streamlit's own links
// carry no time, and the address that gets it afterwards is one more for Back, which leads nowhere.

const TIME = ["from", "to", "last", "since"];
const KEPT = [...TIME, "zone"];

function onMenu(e) {
  const png = e.target instanceof Element ? e.target.closest("button.ra-png") : null;
  if (png) return saveDrawing(png);
  const link = e.target instanceof Element ? e.target.closest("a[data-testid=stTopNavLink], a.ra-menu, a.ra-go, a.ra-set") : null;
  if (!link || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey || e.button !== 0) return;
  e.preventDefault(); e.stopPropagation();
  if (link.matches(".ra-go")) return visit(link.href);
  if (link.matches(".ra-set")) return choose(link);
  const asked = new URLSearchParams([...new URLSearchParams(window.location.search)].filter(([name]) => KEPT.includes(name)));
  visit(link.pathname + (asked.size ? "?" + asked : ""));
}

// One of a few choices (`page.switch`): what it stands for, and the rest of the address as it is now.
function choose(link) {
  const now = new URLSearchParams(window.location.search), own = new URLSearchParams(link.dataset.set);
  if (own.has("last")) TIME.forEach((name) => now.delete(name));
  own.forEach((value, name) => now.set(name, value));
  for (const other of link.parentElement.children) other.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  visit(window.location.pathname + "?" + now);
}

// j, k: next and previous of all that a page lists, lines and rows of tables; o: the page of the one that has the focus.
function onWalk(e) {
  if (e.metaKey || e.ctrlKey || e.altKey || !["j", "k", "o"].includes(e.key)) return;
  const at = e.target instanceof Element ? e.target : null;
  if (at && at.closest("input, textarea, select, [contenteditable], dialog, [role=combobox]")) return;
  const all = [...document.querySelectorAll(".ra-walk")].filter((each) => each.offsetParent !== null), now = all.indexOf(document.activeElement);
  if (e.key === "o") {
    const page = now < 0 ? "" : all[now].dataset.page || all[now].getAttribute("href");
    if (page) { e.preventDefault(); visit(page); }
  } else if (all.length) {
    e.preventDefault();
    all[Math.max(0, Math.min(all.length - 1, now < 0 ? 0 : now + (e.key === "j" ? 1 : -1)))].focus();
  }
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const dialog = parentElement.querySelector("dialog"), input = dialog.querySelector("input"), list = dialog.querySelector("ol");
  const note = dialog.querySelector("p"), open = parentElement.querySelector("button");
  let chosen = 0, later = 0;

  const rows = () => [...list.children];
  const mark = () => rows().forEach((row, i) => {
    row.setAttribute("aria-selected", String(i === chosen));
    if (i === chosen) { row.scrollIntoView({ block: "nearest" }); input.setAttribute("aria-activedescendant", row.id); }
  });
  const go = (found) => { dialog.close(); visit(found.href); };
  const isAnswer = data.query === input.value.trim();
  if (isAnswer || !input.value.trim()) {
    list.replaceChildren(...data.found.map((found, i) => {
      const row = make("li");
      row.id = "ra-found-" + i; row.setAttribute("role", "option");
      row.append(make("span", "", found.kind), make("b", "", found.name), make("i", "", found.where));
      row.onclick = () => go(found);
      return row;
    }));
    note.textContent = data.found.length ? data.note : data.query ? "Nothing has this in its name." : "A group, an incident, a connector, a topic.";
    chosen = 0; mark();
  }
  const show = () => { if (!dialog.open) { dialog.showModal(); input.select(); } };
  open.onclick = show;
  input.oninput = () => { clearTimeout(later); later = setTimeout(() => setTriggerValue("query", input.value.trim()), 120); };
  dialog.onkeydown = (e) => {
    e.stopPropagation();
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      chosen = Math.max(0, Math.min(rows().length - 1, chosen + (e.key === "ArrowDown" ? 1 : -1))); mark();
    } else if (e.key === "Enter" && rows()[chosen]) { e.preventDefault(); rows()[chosen].click(); }
  };
  dialog.onclick = (e) => { if (e.target === dialog) dialog.close(); };
  const onKey = (e) => {
    if ((e.ctrlKey || e.metaKey) && !e.shiftKey && !e.altKey && e.key.toLowerCase() === "k") { e.preventDefault(); e.stopPropagation(); show(); }
  };
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("keydown", onWalk);
  document.addEventListener("click", onMenu, true);
  return () => { document.removeEventListener("keydown", onKey, true); document.removeEventListener("keydown", onWalk); document.removeEventListener("click", onMenu, true); };
}
