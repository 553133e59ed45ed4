// Sets right the address of a page that was opened while the page before was still being made: what that one wrote into its
// address at last arrives late, and Streamlit (1.67) writes it behind the new page's name. `data`: the page, and what it was
// asked for, which says whose group or rebalance it shows.

const MAY_FOLLOW = ["from", "to", "last", "since", "zone"];  // the page itself writes these when the address names none

// The scripts of Streamlit's that the first table and the first filter of a reader need, fetched while he reads the page
// that he opened first: with what they import they are 51 files of 1.7 MB, and the first click on Groups waited for them.
const AFTER_MS = 500;
let isAhead = false;

function fetchAhead(scripts) {
  if (isAhead || navigator.connection?.saveData) return;
  isAhead = true;
  const idle = window.requestIdleCallback || ((call) => setTimeout(call, 1));
  const next = (left) => left.length && idle(() => import(new URL("./static/js/" + left[0], document.baseURI).href).catch(() => {}).then(() => next(left.slice(1))));
  setTimeout(() => next(scripts), AFTER_MS);
}

export default function (component) {
  const { data, parentElement } = component;
  fetchAhead(data.ahead);
  if (parentElement.arrived === data.number) return;
  parentElement.arrived = data.number;
  if (window.location.pathname.split("/").pop() !== data.view) return;  // somebody has gone on
  const asked = new URLSearchParams(data.asked), there = new URLSearchParams(window.location.search);
  const isRight = [...asked].every(([name, value]) => there.get(name) === value)
    && [...there.keys()].every((name) => asked.has(name) || MAY_FOLLOW.includes(name) || name.startsWith("embed"));
  if (isRight) return;
  window.history.replaceState({}, "", window.location.pathname + (asked.size ? "?" + asked : ""));
  window.dispatchEvent(new PopStateEvent("popstate"));
}
