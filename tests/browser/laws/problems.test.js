// What an address asks for and cannot have, and what an outage looks like, in a real browser.

import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import axe from 'axe-core';
import {launch, open, picture} from '../browser.js';
import {Service} from '../service.js';

let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

async function served(body) {
  const service = await Service.start();
  try {
    await body(service);
  } finally {
    for (const context of browser.contexts()) await context.close();
    await service.stop();
  }
}

const unexpected = (page) => page.wrongs.filter((wrong) => !/status of 40[04]/.test(wrong));

async function sound(page, what) {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => (await window.axe.run(document, {resultTypes: ['violations']})).violations
    .filter((violation) => ['serious', 'critical'].includes(violation.impact)).map((violation) => violation.id));
  assert.deepEqual(found, [], what);
}

test('what_an_address_cannot_have_is_said_in_style_with_a_way_back', async () => {
  await served(async (service) => {
    await service.call('payments');
    const root = service.page;
    for (const [address, said] of [
      [`${root}?namespace=no%20such`, /^namespace: "no such" is not allowed/],
      [`${root}?namespace=nowhere`, /^there is no namespace `nowhere`$/],
      [`${root}?dependency=%3Cb%3E`, /^dependency: "<b>" is not allowed/],
      [`${root}nothing`, /^there is no page "\/dashboard\/nothing" here$/],
      [`${root}history?dependency=a&dependency=b`, /^query: duplicate field `dependency`$/],
      [`${root}stream?namespace=nowhere`, /^there is no namespace `nowhere`$/],
    ]) {
      const page = await open(browser, address);
      await page.waitForFunction(() => /allowed|there is no|query:/.test(document.getElementById('problem')?.textContent ?? ''));
      assert.match(await page.locator('#problem').textContent(), said, address);
      assert.equal(await page.locator('h1').textContent(), 'This cannot be shown', address);
      assert.equal(await page.locator('#stale:visible').count(), 0, 'it is not silent, so not stale');
      await sound(page, address);
      await picture(page, 'problem');
      await page.click('main a');
      await page.waitForSelector('.body .row[data-name=payments]');
      assert.deepEqual(unexpected(page), [], address);
      await page.context().close();
    }
  });
});

test('a_filter_or_an_order_that_there_is_not_is_said_and_the_rest_of_the_address_holds', async () => {
  await served(async (service) => {
    await service.call('payments');
    const page = await open(browser, service.at({sort: 'bogus', states: 'closed,wrong', search: 'pay'}));
    await page.waitForSelector('.body .row[data-name=payments]');
    const wrong = await page.locator('#wrong').textContent();
    assert.match(wrong, /states: "wrong" is not allowed; open, forced open/);
    assert.match(wrong, /sort: "bogus" is not allowed; state, name/);
    assert.equal(await page.locator('.chip[data-state=closed]').getAttribute('aria-pressed'), 'true');
    assert.equal(await page.inputValue('#search'), 'pay');
    await sound(page, 'with what is wrong');
    await page.click('#wrong a');
    await page.waitForSelector('#wrong', {state: 'detached'});
    assert.equal(await page.inputValue('#search'), '');
    assert.deepEqual(page.wrongs, []);
  });
});

test('in_an_outage_the_list_says_what_opened_the_breaker_and_that_no_calls_come', async () => {
  await served(async (service) => {
    for (let call = 0; call < 20; call++) await service.call('payments');
    const page = await open(browser, service.page);
    await page.waitForSelector('.body .row[data-name=payments]');
    const cell = (name) => page.locator(`.body .row[data-name=payments] .${name}`).textContent();
    assert.match(await cell('failing'), /^0 %/);
    for (let call = 0; call < 5; call++) await service.call('payments', 'OUTCOME_KIND_FAILURE');
    await page.waitForFunction(() => document.querySelector('[data-name=payments] .pill')?.textContent === 'open');
    assert.match(await cell('failing'), /^100 %at the trip/);
    assert.match(await cell('why'), /5 of 5 calls failed/);
    // The budget's window is ten seconds.
    await page.waitForFunction(() => document.querySelector('[data-name=payments] .calls .first')?.textContent === '0', null, {timeout: 15000});
    assert.match(await cell('failing'), /^100 %at the trip/);
    await page.click('[data-name=payments] a');
    await page.waitForFunction(() => /5 of 5 calls at the trip/.test(document.querySelector('main').textContent));
    assert.deepEqual(page.wrongs, []);
  });
});
