// The dashboard as people use it. Times are real here: they are what is tested.

import assert from 'node:assert/strict';
import {createServer} from 'node:http';
import {after, before, test} from 'node:test';
import axe from 'axe-core';
import {launch, open, picture} from '../browser.js';
import {NAMES, TEXTS} from '../hostile.js';
import {POLICIES, play} from '../scene.js';
import {Service} from '../service.js';

let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

const median = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
const many = Array.from({length: 10000}, (_, at) => `service-${String(at).padStart(5, '0')}`);

async function served(options, body) {
  const service = await Service.start(options);
  try {
    await body(service);
  } finally {
    for (const context of browser.contexts()) await context.close();
    await service.stop();
  }
}

// Inside the page: the moment at which something is there, by the page's clock.
const whenThere = (page, condition, argument) => page.evaluate(([condition, argument]) => new Promise((done) => {
  const is = new Function('argument', `return ${condition}`);
  const look = () => (is(argument) ? done(Date.now()) : requestAnimationFrame(look));
  look();
}), [condition, argument]);

const row = (name) => `[...document.querySelectorAll('.body .row:not([hidden])')].find((row) => row.dataset.name === '${name}')`;
const stateOf = (page, name) => page.locator(`.body .row:not([hidden])[data-name="${name}"] .pill`).textContent();

async function sound(page, what) {
  await page.evaluate(axe.source.replace(/^/, '')).catch(() => {});
  const found = await page.evaluate(async () => (await window.axe.run(document, {resultTypes: ['violations']})).violations
    .filter((violation) => ['serious', 'critical'].includes(violation.impact))
    .map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`));
  assert.deepEqual(found, [], what);
}

test('ten_thousand_dependencies_are_painted_within_a_second_and_searched_filtered_sorted_without_lag', async () => {
  await served({}, async (service) => {
    await service.fill(many);
    const times = [];
    let page;
    for (let turn = 0; turn < 5; turn++) {
      page = await open(browser, 'about:blank');
      await page.addInitScript(() => {
        const look = () => {
          if (document.querySelector('.body .row .pill')) requestAnimationFrame(() => { window.paintedAfter = performance.now(); });
          else requestAnimationFrame(look);
        };
        look();
      });
      await page.goto(service.page);
      times.push(await (await page.waitForFunction(() => window.paintedAfter)).jsonValue());
      if (turn < 4) await page.context().close();
    }
    console.log(`first paint of 10,000: ${times.map(Math.round)} ms, median ${Math.round(median(times))} ms`);
    assert.ok(median(times) < 1000, `${times}`);
    assert.equal(await page.locator('.found').textContent(), '10,000 dependencies');
    assert.ok(await page.locator('.body .row').count() < 80, 'only what is in view is in the page');
    const lag = (does) => page.evaluate((does) => new Promise((done) => {
      const begun = performance.now();
      new Function(does)();
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begun)));
    }), does);
    const lags = {
      search: await lag(`const s = document.getElementById('search'); s.value = '0999'; s.dispatchEvent(new Event('input'));`),
      all: await lag(`const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input'));`),
      sort: await lag(`document.querySelector('.head .name button').click();`),
      back: await lag(`document.querySelector('.head .calls button').click();`),
      filter: await lag(`document.querySelector('.chip[data-state=closed]').click();`),
      scroll: await lag(`scrollTo(0, 200000);`),
    };
    console.log('lag, ms:', Object.fromEntries(Object.entries(lags).map(([what, ms]) => [what, Math.round(ms)])));
    for (const [what, ms] of Object.entries(lags)) assert.ok(ms < 250, `${what}: ${ms} ms`);
    await page.fill('#search', '0999');
    assert.equal(await page.locator('.found').textContent(), '11 of 10,000 dependencies');
    assert.match(page.url(), /search=0999/);
    await picture(page, 'ten-thousand');
    const shared = await open(browser, page.url());
    await shared.waitForSelector('.body .row');
    assert.equal(await shared.locator('.found').textContent(), '11 of 10,000 dependencies');
    assert.deepEqual([...page.wrongs, ...shared.wrongs], []);
  });
});

test('a_change_is_on_the_screen_within_250_ms_of_its_cause', async () => {
  await served({}, async (service) => {
    await service.fill(many);
    const page = await open(browser, service.at({sort: 'since'}));
    await page.waitForSelector('.body .row');
    const times = [];
    for (let turn = 0; turn < 20; turn++) {
      const name = many[turn * 400 + 7];
      const seen = whenThere(page, `(${row(name).replace(/'/g, '"')})?.querySelector('.pill')?.textContent === 'forced open'`);
      // Turns fall on all parts of the frames' grid.
      await new Promise((done) => setTimeout(done, 311));
      const begun = Date.now();
      await service.force({dependency: name, kind: 'OVERRIDE_KIND_FORCE_OPEN', owner: 'test', reason: 'a test', expires_in: {seconds: 600, nanos: 0}});
      times.push(await seen - begun);
    }
    console.log(`cause to screen: median ${median(times)} ms, slowest ${Math.max(...times)} ms of ${times.length}`);
    // On a machine that is busy with other things single turns are late; the law is the median's.
    assert.ok(median(times) < 250, `${times}`);
    assert.deepEqual(page.wrongs, []);
  });
});

test('what_one_page_does_every_page_shows_and_it_can_be_undone', async () => {
  await served({}, async (service) => {
    await service.call('payments');
    const list = await open(browser, service.page);
    const page = await open(browser, service.at({dependency: 'payments'}));
    await page.click('[data-action=open]');
    await page.waitForSelector('#action .from-to');
    assert.match(await page.locator('#action .effect').textContent(), /Every call to payments will be refused/);
    assert.equal((await service.shown({dependency: 'payments'})).dependency.state, 'BREAKER_STATE_CLOSED', 'a plan changes nothing');
    await page.click('#action button[type=submit]');
    assert.ok(await page.locator('#action').evaluate((dialog) => dialog.open), 'without a reason nothing is done');
    await page.fill('#reason', 'INC-7: it double charges');
    await page.fill('#owner', 'ana');
    await picture(page, 'action');
    await page.click('#action button[type=submit]');
    await list.waitForFunction(() => document.querySelector('[data-name=payments] .pill')?.textContent === 'forced open');
    await page.waitForSelector('.state-line [data-state="forced open"]');
    assert.match(await list.locator('[data-name=payments] .why').textContent(), /INC-7: it double charges \(ana\)/);
    const {dependency} = await service.shown({dependency: 'payments'});
    const left = dependency.override.expires_in.seconds;
    assert.ok(left > 590 && left <= 600, `ten minutes unless said otherwise: ${left}`);
    assert.equal(dependency.override.owner, 'ana');
    await page.click('.toast button:has-text("Undo")');
    await list.waitForFunction(() => document.querySelector('[data-name=payments] .pill')?.textContent === 'closed');
    // Until it is released must be typed.
    await page.click('[data-action=close]');
    await page.selectOption('#lasts', '0');
    await page.fill('#reason', 'false alarms');
    await page.waitForSelector('#confirm:visible');
    await page.fill('#confirm', 'paiments');
    await page.click('#action button[type=submit]');
    await page.waitForSelector('#action .problem:visible');
    assert.match(await page.locator('#action .problem').textContent(), /confirm: "paiments" is not allowed/);
    await page.fill('#confirm', 'payments');
    await page.click('#action button[type=submit]');
    await page.waitForSelector('.state-line [data-state="forced closed"]');
    // Whoever looked at another state than there is must look again.
    await page.click('[data-action=release]');
    await page.waitForSelector('#action .from-to');
    await service.force({dependency: 'payments', kind: 'OVERRIDE_KIND_FORCE_OPEN', owner: 'li', reason: 'was faster'});
    await page.fill('#reason', 'it is over');
    await page.click('#action button[type=submit]');
    await page.waitForSelector('#action .problem:visible');
    assert.match(await page.locator('#action .problem').textContent(), /has changed since you looked: it is forced open/);
    await page.click('#action button[type=submit]:not([disabled])');
    await page.waitForSelector('.state-line [data-state="closed"]');
    await page.waitForFunction(() => document.querySelector('.events')?.textContent.includes('override cleared'));
    const wrongs = [...page.wrongs, ...list.wrongs].filter((wrong) => !/status of 400/.test(wrong));
    assert.deepEqual(wrongs, []);
  });
});

test('a_page_says_stale_within_five_seconds_and_goes_on_when_the_service_is_back', async () => {
  const first = await Service.start();
  const page = await open(browser, first.page);
  await first.call('payments');
  await page.waitForSelector('[data-name=payments]');
  await first.stop('SIGKILL');
  const begun = Date.now();
  await page.waitForSelector('#stale:visible', {timeout: 6000});
  const after = Date.now() - begun;
  console.log(`STALE after ${after} ms`);
  assert.ok(after < 5000, `${after}`);
  await picture(page, 'stale');
  const second = await Service.start({http: first.http});
  try {
    await page.waitForSelector('#stale', {state: 'hidden', timeout: 10000});
    await second.call('ledger');
    await page.waitForSelector('[data-name=ledger]');
    assert.equal(await page.locator('.body .row:not([hidden])[data-name=payments]').count(), 0, 'what another run knew is gone');
    assert.deepEqual(page.wrongs, []);
    // Its token is another run's; an action still works.
    await page.click('[data-name=ledger] a');
    await page.click('[data-action=open]');
    await page.waitForSelector('#action .from-to');
    const refused = page.wrongs.filter((wrong) => !/status of 403/.test(wrong));
    assert.deepEqual(refused, []);
  } finally {
    await page.context().close();
    await second.stop();
  }
});

test('everything_can_be_done_by_keyboard', async () => {
  await served({}, async (service) => {
    await service.fill(['auth', 'billing', 'cart', 'payments']);
    const page = await open(browser, service.page);
    await page.waitForSelector('.body .row');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    await page.keyboard.press('j');
    const active = await page.evaluate(() => document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).dataset.name);
    assert.equal(active, 'billing');
    await page.keyboard.press('/');
    await page.keyboard.type('pay');
    assert.equal(await page.locator('.found').textContent(), '1 of 4 dependencies');
    await page.keyboard.press('Tab');
    while (await page.evaluate(() => document.activeElement.getAttribute('role')) !== 'grid') await page.keyboard.press('Tab');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForSelector('h1:has-text("payments")');
    await page.waitForSelector('.state-line .pill');
    await page.keyboard.press('o');
    await page.waitForSelector('#action .from-to');
    await page.keyboard.type('by keyboard');
    await page.keyboard.press('Tab');
    await page.keyboard.type('ana');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.state-line [data-state="forced open"]');
    await page.evaluate(() => document.activeElement?.blur());
    await page.keyboard.press('Escape');
    await page.waitForSelector('.body .row');
    await page.keyboard.press('?');
    await page.waitForSelector('#help[open]');
    await page.uncheck('#keys-wanted');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    assert.equal(await page.locator('#help[open]').count(), 0, 'single keys can be switched off');
    await page.keyboard.press('Shift+Tab');
    const seen = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.equal(seen, 'solid', 'the focus is seen');
    assert.deepEqual(page.wrongs, []);
  });
});

test('no_serious_violation_of_accessibility_wide_narrow_light_or_dark', async () => {
  await served({policies: POLICIES}, async (service) => {
    await play(service);
    for (const [what, options] of [
      ['wide light', {}],
      ['wide dark', {colorScheme: 'dark'}],
      ['phone light', {viewport: {width: 360, height: 740}}],
      ['phone dark', {viewport: {width: 360, height: 740}, colorScheme: 'dark'}],
    ]) {
      const page = await open(browser, service.page, {...options, bypassCSP: true});
      await page.waitForSelector('.body .row .pill');
      await page.waitForTimeout(300);
      await sound(page, `${what}: list`);
      await picture(page, `list-${what.replace(' ', '-')}`);
      await page.goto(service.at({dependency: 'search'}));
      await page.waitForSelector('.events');
      await page.waitForSelector('.written, .check');
      await sound(page, `${what}: dependency`);
      await page.waitForFunction(() => [...document.querySelectorAll('figure img')].every((image) => image.complete && image.naturalWidth > 0));
      await picture(page, `dependency-${what.replace(' ', '-')}`, {fullPage: true});
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${what}: ${wide} px too wide`);
      await page.click('[data-action=open]');
      await page.waitForSelector('#action .from-to');
      await sound(page, `${what}: action`);
      assert.deepEqual(page.wrongs, [], what);
      await page.context().close();
    }
  });
});

test('five_hundred_hostile_texts_in_every_field_run_nothing', async () => {
  assert.ok(TEXTS.length >= 500, `${TEXTS.length}`);
  await served({}, async (service) => {
    const short = (text, most) => Buffer.from(text).subarray(0, most).toString().replace(/\ufffd+$/, '');
    // Blanks around an owner and a reason are not kept.
    const kept = (text) => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, '');
    await service.fill(NAMES);
    await service.fill(TEXTS.map((_, at) => `d${at}`));
    for (let at = 0; at < TEXTS.length; at++) {
      const text = TEXTS[at];
      await service.force({dependency: `d${at}`, kind: at % 2 ? 'OVERRIDE_KIND_FORCE_OPEN' : 'OVERRIDE_KIND_FORCE_CLOSED', owner: short(text, 200), reason: text});
      if (at % 25 === 0) await service.put({name: `d${at}`, document: 'retry: {max_attempts: 4}', owner: short(text, 200), reason: text});
    }
    const page = await open(browser, service.page);
    await page.waitForSelector('.body .row');
    const shown = new Map();
    const bottom = await page.evaluate(() => document.documentElement.scrollHeight);
    for (let top = 0; top < bottom; top += 700) {
      await page.evaluate((top) => scrollTo(0, top), top);
      await page.waitForTimeout(40);
      for (const [name, text] of await page.evaluate(() => [...document.querySelectorAll('.body .row:not([hidden])')].map((row) => [row.dataset.name, row.querySelector('.why .first').textContent]))) shown.set(name, text);
    }
    for (let at = 0; at < TEXTS.length; at++) assert.equal(shown.get(`d${at}`), `${kept(TEXTS[at])} (${kept(short(TEXTS[at], 200))})`, `the text is shown as it is: ${at}`);
    for (const name of NAMES) assert.ok(shown.has(name), name);
    const detail = await open(browser, service.at({dependency: 'd0'}));
    await detail.waitForSelector('.events');
    for (let at = 0; at < TEXTS.length; at++) {
      const caller = {service: short(TEXTS[at], 200), instance: short(TEXTS[TEXTS.length - 1 - at], 200)};
      await service.acquire({dependency: 'd0', attempt: 1, caller}).catch(() => {});
    }
    await detail.waitForTimeout(6500);
    assert.ok(await detail.locator('section:has(h2:text-is("Reporters")) tbody tr').count() > 30);
    for (const at of [0, 25, 50, 75, 100, 125, 150, 175, 200, 225, 250, 275, 300, 325, 350, 375, 400, 425, 450, 475, ...NAMES]) {
      await detail.goto(service.at({dependency: typeof at === 'number' ? `d${at}` : at}));
      await detail.waitForSelector('.events, .quiet:not([hidden])');
      if (typeof at === 'number') await detail.waitForFunction((text) => document.querySelector('.because').textContent.startsWith(text), TEXTS[at].slice(0, 40));
    }
    await detail.goto(`${service.page}?${new URLSearchParams({dependency: TEXTS[0], namespace: TEXTS[1], search: TEXTS[2]})}`);
    await detail.waitForTimeout(500);
    for (const seen of [page, detail]) {
      const raw = await seen.evaluate(() => ({
        ran: window.ran ?? 0,
        titled: document.title.includes('ran') && !document.title.includes('holdoff'),
        elements: document.querySelectorAll('script:not([src]), iframe, object, base, [onerror], [onload], [onfocus], a[href^="javascript:"], main style, main link, main meta').length,
      }));
      assert.deepEqual(raw, {ran: 0, titled: false, elements: 0});
    }
    const wrongs = [...page.wrongs, ...detail.wrongs].filter((wrong) => !/status of 40[04]/.test(wrong));
    assert.deepEqual(wrongs, []);
  });
});

test('a_foreign_page_changes_nothing_frames_nothing_and_reads_nothing', async () => {
  await served({}, async (service) => {
    await service.call('payments');
    const order = JSON.stringify({action: 'open', dependency: 'payments', lasts: {for_ms: 60000}, owner: 'eve', reason: 'x', epoch: 1});
    const body = `<!doctype html><title>evil</title><iframe id=f src="${service.page}"></iframe>
      <form id=p method=post enctype=text/plain target=sink action="${service.page}act"><input name='${order.slice(0, -1)},"x":"' value='"}'></form><iframe name=sink></iframe>`;
    const evil = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end(body));
    await new Promise((done) => evil.listen(0, '127.0.0.1', done));
    try {
      for (const host of ['localhost', '127.0.0.1']) {
        const page = await open(browser, `http://${host}:${evil.address().port}/`);
        const answers = await page.evaluate(async ([base, order]) => {
          const tried = [];
          for (const options of [
            {method: 'POST', mode: 'no-cors', body: order},
            {method: 'POST', mode: 'no-cors', body: order, headers: {'Content-Type': 'text/plain'}},
            {method: 'POST', body: order, headers: {'Content-Type': 'application/json', 'X-Holdoff-Token': 'x'}},
            {method: 'GET', mode: 'no-cors'},
          ]) tried.push(await fetch(`${base}act`, options).then((answer) => answer.type, () => 'refused'));
          tried.push(await fetch(base).then(() => 'read', () => 'refused'));
          document.getElementById('p').submit();
          await new Promise((done) => setTimeout(done, 500));
          let framed = 'framed';
          try { framed = document.getElementById('f').contentDocument ? 'empty' : 'refused'; } catch { framed = 'refused'; }
          return [...tried, framed];
        }, [service.page, order]);
        assert.ok(!answers.includes('basic') && !answers.includes('cors') && !answers.includes('read'), `${answers}`);
        assert.ok(page.frames().every((frame) => !frame.url().startsWith(service.page)) || !await page.frameLocator('#f').locator('h1').count(), 'not framed');
      }
      const {dependency} = await service.shown({dependency: 'payments'});
      assert.equal(dependency.state, 'BREAKER_STATE_CLOSED');
      assert.equal(dependency.override, null);
    } finally {
      evil.close();
    }
  });
});
