// Signing in with a token, where the service asks who somebody is.

import {el, write} from './elements.js';
import {get, post} from './live.js';

export const me = () => get('/dashboard/me');

// Asks for a token in `main`; `then` is called when it is known.
export function askToken(main, then) {
  const token = el('input', {type: 'password', id: 'token', required: true, autocomplete: 'current-password', spellcheck: 'false'});
  const problem = el('p', {class: 'problem', role: 'alert', hidden: true});
  const form = el('form', {class: 'login', onsubmit: async (event) => {
    event.preventDefault();
    problem.hidden = true;
    try {
      await post('/dashboard/login', {token: token.value});
      then();
    } catch (refused) {
      problem.hidden = false;
      write(problem, refused.message);
      token.select();
    }
  }},
  el('h1', {}, 'Sign in'),
  el('p', {class: 'quiet'}, 'With a token of the access file that may look (viewer) or act (operator).'),
  el('label', {class: 'field'}, 'Token', token), problem,
  el('div', {class: 'buttons'}, el('button', {type: 'submit', class: 'do'}, 'Sign in')));
  main.replaceChildren(form);
  token.focus();
}

export const signOut = () => post('/dashboard/logout', {});
