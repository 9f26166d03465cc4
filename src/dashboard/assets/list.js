// All dependencies of a namespace: what is wrong on top, search, filters, and what happened.

import {el, pill, shape, write} from './elements.js';
import {age, at, count, failing, left, ofTrip, plural, rate, share} from './format.js';
import {Grid} from './grid.js';
import {go} from './page.js';

export const STATES = ['open', 'forced open', 'half-open', 'recovering', 'forced closed', 'closed'];
const EVENTS_SHOWN = 6;

// The worst first; among equals the one that fails most.
const rank = (row) => {
  const trouble = row.held_until || row.check || row.faults || row.shadow;
  const of = row.state === 'closed' && trouble ? 4.5 : STATES.indexOf(row.state);
  return of - Math.min(0.999, row.failing ?? 0) * 0.9;
};

const lines = (cell) => cell.append(el('span', {class: 'first'}), el('span', {class: 'second'}));
const put = (cell, first, second = '') => { write(cell.children[0], first); write(cell.children[1], second); };

export function why(row) {
  if (row.order) return `${row.order.reason} (${row.order.owner})`;
  return row.why ?? '';
}

function notes(row) {
  const notes = [];
  if (row.order) notes.push(row.order.until ? `${row.order.kind}, ${left(row.order.until)} left` : `${row.order.kind} until released`);
  if (row.held_until) notes.push(`held, ${left(row.held_until)} left`);
  if (row.open_until) notes.push(`probes in ${left(row.open_until)}`);
  if (row.faults) notes.push(`${plural(row.faults, 'instance', 'instances')} refused alone`);
  if (row.check) notes.push('health checks fail');
  if (row.shadow) notes.push(`in shadow it would be ${row.shadow}`);
  return notes.join(' · ');
}

const COLUMNS = [
  {
    key: 'state', title: 'State', class: 'state', by: rank,
    fill(cell, row) {
      if (cell.dataset.state === row.state) return;
      cell.dataset.state = row.state;
      cell.replaceChildren(pill(row.state));
    },
  },
  {
    key: 'name', title: 'Dependency', class: 'name', by: (row) => row.name,
    make: (cell) => cell.append(el('a', {tabindex: -1, class: 'first'}), el('span', {class: 'second'})),
    fill(cell, row) {
      const link = cell.children[0];
      if (link.textContent !== row.name) {
        link.textContent = row.name;
        link.href = address(row.name);
        link.title = row.name;
      }
      write(cell.children[1], row.unused ? 'named by a policy, never called' : notes(row));
    },
  },
  {
    key: 'why', title: 'Why', class: 'why', by: why, make: lines,
    fill: (cell, row) => { put(cell, why(row)); cell.title = why(row); },
  },
  {
    key: 'since', title: 'Since', class: 'since', by: (row) => -row.since, make: lines,
    fill: (cell, row) => put(cell, age(row.since), at(row.since)),
  },
  {
    key: 'failing', title: 'Failing', class: 'failing number', by: (row) => row.failing ?? 0, down: true,
    make(cell) { lines(cell); cell.append(el('span', {class: 'bar', 'aria-hidden': 'true'}, el('span', {}))); },
    fill(cell, row) {
      const notes = [row.slow ? `${share(row.slow)} slow` : '', ofTrip(row) ? 'at the trip' : ''];
      put(cell, failing(row), notes.filter(Boolean).join(', '));
      cell.children[2].firstChild.style.transform = `scaleX(${row.failing ?? 0})`;
    },
  },
  {
    key: 'calls', title: 'Calls/s', class: 'calls number', by: (row) => row.calls ?? 0, down: true, make: lines,
    fill: (cell, row) => put(cell, rate(row.calls ?? 0), row.instances ? plural(row.instances, 'instance', 'instances') : ''),
  },
  {
    key: 'left', title: 'Budget', class: 'left number', by: (row) => row.left / Math.max(1, row.allowed), make: lines,
    fill: (cell, row) => put(cell, `${count(row.left)} of ${count(row.allowed)}`, row.left === 0 && row.allowed ? 'spent' : ''),
  },
  {
    key: 'planned', title: 'Planned', class: 'planned number', by: (row) => row.planned ?? 0, down: true, make: lines,
    fill: (cell, row) => put(cell, count(row.planned ?? 0), row.next ? `next in ${left(row.next)}` : ''),
  },
];

const address = (name) => {
  const query = new URLSearchParams({namespace: place().namespace, ...(name ? {dependency: name} : {})});
  return `/dashboard/?${query}`;
};

// What an address says that is none of what it may say; the rest of it holds.
function unknown(query) {
  const wrong = [];
  const say = (field, value, allowed) => wrong.push(`${field}: ${JSON.stringify(value.slice(0, 60))} is not allowed; ${allowed.join(', ')}.`);
  for (const state of (query.get('states') ?? '').split(',')) {
    if (state && !STATES.includes(state)) say('states', state, STATES);
  }
  const keys = COLUMNS.map((column) => column.key);
  const sort = query.get('sort');
  if (sort !== null && !keys.includes(sort)) say('sort', sort, keys);
  const down = query.get('down');
  if (down !== null && !['0', '1'].includes(down)) say('down', down, ['0', '1']);
  return wrong;
}

const place = () => ({namespace: new URLSearchParams(location.search).get('namespace') || 'default'});

export class List {
  constructor(main, live) {
    this.live = live;
    const query = new URLSearchParams(location.search);
    const wrong = unknown(query);
    this.text = query.get('search') ?? '';
    this.states = new Set((query.get('states') ?? '').split(',').filter((state) => STATES.includes(state)));
    const key = COLUMNS.some((column) => column.key === query.get('sort')) ? query.get('sort') : 'state';
    this.grid = new Grid({
      label: 'Dependencies', columns: COLUMNS, sort: {key, down: query.get('down') === '1'},
      onSort: () => { this.sorter.value = this.grid.sort.key; this.#note(); this.order(); },
      onOpen: (name) => go(address(name)),
    });
    this.search = el('input', {
      type: 'search', id: 'search', placeholder: 'Search names, reasons, owners', 'aria-label': 'Search dependencies', autocomplete: 'off', spellcheck: 'false',
      oninput: () => { this.text = this.search.value; this.#note(); this.order(); },
    });
    this.search.value = this.text;
    this.sorter = el('select', {id: 'sorter', onchange: () => { this.grid.heads.get(this.sorter.value).firstChild.click(); }},
      COLUMNS.map((column) => el('option', {value: column.key}, column.title)));
    this.sorter.value = key;
    this.chips = new Map(STATES.map((state) => [state, el('button', {
      type: 'button', class: 'chip', 'data-state': state, 'aria-pressed': `${this.states.has(state)}`, onclick: () => this.#toggle(state),
    }, shape(state), `${state} `, el('b', {}, '0'))]));
    this.found = el('p', {class: 'found', id: 'found'});
    this.happened = el('ol', {class: 'happened'});
    this.nothing = el('p', {class: 'empty', hidden: true});
    main.append(
      el('h1', {class: 'unseen'}, 'Dependencies'),
      ...(wrong.length ? [el('div', {role: 'alert', id: 'wrong'}, el('ul', {class: 'notices'}, wrong.map((text) => el('li', {}, text)), el('li', {}, 'All else in the address holds. ', el('a', {href: address('')}, 'Show all dependencies'))))] : []),
      el('div', {class: 'tools'},
        el('div', {class: 'chips', role: 'group', 'aria-label': 'Filter by state'}, [...this.chips.values()]),
        this.search,
        el('label', {class: 'sorter'}, 'Sort by ', this.sorter)),
      el('details', {class: 'lately', open: innerWidth > 760}, el('summary', {}, 'What happened lately'), this.happened),
      this.found, this.grid.element, this.nothing);
    this.onRows = ({detail}) => this.#rows(detail);
    live.addEventListener('rows', this.onRows);
    this.ticking = setInterval(() => this.#tick(), 1000);
    if (live.rows.size) this.#rows({all: true, changed: []});
  }

  end() {
    this.live.removeEventListener('rows', this.onRows);
    clearInterval(this.ticking);
    this.grid.end();
  }

  key(event) {
    if (event.key === '/') { event.preventDefault(); this.search.focus(); this.search.select(); }
    else if (event.key === 'j' || event.key === 'k') { event.preventDefault(); this.grid.move(event.key === 'j' ? 1 : -1); }
    else if (event.key === 'Enter' && event.target === document.body && this.grid.chosen) go(address(this.grid.chosen));
  }

  #toggle(state) {
    if (!this.states.delete(state)) this.states.add(state);
    this.chips.get(state).setAttribute('aria-pressed', this.states.has(state));
    this.#note();
    this.order();
  }

  // The view stands in the address, so that it can be sent to somebody.
  #note() {
    const {key, down} = this.grid.sort;
    const query = new URLSearchParams({namespace: place().namespace});
    if (this.text) query.set('search', this.text);
    if (this.states.size) query.set('states', [...this.states].join(','));
    if (key !== 'state') query.set('sort', key);
    if (down) query.set('down', '1');
    history.replaceState(history.state, '', `/dashboard/?${query}`);
  }

  #rows(detail) {
    // A state that changed is shown at once; numbers alone only reorder with the next tick.
    if (detail.all || detail.moved?.length || detail.gone?.length) this.order();
    else { this.unordered = true; this.#refresh(detail.changed); }
    if (detail.all || detail.events.length) this.#events();
  }

  #refresh(changed) {
    const now = new Map(changed.map((row) => [row.name, row]));
    this.grid.rows = this.grid.rows.map((row) => now.get(row.name) ?? row);
    this.grid.later();
  }

  #tick() {
    if (this.live.stale) return;
    if (this.unordered && !getSelection()?.toString()) this.order();
    this.grid.later();
  }

  order() {
    this.unordered = false;
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    const counts = new Map(STATES.map((state) => [state, 0]));
    const shown = [];
    for (const row of this.live.rows.values()) {
      if (words.length && !matches(row, words)) continue;
      counts.set(row.state, counts.get(row.state) + 1);
      if (!this.states.size || this.states.has(row.state)) shown.push(row);
    }
    const {key, down} = this.grid.sort;
    const {by} = COLUMNS.find((column) => column.key === key);
    const keyed = shown.map((row) => [by(row), row]);
    const way = down ? -1 : 1;
    keyed.sort(([a, one], [b, other]) => (a < b ? -way : a > b ? way : one.name < other.name ? -1 : 1));
    this.grid.show(keyed.map(([, row]) => row));
    for (const [state, chip] of this.chips) {
      write(chip.lastChild, count(counts.get(state)));
      chip.classList.toggle('none', counts.get(state) === 0);
    }
    const all = this.live.rows.size;
    const more = this.live.leftOut ? `; ${count(this.live.leftOut)} quiet ones are not listed` : '';
    write(this.found, shown.length === all ? `${plural(all, 'dependency', 'dependencies')}${more}` : `${count(shown.length)} of ${plural(all, 'dependency', 'dependencies')}${more}`);
    this.grid.element.hidden = shown.length === 0;
    this.nothing.hidden = shown.length > 0;
    write(this.nothing, all ? 'Nothing matches. Clear the search or the filters.' : 'No dependency yet: none was asked about, and no policy names one. Try: holdoff ask payments');
  }

  #events() {
    const events = this.live.events.slice(0, EVENTS_SHOWN);
    this.happened.replaceChildren(...events.map((event) => el('li', {},
      el('time', {datetime: new Date(event.time).toISOString()}, at(event.time)),
      event.to ? shape(event.to) : el('span', {class: 'shape'}),
      el('span', {'data-state': event.to ?? ''}, event.dependency ? el('a', {href: address(event.dependency)}, event.dependency) : 'the service', ` ${event.kind}`),
      el('span', {class: 'detail'}, (event.owner ? `${event.detail} (${event.owner})` : event.detail) + (event.pending ? ' (not in the fleet’s order yet)' : '')))));
    if (!events.length) this.happened.append(el('li', {class: 'quiet'}, 'Nothing since the service started.'));
  }
}

function matches(row, words) {
  const text = `${row.name} ${row.state} ${row.why ?? ''} ${row.order ? `${row.order.reason} ${row.order.owner}` : ''}`.toLowerCase();
  return words.every((word) => text.includes(word));
}
