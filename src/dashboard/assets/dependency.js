// One dependency: its state and why, what may be done about it, how it was, and its policy.

import {act} from './actions.js';
import {el, pill, write} from './elements.js';
import {age, at, count, failing, left, ofTrip, plural, rate, share, span} from './format.js';
import {why} from './list.js';
import {get} from './live.js';
import {go} from './page.js';
import * as tables from './tables.js';

const CHARTS = [
  ['states', 'State', []],
  ['traffic', 'Calls a second', [['blue plain', 'first attempts'], ['orange dashed', 'retries'], ['red dotted', 'refused']]],
  ['failing', 'Share of calls', [['red plain', 'failing'], ['orange dashed', 'slow']]],
  ['budget', 'Retry budget', [['blue plain', 'left'], ['blue dashed', 'allowed']]],
  ['calendar', 'Retries planned ahead', [['blue plain', 'places promised']]],
];

const ACTIONS = [
  ['open', 'Force open', () => true],
  ['close', 'Force closed', () => true],
  ['release', 'Release', (row) => row.order],
  ['reset', 'Reset', () => true],
  ['clear_hold', 'Clear hold', (row) => row.held_until],
];

export class Dependency {
  constructor(main, live, shows) {
    Object.assign(this, {main, live, shows});
    this.list = `/dashboard/?${new URLSearchParams({namespace: shows.namespace})}`;
    this.state = el('span', {class: 'now'});
    this.since = el('span', {class: 'since'});
    this.why = el('p', {class: 'because'});
    this.notices = el('ul', {class: 'notices'});
    this.cards = new tables.Cards();
    this.buttons = ACTIONS.map(([action, title]) => el('button', {type: 'button', class: `do ${action}`, 'data-action': action, onclick: () => this.#act(action)}, title));
    this.charts = CHARTS.map((chart) => this.#figure(chart));
    this.numbers = el('div', {});
    this.numbersOpen = el('details', {class: 'as-numbers', ontoggle: () => this.#showNumbers()}, el('summary', {}, 'The charts as numbers'), this.numbers);
    this.traffic = el('div', {});
    this.reporters = el('div', {});
    this.events = el('div', {});
    this.policy = el('div', {});
    const section = (title, ...children) => el('section', {}, el('h2', {}, title), ...children);
    main.append(
      el('nav', {'aria-label': 'Back'}, el('a', {href: this.list, class: 'back'}, '← All dependencies')),
      el('div', {class: 'heading'},
        el('div', {class: 'what'}, el('h1', {}, shows.dependency), el('p', {class: 'state-line'}, this.state, this.since), this.why),
        el('div', {class: 'do-all', role: 'group', 'aria-label': 'Actions'}, this.buttons)),
      this.notices, this.cards.element,
      section('The last ten minutes', el('div', {class: 'charts'}, this.charts.map(({figure}) => figure)), this.numbersOpen),
      el('div', {class: 'halves'},
        section('Granted and refused', this.traffic),
        section('What happened', this.events)),
      section('Reporters', this.reporters),
      section('Policy', this.policy));
    this.on = {
      dependency: ({detail}) => this.#show(detail),
      rows: ({detail}) => this.#row(detail),
    };
    for (const [name, listener] of Object.entries(this.on)) live.addEventListener(name, listener);
    this.ticking = setInterval(() => this.#tick(), 1000);
    this.dark = matchMedia('(prefers-color-scheme: dark)');
    this.redraw = () => this.#draw(true);
    this.dark.addEventListener('change', this.redraw);
    addEventListener('resize', this.redraw);
    const known = live.rows.get(shows.dependency);
    if (known) this.#head(known);
  }

  end() {
    for (const [name, listener] of Object.entries(this.on)) this.live.removeEventListener(name, listener);
    clearInterval(this.ticking);
    this.dark.removeEventListener('change', this.redraw);
    removeEventListener('resize', this.redraw);
    this.ended = true;
  }

  key(event) {
    const actions = {o: 'open', c: 'close', r: 'release'};
    if (event.key === 'Escape') go(this.list);
    else if (event.key in actions) {
      event.preventDefault();
      this.#act(actions[event.key]);
    }
  }

  #act(action) {
    const button = this.buttons.find((button) => button.dataset.action === action);
    if (!button.disabled) act(action, this.shows, this.row);
  }

  // The list's stream is often the first to know.
  #row({all, changed}) {
    const row = all ? this.live.rows.get(this.shows.dependency) : changed.find((row) => row.name === this.shows.dependency);
    if (row) this.#head(row);
  }

  #head(row) {
    this.row = row;
    if (this.shown !== row.state) {
      this.shown = row.state;
      this.state.replaceChildren(pill(row.state));
    }
    write(this.why, why(row) || 'It has been closed since it was first asked about.');
    for (const [action, , applies] of ACTIONS) {
      this.buttons.find((button) => button.dataset.action === action).disabled = !applies(row);
    }
    this.#tick();
  }

  #tick() {
    const {row} = this;
    if (!row || this.live.stale) return;
    write(this.since, `for ${age(row.since)}, since ${at(row.since)}`);
    const notices = [];
    if (row.order) notices.push(`${row.order.kind} by ${row.order.owner} since ${at(row.order.set)}: ${row.order.reason}. ${row.order.until ? `Ends in ${left(row.order.until)}.` : 'Until it is released.'}`);
    if (row.open_until) notices.push(`Calls are refused; the first probe in ${left(row.open_until)}.`);
    if (row.held_until) notices.push(`The dependency asked its callers to wait: ${left(row.held_until)} left.`);
    if (row.faults) notices.push(`${plural(row.faults, 'caller instance fails', 'caller instances fail')} while the others do not, and ${row.faults === 1 ? 'is' : 'are'} refused alone.`);
    if (row.check) notices.push('Health checks find it unhealthy.');
    if (row.shadow) notices.push(`The breaker is in shadow mode; it would be ${row.shadow}.`);
    if (row.unused) notices.push('A policy names it; nobody has called it yet.');
    if (notices.join() !== this.noticed) {
      this.noticed = notices.join();
      this.notices.replaceChildren(...notices.map((notice) => el('li', {}, notice)));
    }
  }

  #show(detail) {
    if (detail.gone) {
      write(this.why, 'There is no such dependency: it was never called, or was idle and is forgotten.');
      write(this.state, '');
      write(this.since, '');
      for (const button of this.buttons) button.disabled = !['open', 'close'].includes(button.dataset.action);
      return;
    }
    const {row, more} = detail;
    this.#head(row);
    const when = ofTrip(row) ? ' at the trip' : '';
    const window = more.window ? `${count(more.window.failures)} of ${plural(more.window.calls, 'call', 'calls')}${when}` : when ? 'not known' : 'of the last outcomes';
    const cards = [
      ['Failing', failing(row), window],
      ['Slow', share(row.slow ?? 0), more.window ? `${count(more.window.slow)} of ${count(more.window.calls)}${when}` : 'no window'],
      ['Evidence', share(more.suspicion), 'of what trips it'],
      ['Calls a second', rate(row.calls ?? 0), plural(row.instances ?? 0, 'instance', 'instances')],
      ['Retry budget', `${count(row.left)} of ${count(row.allowed)}`, `${count(more.retries)} used, ${count(more.first_attempts)} first attempts in ${span(more.budget_ttl_ms)}`],
      ['Planned retries', count(row.planned ?? 0), row.next ? `next in ${left(row.next)}` : 'none is waiting'],
      ['Probes out', count(more.probes_out), `${plural(more.permits_out, 'permit', 'permits')} out`],
      ['Usual latency', more.latency_ms === null ? '–' : `${rate(more.latency_ms)} ms`, 'of a success'],
      ['Trips', count(more.trips), `epoch ${row.epoch}`],
    ];
    if (more.ramp) cards.push(['Ramp', `${rate(more.ramp.per_second)}/s`, `of ${rate(more.ramp.target)}/s, ${count(more.ramp.waiting)} waiting`]);
    if (more.check) cards.push(['Health checks', more.check.verdict, `${plural(more.check.checkers, 'checker', 'checkers')}, every ${span(more.check.period_ms)}`]);
    this.cards.show(cards);
    this.#replace('traffic', tables.traffic(detail), JSON.stringify([detail.traffic, more.denied]));
    this.#replace('reporters', tables.reporters(detail.reporters), JSON.stringify(detail.reporters) + Math.floor(Date.now() / 5000));
    this.#replace('events', tables.events(detail.events), JSON.stringify(detail.events));
    if (this.policies !== detail.policies) {
      this.policies = detail.policies;
      this.#loadPolicy();
    }
    this.ahead = detail.ahead?.planned.join() ?? '';
    if (this.charted !== detail.charted) {
      this.charted = detail.charted;
      this.#draw(false);
    } else if (this.ahead !== this.drawnAhead) this.#drawOne(this.charts[4]);
    this.drawnAhead = this.ahead;
  }

  // A table that is as it was keeps its place, its selection and its focus.
  #replace(name, element, of) {
    this.was ??= {};
    if (this.was[name] === of || this[name].contains(document.activeElement)) return;
    this.was[name] = of;
    this[name].replaceChildren(element);
  }

  #figure([name, title, legend]) {
    const image = el('img', {alt: `${title}, as a chart; the numbers stand below it`, class: name});
    const figure = el('figure', {class: name},
      el('figcaption', {}, el('span', {class: 'title'}, title), legend.map(([stroke, word]) => el('span', {class: `legend ${stroke}`}, el('i', {'aria-hidden': 'true'}), word))),
      image);
    return {name, image, figure};
  }

  #draw(anew) {
    if (!anew && document.hidden) return;
    for (const chart of this.charts) this.#drawOne(chart);
    if (this.numbersOpen.open) this.#showNumbers();
  }

  // The next picture is loaded before it takes the place of the last: nothing flickers.
  async #drawOne(chart) {
    const width = Math.min(1600, Math.max(240, Math.round(chart.figure.clientWidth - 24)));
    const query = new URLSearchParams({...this.shows, width, theme: this.dark.matches ? 'dark' : 'light', at: Date.now()});
    const next = new Image();
    next.src = `/dashboard/chart/${chart.name}.svg?${query}`;
    try { await next.decode(); } catch { return; }
    if (!this.ended) chart.image.src = next.src;
  }

  async #showNumbers() {
    if (!this.numbersOpen.open) return;
    const points = await get('/dashboard/history', this.shows).catch(() => null);
    if (points && !this.ended) this.numbers.replaceChildren(tables.history(points));
  }

  async #loadPolicy() {
    const policy = await get('/dashboard/policy', this.shows).catch(() => null);
    if (policy && !this.ended) this.policy.replaceChildren(tables.policy(policy.values));
  }
}
