// A page that Python opens: once, whatever runs again.

export default function (component) {
  const { data, parentElement } = component;
  if (parentElement.visited === data.href) return;
  parentElement.visited = data.href;
  visit(data.href);
}
