// What an operator does: look at the plan, say why and for how long, confirm, and perhaps undo.

import {el, pill, say, toast, write} from './elements.js';
import {at, ofTrip, rate} from './format.js';
import {post} from './live.js';

const TITLES = {open: 'Force open', close: 'Force closed', release: 'Release', reset: 'Reset', clear_hold: 'Clear the hold of'};
const DONE = {open: 'is forced open', close: 'is forced closed', release: 'is released', reset: 'is reset', clear_hold: 'is not held any more'};
const LASTS = [['1 minute', 60000], ['10 minutes', 600000], ['1 hour', 3600000], ['6 hours', 21600000], ['24 hours', 86400000], ['until it is released', 0]];

const dialog = document.getElementById('action');

// Opens the dialog of an action on a dependency.
export function act(action, of) {
  new Dialog(action, of);
}

class Dialog {
  constructor(action, of) {
    this.action = action;
    this.of = of;
    this.asked = 0;
    this.doing = false;
    this.overrides = action === 'open' || action === 'close';
    this.lasts = el('select', {id: 'lasts', onchange: () => this.#plan()}, LASTS.map(([title, ms]) => el('option', {value: ms}, title)));
    this.lasts.value = '600000';
    this.reason = el('textarea', {id: 'reason', rows: 2, required: true, maxlength: 1000, placeholder: 'Seen by everybody who looks; kept in the audit log'});
    this.owner = el('input', {id: 'owner', required: true, maxlength: 200, autocomplete: 'username'});
    this.owner.value = localStorage.getItem('holdoff-owner') ?? '';
    this.ownerField = el('label', {class: 'field'}, 'Who you are', this.owner);
    this.typed = el('input', {id: 'confirm', autocomplete: 'off', spellcheck: 'false'});
    this.typedField = el('label', {class: 'field', hidden: true}, el('span', {}, 'It does not end by itself. Type ', el('code', {}, of.dependency), ' to confirm'), this.typed);
    this.effect = el('div', {class: 'effect', 'aria-live': 'polite'}, 'Looking …');
    this.problem = el('p', {class: 'problem', role: 'alert', hidden: true});
    this.submit = el('button', {type: 'submit', class: `do ${action}`, disabled: true}, TITLES[action]);
    const form = el('form', {onsubmit: (event) => { event.preventDefault(); this.#do(); }},
      el('h2', {id: 'action-title'}, `${TITLES[action]} `, el('span', {class: 'name'}, of.dependency)),
      this.effect,
      this.overrides ? el('label', {class: 'field'}, 'For how long', this.lasts) : null,
      el('label', {class: 'field'}, 'Why', this.reason),
      this.ownerField, this.typedField, this.problem,
      el('div', {class: 'buttons'}, el('button', {type: 'button', onclick: () => dialog.close()}, 'Cancel'), this.submit));
    dialog.replaceChildren(form);
    dialog.showModal();
    this.reason.focus();
    this.#plan();
  }

  #order() {
    const order = {...this.of, action: this.action};
    if (this.overrides) order.lasts = this.lasts.value === '0' ? 'until_released' : {for_ms: Number(this.lasts.value)};
    return order;
  }

  async #plan() {
    // Of several that are under way the last one counts.
    const asked = ++this.asked;
    try {
      const plan = await post('/dashboard/plan', this.#order());
      if (asked !== this.asked) return;
      this.plan = plan;
      this.submit.disabled = this.doing;
      this.ownerField.hidden = Boolean(plan.owner);
      this.owner.required = !plan.owner;
      this.typedField.hidden = !plan.confirm;
      this.typed.required = Boolean(plan.confirm);
      this.effect.replaceChildren(
        el('p', {class: 'from-to'}, pill(plan.row.state), plan.after ? [el('span', {'aria-label': 'becomes'}, ' → '), pill(plan.after)] : null),
        el('p', {}, plan.effect),
        el('dl', {class: 'radius'},
          el('div', {}, el('dt', {}, ofTrip(plan.row) ? 'usual calls a second' : 'calls a second'), el('dd', {}, rate(plan.calls_per_second))),
          el('div', {}, el('dt', {}, 'instances'), el('dd', {}, `${plan.instances}`)),
          el('div', {}, el('dt', {}, 'retries planned'), el('dd', {}, `${plan.planned}`)),
          this.overrides ? el('div', {}, el('dt', {}, 'ends'), el('dd', {}, plan.until ? at(plan.until) : 'when released')) : null),
        el('p', {class: 'quiet'}, plan.undo ? 'It can be undone.' : 'It cannot be undone.'));
    } catch (problem) {
      if (asked !== this.asked) return;
      this.submit.disabled = true;
      this.#fail(problem);
    }
  }

  async #do() {
    // A second click, or Enter after it, is no second order.
    if (this.doing) return;
    this.doing = true;
    const order = {...this.#order(), reason: this.reason.value, owner: this.owner.value, confirm: this.typed.value, epoch: this.plan.epoch};
    this.submit.disabled = true;
    this.problem.hidden = true;
    try {
      const done = await post('/dashboard/act', order);
      localStorage.setItem('holdoff-owner', this.owner.value);
      dialog.close();
      const told = `${this.of.dependency} ${DONE[this.action]}`;
      say(told);
      toast(told, done.undo && {name: 'Undo', does: () => undo(this.of, order, done)});
    } catch (problem) {
      this.#fail(problem);
      // It has changed meanwhile: the plan is made anew, for whoever still wants it.
      if (problem.status === 409) await this.#plan();
      this.doing = false;
      this.submit.disabled = false;
    }
  }

  #fail(problem) {
    this.problem.hidden = false;
    write(this.problem, problem.message);
  }
}

async function undo(of, order, done) {
  try {
    await post('/dashboard/act', {...of, ...done.undo, reason: `undo: ${order.reason}`.slice(0, 1000), owner: order.owner, confirm: of.dependency, epoch: done.epoch});
    toast(`${of.dependency} is as it was`);
  } catch (problem) {
    toast(`Not undone: ${problem.message}`);
  }
}
