// A search box that searches while one types: the first key is sent at once, those that follow it 40 ms after the last one.

const FOLLOWS_MS = 300, WAIT_MS = 40;

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const input = parentElement.querySelector("input");
  input.placeholder = data.placeholder;
  input.setAttribute("aria-label", data.label);
  const host = input.getRootNode();
  if (host.activeElement !== input && document.activeElement !== input) input.value = data.value;
  // Kept at the element: an answer that arrives between two keys calls this again, and must not lose the second one.
  const typed = parentElement.typed || (parentElement.typed = { at: -FOLLOWS_MS, timer: null });
  typed.send = () => { if (input.isConnected) setTriggerValue("text", input.value); };
  input.oninput = () => {
    const now = performance.now(), wait = now - typed.at < FOLLOWS_MS ? WAIT_MS : 0;
    typed.at = now;
    clearTimeout(typed.timer);
    typed.timer = setTimeout(() => typed.send(), wait);
  };
  input.onkeydown = (e) => { if (e.key === "Enter") { clearTimeout(typed.timer); typed.send(); } };
}
