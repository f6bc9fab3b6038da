// The few DOM helpers of the page. Text is inserted as text nodes only: nothing that a user or a
// model wrote is ever parsed as HTML.

// make("p", { class: "note" }, "text", node, ...). Properties that start with "on" are listeners;
// those that are false or null are left out, and so are children that are null.
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on"))
      element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null)
      element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

export function fill(id, ...children) {
  byId(id).replaceChildren(...children.filter((child) => child !== null && child !== ""));
}

export function show(id, visible) {
  byId(id).hidden = !visible;
}

// Somebody's text within a sentence of the page, with a direction of its own.
export function quoted(text, lang) {
  return make("bdi", {lang: lang || null, class: "quoted"}, text);
}

export function saveFile(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  make("a", {href: address, download: name}).click();
  // The browser reads the blob after this call has returned.
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
