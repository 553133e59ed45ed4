// What several scripts use: `page/script.py` puts it before each of them.

// Opens another page of the app. As Streamlit's own Back and Forward do: its switch_page leaves an address between the two
// pages behind, of the old page with the new page's parameters, and Back leads there (1.67).
function visit(href) {
  window.history.pushState({}, "", href);
  window.dispatchEvent(new PopStateEvent("popstate"));
}

// An element with a class and a text; the text is set as text, never as HTML.
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined && text !== null) element.textContent = text;
  return element;
}

