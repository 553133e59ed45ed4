// Opens another page of the app. As Streamlit's own Back and Forward do: its switch_page leaves an address between the two
// pages behind, of the old page with the new page's parameters, and Back leads there (1.67).

export default function (component) {
  const { data, parentElement } = component;
  if (parentElement.visited === data.href) return;
  parentElement.visited = data.href;
  window.history.pushState({}, "", data.href);
  window.dispatchEvent(new PopStateEvent("popstate"));
}
