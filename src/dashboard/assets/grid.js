// Ten thousand rows as a grid of which only those in view are in the page. It scrolls with the
// page, has one place in the order of focus, and names its chosen row to screen readers.

import {el} from './elements.js';

const AHEAD = 6;

export class Grid {
  // columns: {key, title, class, make(): Element, fill(element, row), by(row), down}
  constructor({label, columns, sort, onSort, onOpen}) {
    Object.assign(this, {columns, sort, onSort, onOpen});
    this.rows = [];
    this.drawn = new Map();
    this.spare = [];
    this.chosen = null;
    this.narrow = matchMedia('(max-width: 760px)');
    this.heads = new Map();
    const head = el('div', {role: 'row', class: 'row head', 'aria-rowindex': 1}, columns.map((column) => this.#head(column)));
    this.body = el('div', {role: 'rowgroup', class: 'body'});
    this.element = el('div', {
      role: 'grid', 'aria-label': label, class: 'grid', tabindex: 0, 'aria-colcount': columns.length,
      onkeydown: (event) => this.#key(event),
      onclick: (event) => this.#click(event),
    }, el('div', {role: 'rowgroup', class: 'heads'}, head), this.body);
    this.draw = this.draw.bind(this);
    this.onMove = () => this.later();
    addEventListener('scroll', this.onMove, {passive: true});
    addEventListener('resize', this.onMove);
    this.#mark();
  }

  end() {
    removeEventListener('scroll', this.onMove);
    removeEventListener('resize', this.onMove);
    cancelAnimationFrame(this.frame);
  }

  get height() { return this.narrow.matches ? 108 : 46; }

  #head(column) {
    const button = el('button', {type: 'button', onclick: () => this.#sortBy(column)}, column.title, el('span', {class: 'arrow', 'aria-hidden': 'true'}));
    const head = el('div', {role: 'columnheader', class: `cell ${column.class}`}, button);
    this.heads.set(column.key, head);
    return head;
  }

  #sortBy(column) {
    const again = this.sort.key === column.key;
    this.sort = {key: column.key, down: again ? !this.sort.down : column.down ?? false};
    this.#mark();
    this.onSort(this.sort);
  }

  #mark() {
    for (const [key, head] of this.heads) {
      if (key === this.sort.key) head.setAttribute('aria-sort', this.sort.down ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    }
  }

  // Shows these rows, in this order.
  show(rows) {
    this.rows = rows;
    this.element.setAttribute('aria-rowcount', rows.length + 1);
    this.later();
  }

  later() {
    this.frame ??= requestAnimationFrame(this.draw);
  }

  draw() {
    this.frame = null;
    const height = this.height;
    this.body.style.height = `${this.rows.length * height}px`;
    const top = -this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - AHEAD);
    const last = Math.min(this.rows.length, Math.ceil((top + innerHeight) / height) + AHEAD);
    const wanted = new Map();
    for (let at = first; at < last; at++) wanted.set(this.rows[at].name, at);
    for (const [name, drawn] of this.drawn) {
      if (wanted.has(name)) continue;
      this.drawn.delete(name);
      drawn.element.hidden = true;
      this.spare.push(drawn);
    }
    for (const [name, at] of wanted) this.#place(name, at, height);
    const chosen = this.drawn.get(this.chosen);
    if (chosen) this.element.setAttribute('aria-activedescendant', chosen.element.id);
    else this.element.removeAttribute('aria-activedescendant');
  }

  #place(name, at, height) {
    const row = this.rows[at];
    let drawn = this.drawn.get(name);
    if (!drawn) {
      drawn = this.spare.pop() ?? this.#make();
      drawn.element.hidden = false;
      this.drawn.set(name, drawn);
    }
    const {element, cells} = drawn;
    if (drawn.at !== at || drawn.height !== height) {
      element.style.transform = `translateY(${at * height}px)`;
      element.setAttribute('aria-rowindex', at + 2);
      element.classList.toggle('even', at % 2 === 1);
      Object.assign(drawn, {at, height});
    }
    element.dataset.name = name;
    element.dataset.state = row.state;
    const chosen = name === this.chosen;
    element.classList.toggle('chosen', chosen);
    element.setAttribute('aria-selected', chosen);
    this.columns.forEach((column, index) => column.fill(cells[index], row));
  }

  #make() {
    const cells = this.columns.map((column) => {
      const cell = el('div', {role: 'gridcell', class: `cell ${column.class}`, 'data-title': column.title});
      column.make?.(cell);
      return cell;
    });
    this.made = (this.made ?? 0) + 1;
    const element = el('div', {role: 'row', class: 'row', id: `row-${this.made}`}, cells);
    this.body.append(element);
    return {element, cells};
  }

  #click(event) {
    const row = event.target.closest('[data-name]');
    if (!row || event.target.closest('a') || getSelection()?.toString()) return;
    this.onOpen(row.dataset.name);
  }

  #key(event) {
    const page = Math.max(1, Math.floor(innerHeight / this.height) - 3);
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
    if (event.target !== this.element) return;
    if (event.key in steps) {
      event.preventDefault();
      this.move(steps[event.key]);
    } else if (event.key === 'Enter' && this.chosen) {
      event.preventDefault();
      event.stopPropagation();
      this.onOpen(this.chosen);
    }
  }

  // Chooses the row that is so many further; the first one where none is chosen.
  move(steps) {
    if (!this.rows.length) return;
    const at = this.rows.findIndex((row) => row.name === this.chosen);
    const to = at < 0 ? 0 : Math.min(this.rows.length - 1, Math.max(0, at + steps));
    this.chosen = this.rows[to].name;
    this.element.focus({preventScroll: true});
    const height = this.height;
    const top = this.body.getBoundingClientRect().top + to * height;
    const head = this.narrow.matches ? 8 : 48;
    if (top < head) scrollBy(0, top - head);
    else if (top + height > innerHeight) scrollBy(0, top + height - innerHeight + 8);
    cancelAnimationFrame(this.frame);
    this.draw();
  }
}
