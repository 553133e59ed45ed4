// Incidents or findings, one line each, that open in place. All text is set as text, never as HTML.
// `palette.js` walks them by j and k; Enter: open or close; o: its own page.

// A duration stays on one line: `11 h 10 min`, `39 min 53 s`.
const whole = (text) => text.replace(/\b\d[\d.,]*(?: (?:ms|s|min|h|d)\b(?: \d+(?= (?:s|min|h)\b))?)+/g, (found) => found.replaceAll(" ", "\u00a0"));

// A name is not broken at its hyphens while it fits a line: its pieces go to the next line whole.
function subjectOf(text) {
  const subject = make("span", "ra-line-subject");
  const pieces = text.split(" \u00b7 ");
  pieces.forEach((piece, at) => {
    if (at) subject.append(" ");
    subject.append(make("span", "ra-line-piece", at + 1 < pieces.length ? piece + " \u00b7" : piece));
  });
  return subject;
}

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".ra-list");
  const open = root.openRows || (root.openRows = new Set());

  const anchor = (link) => {
    const found = make("a", link.isMain ? "ra-main-link" : "", link.label);
    found.href = link.href;
    found.onclick = (e) => {
      if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return;
      e.preventDefault(); e.stopPropagation();
      visit(link.href);
    };
    return found;
  };

  const lines = data.rows.map((row) => {
    const item = make("li", "ra-line ra-line-" + row.tone);
    const head = make("div", "ra-line-head");
    const button = make("button", "ra-line-open ra-walk");
    button.type = "button";
    button.dataset.page = (row.links.find((link) => link.isMain) || {}).href || "";
    button.append(make("span", "ra-line-sign", row.sign), subjectOf(row.subject), make("span", "ra-line-cause", whole(row.cause)),
      make("span", "ra-line-cost", row.cost), make("span", "ra-line-age", row.age));
    if (row.under) button.append(make("span", "ra-line-under", row.under));
    head.append(button);
    const body = make("div", "ra-line-body");
    body.id = "ra-" + Math.random().toString(36).slice(2);
    button.setAttribute("aria-controls", body.id);
    const fill = () => {  // when it is opened: a page of closed lines stays small
      for (const [name, text] of row.facts) {
        const p = make("p");
        if (name) p.append(make("b", "", name), " ");
        // Advice sets its commands apart with backticks; in other texts a backtick is a name's own.
        const parts = name === data.advice ? text.split(/`([^`]+)`/) : [text];
        p.append(...parts.map((part, at) => (at % 2 ? make("code", "", part) : document.createTextNode(whole(part)))));
        body.append(p);
      }
      const links = make("p", "ra-line-links");
      for (const link of row.links) links.append(anchor(link));
      body.append(links);
    };
    item.append(head, body);
    const show = (isOpen) => {
      if (isOpen && !body.hasChildNodes()) fill();
      button.setAttribute("aria-expanded", String(isOpen)); body.hidden = !isOpen; item.classList.toggle("ra-line-is-open", isOpen);
      if (isOpen) open.add(row.key); else open.delete(row.key);
    };
    button.onclick = () => show(body.hidden);
    show(open.has(row.key));
    return { item, button };
  });
  const list = make("ol", "ra-lines");
  list.setAttribute("aria-label", data.alt);
  list.append(...lines.map((l) => l.item));
  const head = make("div", "ra-lines-head");
  head.setAttribute("aria-hidden", "true");
  head.append(...["", ...data.heads].map((text) => make("span", "", text)));
  root.replaceChildren(...(data.heads.length ? [head] : []), list);
}
