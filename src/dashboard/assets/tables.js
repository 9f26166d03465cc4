// The tables of a dependency's page.

import {el, shape, write} from './elements.js';
import {age, at, count, share} from './format.js';

export function table(caption, heads, rows) {
  return el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
    el('table', {}, el('caption', {class: 'unseen'}, caption),
      el('thead', {}, el('tr', {}, heads.map((head) => el('th', {scope: 'col', class: head.number ? 'number' : ''}, head.title ?? head)))),
      el('tbody', {}, rows)));
}

const number = (value) => el('td', {class: 'number'}, value ? count(value) : el('span', {class: 'nothing'}, '0'));

export function traffic({traffic, more}) {
  const spans = ['minute', 'ten', 'all'];
  const heads = [{title: 'What'}, {title: 'Last minute', number: true}, {title: 'Ten minutes', number: true}, {title: 'Since followed', number: true}];
  const line = (title, counts, mark) => el('tr', {class: mark}, el('th', {scope: 'row'}, title), spans.map((span) => number(counts[span])));
  const sum = (reasons, at) => Object.fromEntries(spans.map((span) => [span, reasons.reduce((sum, reason) => sum + reason[span][at], 0)]));
  const denied = (at) => traffic.denied.filter((reason) => reason.all[at]).map((reason) =>
    line(reason.reason, Object.fromEntries(spans.map((span) => [span, reason[span][at]])), 'part'));
  const soFar = more.denied.map(([reason, times]) => `${count(times)} ${reason}`).join(', ');
  const counts = table('Granted and refused', heads, [
    line('First attempts granted', traffic.first_attempts),
    line('Retries granted', traffic.retries),
    line('Probes granted', traffic.probes),
    line('First attempts refused', sum(traffic.denied, 0)),
    ...denied(0),
    line('Retries refused', sum(traffic.denied, 1)),
    ...denied(1),
    line('Ended well', traffic.succeeded),
    line('Failed or timed out', traffic.failed),
    line('Ended otherwise', traffic.other),
  ]);
  return el('div', {}, counts, soFar ? el('p', {class: 'quiet so-far'}, `Refused since the service started: ${soFar}.`) : null);
}

export function reporters(list) {
  if (!list.length) return el('p', {class: 'quiet'}, 'Nobody has asked or reported since this page is followed.');
  const heads = ['Service', 'Instance', 'Heard', {title: 'Granted', number: true}, {title: 'Refused', number: true}, {title: 'Ended well', number: true}, {title: 'Failed', number: true}, {title: 'Failing', number: true}];
  return table('Reporters', heads, list.map((reporter) => {
    const ended = reporter.succeeded + reporter.failed;
    return el('tr', {},
      el('th', {scope: 'row'}, reporter.service || '(no name)'), el('td', {}, reporter.instance || '(no name)'),
      el('td', {}, `${age(reporter.heard)} ago`),
      number(reporter.granted), number(reporter.denied), number(reporter.succeeded), number(reporter.failed),
      el('td', {class: 'number'}, ended ? share(reporter.failed / ended) : '–'));
  }));
}

export function events(list) {
  if (!list.length) return el('p', {class: 'quiet'}, 'Nothing has happened to it since the service started.');
  return el('ol', {class: 'events'}, list.map((event) => el('li', {},
    el('time', {datetime: new Date(event.time).toISOString()}, at(event.time)),
    event.to ? shape(event.to) : el('span', {class: 'shape'}),
    el('span', {'data-state': event.to ?? ''}, el('strong', {}, event.kind), event.from && event.from !== event.to ? ` ${event.from} → ${event.to}` : ''),
    el('span', {class: 'detail'}, event.detail, event.owner ? el('span', {class: 'by'}, ` by ${event.owner}`) : null))));
}

export function policy(values) {
  const written = (value) => !value.origin.startsWith('built-in');
  const body = el('div', {});
  const only = el('input', {type: 'checkbox', onchange: () => show()});
  const any = values.some(written);
  only.checked = any;
  only.disabled = !any;
  function show() {
    const shown = only.checked ? values.filter(written) : values;
    body.replaceChildren(table('Policy', ['Setting', 'Value', 'Where it comes from'], shown.map((value) => el('tr', {class: written(value) ? 'written' : ''},
      el('th', {scope: 'row'}, el('code', {}, value.field)), el('td', {}, el('code', {}, value.value)), el('td', {}, value.origin)))));
  }
  show();
  return el('div', {}, el('label', {class: 'check'}, only, any ? ' only what somebody has written' : ' nobody has written anything: these are the built-in values'), body);
}

export function history(points) {
  if (!points.length) return el('p', {class: 'quiet'}, 'There are points after ten seconds.');
  const heads = ['Time', 'State', {title: 'First attempts/s', number: true}, {title: 'Retries/s', number: true}, {title: 'Refused/s', number: true}, {title: 'Failing', number: true}, {title: 'Slow', number: true}, {title: 'Budget left', number: true}, {title: 'Planned', number: true}];
  return table('The last ten minutes', heads, points.reverse().map((point) => el('tr', {},
    el('th', {scope: 'row'}, at(point.time)), el('td', {}, point.state),
    ...[point.first_attempts, point.retries, point.refused, share(point.failing), share(point.slow), point.left, point.planned].map((value) => el('td', {class: 'number'}, `${value}`)))));
}

// Two words and a number: what a card says. Only texts that differ are written.
export class Cards {
  constructor() {
    this.element = el('dl', {class: 'cards'});
    this.cards = new Map();
  }

  show(cards) {
    for (const [title, value, note] of cards) {
      let card = this.cards.get(title);
      if (!card) {
        card = {value: el('dd', {class: 'value'}), note: el('dd', {class: 'note'})};
        this.cards.set(title, card);
        this.element.append(el('div', {class: 'card'}, el('dt', {}, title), card.value, card.note));
      }
      write(card.value, value);
      write(card.note, note ?? '');
    }
  }
}
