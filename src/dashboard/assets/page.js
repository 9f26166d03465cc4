// The page: which view, which namespace, and what concerns all of it.

import {el, isCommand, keysWanted, say, write} from './elements.js';
import {span, plural, at, clock} from './format.js';
import {Live, get} from './live.js';
import {askToken, me, signOut} from './login.js';
import {List} from './list.js';
import {Dependency} from './dependency.js';

const live = new Live();
const main = document.getElementById('main');
const stale = document.getElementById('stale');
const pulse = document.getElementById('pulse');
const pulseText = document.getElementById('pulse-text');
const replicas = document.getElementById('replicas');
const namespaces = document.getElementById('namespace');
let view = null;
let heardAt = 0;

function place() {
  const query = new URLSearchParams(location.search);
  return {namespace: query.get('namespace') || 'default', dependency: query.get('dependency') || ''};
}

// Goes to a view without loading the page anew. Where the list was is where it is come back to.
export function go(where) {
  history.replaceState({...history.state, scroll: scrollY}, '');
  history.pushState({}, '', where);
  show({});
}

function show({scroll = 0}) {
  const shows = place();
  view?.end();
  main.replaceChildren();
  view = shows.dependency ? new Dependency(main, live, shows) : new List(main, live, shows);
  live.show(shows);
  document.title = shows.dependency ? `${shows.dependency} · holdoff` : 'holdoff';
  choose(shows.namespace);
  scrollTo(0, scroll);
}

function choose(namespace) {
  const known = [...namespaces.options].some((option) => option.value === namespace);
  if (!known) namespaces.append(el('option', {value: namespace}, namespace));
  namespaces.value = namespace;
}

async function fillNamespaces() {
  const names = await get('/dashboard/namespaces').catch(() => []);
  const chosen = place().namespace;
  const all = [...new Set([...names, chosen])].sort();
  namespaces.replaceChildren(...all.map((name) => el('option', {value: name}, name)));
  namespaces.value = chosen;
}

namespaces.addEventListener('change', () => go(`/dashboard/?${new URLSearchParams({namespace: namespaces.value})}`));
namespaces.addEventListener('focus', fillNamespaces);

document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href^="/dashboard/"]');
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const home = link.id === 'home' ? `/dashboard/?${new URLSearchParams({namespace: place().namespace})}` : link.href;
  go(home);
  main.focus({preventScroll: true});
});

addEventListener('popstate', (event) => show(event.state ?? {}));

live.addEventListener('fresh', () => {
  if (!stale.hidden) say('The service answers again.');
  stale.hidden = true;
  document.body.classList.remove('is-stale');
  pulse.dataset.state = 'live';
  write(pulseText, 'live');
});

live.addEventListener('stale', ({detail}) => {
  if (stale.hidden) {
    heardAt = clock.now() - detail.ms;
    stale.hidden = false;
    stale.replaceChildren(
      el('strong', {}, 'STALE'),
      el('span', {}, ` The service does not answer. What you see is from ${at(heardAt)}. `),
      el('span', {'aria-hidden': 'true', id: 'stale-for'}));
    document.body.classList.add('is-stale');
    pulse.dataset.state = 'stale';
    write(pulseText, 'stale');
  }
  write(document.getElementById('stale-for'), `Last heard of ${span(detail.ms)} ago; trying again.`);
});

live.addEventListener('beat', ({detail}) => {
  document.getElementById('undurable').hidden = detail.durable;
  document.getElementById('alone').hidden = !detail.alone;
  const {all, degraded} = detail.replicas;
  replicas.hidden = all < 2 && !degraded.length;
  replicas.dataset.state = degraded.length ? 'degraded' : 'well';
  write(replicas, plural(all, 'replica', 'replicas') + (degraded.length ? `, ${degraded.length} degraded` : ''));
  replicas.title = degraded.join('\n');
});

live.addEventListener('rows', ({detail}) => {
  if (detail.all || !detail.moved?.length) return;
  const told = detail.moved.slice(0, 3).map((row) => `${row.name} is ${row.state}`).join(', ');
  const more = detail.moved.length - 3;
  say(more > 0 ? `${told}, and ${plural(more, 'other', 'others')} changed` : told);
});

const help = document.getElementById('help');

const KEYS = [
  ['/', 'search'], ['j k or ↓ ↑', 'down and up the list'], ['Enter', 'the dependency that is chosen'],
  ['Esc', 'back to the list, or out of a dialog'], ['o', 'force open (on a dependency’s page)'],
  ['c', 'force closed'], ['r', 'release the override'], ['?', 'this'],
];

function showHelp() {
  const wanted = el('input', {type: 'checkbox', id: 'keys-wanted', onchange: (event) => keysWanted.set(event.target.checked)});
  wanted.checked = keysWanted.get();
  help.replaceChildren(
    el('h2', {id: 'help-title'}, 'Keys'),
    el('dl', {class: 'keys'}, KEYS.flatMap(([key, does]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, does)])),
    el('label', {class: 'check'}, wanted, ' Single keys do something'),
    el('div', {class: 'buttons'}, el('button', {type: 'button', onclick: () => help.close()}, 'Close')));
  help.showModal();
}

document.getElementById('keys').addEventListener('click', showHelp);
addEventListener('keydown', (event) => {
  if (!isCommand(event)) return;
  if (event.key === '?') { event.preventDefault(); showHelp(); }
  else view?.key(event);
});

const out = document.getElementById('out');
out.addEventListener('click', async () => { await signOut(); location.reload(); });

// A stream that is refused may want to know who is asking; so may the first one.
async function begin() {
  const who = await me().catch(() => null);
  if (who && !who.known) {
    view?.end();
    view = null;
    live.stop();
    stale.hidden = true;
    document.body.classList.remove('is-stale');
    askToken(main, begin);
    return;
  }
  out.hidden = !who?.session || !who.name;
  out.title = who?.name ? `signed in as ${who.name}` : '';
  show({});
  fillNamespaces();
}

// What the address asks for is no name, or there is no such namespace: asking again would not help.
function showProblem(problem) {
  view?.end();
  view = null;
  live.stop();
  stale.hidden = true;
  document.body.classList.remove('is-stale');
  pulse.dataset.state = 'waiting';
  write(pulseText, 'nothing to show');
  main.replaceChildren(
    el('h1', {}, 'This cannot be shown'),
    el('p', {class: 'empty', role: 'alert', id: 'problem'}, problem),
    el('p', {}, el('a', {href: '/dashboard/'}, 'All dependencies of the namespace default')));
  document.title = 'holdoff';
}

live.addEventListener('refused', async ({detail}) => {
  const who = await me().catch(() => null);
  if (!view) return;
  if (who && !who.known) begin();
  else if ([400, 404].includes(detail.status) && detail.problem) showProblem(detail.problem);
});

begin();
