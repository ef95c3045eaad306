// Construction of elements. HTML is never parsed from text, so names from the server cannot inject HTML.
// Styles are set through the object model, which a strict content security policy permits.

export type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

const SVG = 'http://www.w3.org/2000/svg';

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Creates an element. Attributes named `onclick`, `oninput`, … are listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/** Creates an element of SVG. */
export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

/** Creates a table of texts with a caption for screen readers. It scrolls sideways if it is too wide. */
export function table(caption: string, heads: readonly string[], body: HTMLElement): HTMLElement {
  const head = h('tr', {}, ...heads.map((text) => h('th', { scope: 'col' }, text)));
  return h('div', { class: 'sideways' }, h('table', { class: 'plainly', 'aria-label': caption }, h('thead', {}, head), body));
}

/** Creates the body of a table with these cells. */
export const body = (rows: readonly (readonly Child[])[]): HTMLElement =>
  h('tbody', {}, ...rows.map((cells) => h('tr', {}, ...cells.map((cell) => h('td', {}, cell)))));

/** Replaces the children of an element. */
export function put(element: Element, ...children: Child[]): void {
  const shown = children.filter((child): child is Node | string | number => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...shown.map((child) => (child instanceof Node ? child : String(child))));
}

const nameOf = (element: Element): string => `${element.tagName} ${(element.getAttribute('aria-label') ?? element.textContent ?? '').split(':')[0]}`;

/** Draws controls again. The control with the name of the focused one has the focus after that. */
export function keepFocus(root: Element, draw: () => void): void {
  const focused = document.activeElement;
  const name = focused !== null && root.contains(focused) ? nameOf(focused) : null;
  draw();
  if (name === null || root.contains(document.activeElement)) return;
  const same = [...root.querySelectorAll<HTMLElement>('button, select, input')].find((one) => nameOf(one) === name);
  same?.focus();
}

/** Sets the text of an element. An equal text is not set again, so that live figures do not disturb a selection. */
export function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
