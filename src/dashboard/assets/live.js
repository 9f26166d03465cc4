// The stream: state comes in over it, and its silence is told.
//
// A hidden page gives its stream up and resumes where it was when it is seen again: a browser
// has six connections to a host, and pages that nobody looks at would take them all.

import {clock} from './format.js';

const STALE_AFTER = 3500;
const BACK_AFTER = 1000;

export class Live extends EventTarget {
  constructor() {
    super();
    this.rows = new Map();
    this.events = [];
    this.leftOut = 0;
    this.heard = 0;
    this.stale = false;
    this.id = '';
    this.shows = {namespace: 'default', dependency: ''};
    setInterval(() => this.#look(), 500);
    document.addEventListener('visibilitychange', () => (document.hidden ? this.close() : this.#open()));
    addEventListener('pagehide', () => this.close());
    addEventListener('pageshow', () => this.#open());
  }

  // Follows a namespace, and a dependency of it where one is named.
  show(shows) {
    if (shows.namespace !== this.shows.namespace) {
      this.rows.clear();
      this.events = [];
      this.id = '';
    }
    this.shows = shows;
    this.wanted = true;
    this.close();
    this.#open();
  }

  #open() {
    if (this.source || document.hidden || !this.wanted) return;
    clearTimeout(this.again);
    this.heard = this.heard && !this.stale ? Date.now() : this.heard || Date.now();
    const query = new URLSearchParams({...this.shows, after: this.id});
    const source = new EventSource(`/dashboard/stream?${query}`);
    this.source = source;
    source.addEventListener('snapshot', (message) => this.#snapshot(message));
    source.addEventListener('change', (message) => this.#change(message));
    source.addEventListener('beat', (message) => this.#beat(message));
    source.addEventListener('dependency', (message) => {
      this.#hear();
      this.#tell('dependency', JSON.parse(message.data));
    });
    source.addEventListener('error', () => {
      this.#tell('lost');
      // The browser comes back by itself, unless it was answered with a refusal.
      if (source.readyState !== EventSource.CLOSED || this.source !== source) return;
      this.close();
      this.again = setTimeout(() => this.#open(), BACK_AFTER * (1 + Math.random()));
      this.#refused(`/dashboard/stream?${query}`);
    });
  }

  // A stream does not say why it was refused; the same question without one does.
  async #refused(path) {
    const left = new AbortController();
    const why = await fetch(path, {signal: left.signal}).then(async (answer) => {
      if (answer.ok) return {};
      const body = await answer.json().catch(() => ({}));
      return {status: answer.status, problem: body.problem};
    }).catch(() => ({}));
    left.abort();
    this.#tell('refused', why);
  }

  // Until something is shown again.
  stop() {
    this.wanted = false;
    this.heard = 0;
    this.close();
  }

  close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.again);
  }

  #hear() {
    this.heard = Date.now();
    if (this.stale || !this.wasHeard) {
      this.stale = false;
      this.wasHeard = true;
      this.#tell('fresh');
    }
  }

  #look() {
    if (document.hidden || !this.heard) return;
    if (Date.now() - this.heard > STALE_AFTER) {
      this.stale = true;
      this.#tell('stale', {ms: Date.now() - this.heard});
    }
  }

  #beat(message) {
    const beat = JSON.parse(message.data);
    clock.set(beat.now);
    this.#hear();
    this.#tell('beat', beat);
  }

  #snapshot(message) {
    this.#hear();
    this.id = message.lastEventId;
    const {rows, events, left_out} = JSON.parse(message.data);
    this.rows = new Map(rows.map((row) => [row.name, row]));
    this.events = events.reverse();
    this.leftOut = left_out;
    this.#tell('rows', {all: true, changed: rows, events: []});
  }

  #change(message) {
    this.#hear();
    this.id = message.lastEventId;
    const {rows, gone, events} = JSON.parse(message.data);
    const moved = rows.filter((row) => this.rows.get(row.name)?.state !== row.state);
    for (const row of rows) this.rows.set(row.name, row);
    for (const name of gone) this.rows.delete(name);
    this.events = [...events.reverse(), ...this.events].slice(0, 50);
    this.#tell('rows', {all: false, changed: rows, moved, gone, events});
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, {detail}));
  }
}

let token = document.querySelector('meta[name=holdoff-token]').content;

async function sent(path, order) {
  const request = {
    method: 'POST',
    headers: {'Content-Type': 'application/json', 'X-Holdoff-Token': token},
    body: JSON.stringify(order),
  };
  return fetch(path, request).catch(() => {
    throw new Error(path.endsWith('/act')
      ? 'The service does not answer. It may have been done: look before you try again.'
      : 'The service does not answer.');
  });
}

// Sends an order; throws what is wrong with it, in words.
export async function post(path, order) {
  let answer = await sent(path, order);
  if (answer.status === 403) {
    // The service was started anew, or this page is older than a day: its token is not known.
    const page = new DOMParser().parseFromString(await (await fetch('/dashboard/')).text(), 'text/html');
    token = page.querySelector('meta[name=holdoff-token]')?.content ?? token;
    answer = await sent(path, order);
  }
  const text = await answer.text();
  let body = {problem: text};
  try { body = JSON.parse(text); } catch { /* A refusal in plain words. */ }
  if (!answer.ok) throw Object.assign(new Error(body.problem || `${answer.status}`), {status: answer.status});
  return body;
}

export async function get(path, query = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}
