// Elements, made without markup: every text goes in as text, so none can be more than that.

const SVG = 'http://www.w3.org/2000/svg';

// el('a', {class: 'x', href: '…', onclick: f}, 'text', other, …)
export function el(tag, about = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// A state has a word, a shape and a colour; the last is never alone.
const SHAPES = {
  'closed': [['circle', {cx: 7, cy: 7, r: 5.5}]],
  'open': [['rect', {x: 1.5, y: 1.5, width: 11, height: 11, rx: 1.5}]],
  'half-open': [['path', {d: 'M7 1.5a5.5 5.5 0 0 0 0 11z'}], ['circle', {cx: 7, cy: 7, r: 5, class: 'ring'}]],
  'recovering': [['path', {d: 'M7 1.2 13.2 12.6H.8z'}]],
  'forced open': [['rect', {x: 2.2, y: 2.2, width: 9.6, height: 9.6, class: 'ring'}], ['path', {d: 'M4.4 4.4l5.2 5.2M9.6 4.4l-5.2 5.2', class: 'ring'}]],
  'forced closed': [['circle', {cx: 7, cy: 7, r: 5, class: 'ring'}], ['circle', {cx: 7, cy: 7, r: 2.4}]],
};

export function shape(state) {
  const svg = document.createElementNS(SVG, 'svg');
  for (const [name, value] of [['viewBox', '0 0 14 14'], ['aria-hidden', 'true'], ['class', 'shape']]) {
    svg.setAttribute(name, value);
  }
  for (const [tag, about] of SHAPES[state] ?? []) {
    const part = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(about)) part.setAttribute(name, value);
    svg.append(part);
  }
  return svg;
}

export function pill(state) {
  return el('span', {class: 'pill', 'data-state': state}, shape(state), state);
}

// Writes only what differs: a text that stays keeps its selection.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

let saidAt = 0;
let waiting = null;

// Tells screen readers, at most each five seconds; the newest of what waits is said.
export function say(text) {
  const region = document.getElementById('said');
  const wait = saidAt + 5000 - Date.now();
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    saidAt = Date.now();
    region.textContent = text;
  }, Math.max(0, wait));
}

const toasts = () => document.getElementById('toasts');

export function toast(text, button) {
  const element = el('div', {class: 'toast', role: 'status'}, el('span', {}, text));
  const end = () => element.remove();
  if (button) element.append(el('button', {type: 'button', class: 'quiet', onclick: () => { end(); button.does(); }}, button.name));
  element.append(el('button', {type: 'button', class: 'quiet', 'aria-label': 'Dismiss', onclick: end}, '×'));
  toasts().append(element);
  setTimeout(end, button ? 30000 : 8000);
}

// Single keys may be switched off: they are in the way of whoever speaks to the computer.
export const keysWanted = {
  get: () => localStorage.getItem('holdoff-keys') !== 'off',
  set: (on) => localStorage.setItem('holdoff-keys', on ? 'on' : 'off'),
};

// Whether a key is meant for the page and not for a field.
export function isCommand(event) {
  const target = event.target;
  const writes = target.closest?.('input, select, textarea, [contenteditable]');
  const open = document.querySelector('dialog[open]');
  return keysWanted.get() && !writes && !open && !event.ctrlKey && !event.metaKey && !event.altKey;
}
