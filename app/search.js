// A search box that searches while one types; 80 ms after the last key the text is sent.

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const input = parentElement.querySelector("input");
  input.placeholder = data.placeholder;
  input.setAttribute("aria-label", data.label);
  const host = input.getRootNode();
  if (host.activeElement !== input && document.activeElement !== input) input.value = data.value;
  const send = () => setTriggerValue("text", input.value);
  let timer = null;
  input.oninput = () => { clearTimeout(timer); timer = setTimeout(send, 80); };
  input.onkeydown = (e) => { if (e.key === "Enter") { clearTimeout(timer); send(); } };
  return () => clearTimeout(timer);
}
