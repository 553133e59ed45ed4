// Filters of a list side by side: select boxes of the browser's own and a check box. All text is set as text, never as HTML.

// `label` stands beside its control: inside of it, a select box's options would count as its name.
function labelled(control, name, text) {
  const around = document.createElement("div"), label = document.createElement("label");
  control.id = label.htmlFor = "ra-filter-" + name;
  control.name = name;
  label.textContent = text;
  around.append(...(control.type === "checkbox" ? [control, label] : [label, control]));
  return around;
}

function build(root, data) {
  const choices = data.choices.map(({ name, label, options }) => {
    const select = document.createElement("select");
    select.append(...[["", data.all], ...options].map(([value, said]) => new Option(said, value)));
    select.onchange = () => root.send(name, select.value);
    return labelled(select, name, label);
  });
  const flags = data.flags.map(({ name, label }) => {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.onchange = () => root.send(name, box.checked ? "1" : "");
    return labelled(box, name, label);
  });
  root.replaceChildren(...choices, ...flags);
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".ra-filters");
  root.send = (name, value) => { if (root.isConnected) setTriggerValue("chosen", { name, value }); };
  const { now, ...rest } = data, built = JSON.stringify(rest);
  if (root.built !== built) build(root, data);  // else whoever walks through them by keys would lose his place
  root.built = built;
  for (const select of root.querySelectorAll("select")) select.value = now[select.name] ?? "";
  for (const box of root.querySelectorAll("input")) box.checked = now[box.name] === "1";
}
