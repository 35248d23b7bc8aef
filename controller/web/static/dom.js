// Elements made and kept up to date. Text from the network only ever becomes text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes: `class`, `onclick` and other handlers, anything else as it is; null ones are left out. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null).map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Set an element's text, and leave the document alone where it is that already. */
export function say(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** Set an attribute likewise; null takes it away. */
export function mark(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else {
    const wanted = value === true ? "" : String(value);
    if (node.getAttribute(name) !== wanted) node.setAttribute(name, wanted);
  }
}

/**
 * Make the children of a node stand for some items, in order. What stands for an item already is kept (with the focus
 * in it), so that a refresh moves nothing that is the same.
 * @param make (item) => element; @param update (element, item)
 */
export function sync(parent, items, keyOf, make, update) {
  const there = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = there.get(key);
    if (node === undefined) {
      node = make(item);
      node.dataset.key = key;
    }
    there.delete(key);
    update(node, item);
    if (node === place) place = node.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const left of there.values()) left.remove();
  // Moving an element takes the focus from it.
  if (focused !== null && focused.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
}

/** A table row with so many cells; `numbers` are set to the right. */
export function row(cells, numbers = []) {
  const made = el("tr");
  for (let k = 0; k < cells; k += 1) made.append(el(k === 0 ? "th" : "td", { scope: k === 0 ? "row" : null, class: numbers.includes(k) ? "number" : null }));
  return made;
}
