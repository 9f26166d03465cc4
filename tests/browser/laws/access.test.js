// The dashboard of a service with TLS and an access file, as two people and a thief use it.

import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {chmodSync, mkdtempSync, readFileSync, renameSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {launch, open, picture} from '../browser.js';
import {Service, binary, scratch} from '../service.js';

let browser;
const folder = scratch();
const at = (name) => path.join(folder, name);
const tokens = {};

const made = (...words) => execFileSync('openssl', words, {cwd: folder, stdio: ['ignore', 'pipe', 'ignore']});

// An access file with those principals; it takes the place of the last one at once.
function grant(principals) {
  const entries = Object.entries(principals).map(([name, [namespace, role]]) => {
    tokens[name] ??= execFileSync(binary, ['token', 'new', '--name', name, '--grant', `${namespace}=${role}`], {encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore']});
    const hash = tokens[name].match(/sha256: (\w+)/)[1];
    return `  ${name}: {grants: {"${namespace}": [${role}]}, secrets: [{sha256: ${hash}}]}\n`;
  });
  writeFileSync(at('next.yaml'), `version: 1\ntokens:\n${entries.join('')}`);
  chmodSync(at('next.yaml'), 0o600);
  renameSync(at('next.yaml'), at('access.yaml'));
}
const ALL = {ada: ['*', 'operator'], bob: ['*', 'operator'], vic: ['default', 'viewer'], shop: ['default', 'client']};
const token = (name) => tokens[name].match(/hot_\w+/)[0];

before(async () => {
  browser = await launch();
  made('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=ca', '-keyout', 'ca.key', '-out', 'ca.pem');
  made('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=holdoff', '-keyout', 'server.key', '-out', 'server.csr');
  writeFileSync(at('names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n');
  made('x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names', '-out', 'server.pem');
  chmodSync(at('server.key'), 0o600);
});
after(async () => { await browser.close(); });

async function served(body) {
  grant(ALL);
  const tls = {authority: readFileSync(at('ca.pem')), token: token('shop')};
  const more = ['--tls-cert', at('server.pem'), '--tls-key', at('server.key'), '--access', at('access.yaml'), '--data-dir', mkdtempSync(at('data-'))];
  const service = await Service.start({more, tls});
  try {
    await body(service);
  } finally {
    for (const context of browser.contexts()) await context.close();
    await service.stop();
  }
}

async function signIn(service, name, query = {}) {
  const page = await open(browser, service.at(query), {ignoreHTTPSErrors: true});
  await page.waitForSelector('#token');
  await page.fill('#token', token(name));
  await page.click('button[type=submit]');
  return page;
}

const isWrong = (wrong) => !/status of 40[139]|ERR_CONNECTION/.test(wrong);

test('who_signs_in_over_tls_has_a_cookie_that_no_script_reads_and_no_neighbour_sets', async () => {
  await served(async (service) => {
    await service.call('payments');
    const page = await open(browser, service.page, {ignoreHTTPSErrors: true});
    await page.waitForSelector('#token');
    await page.fill('#token', 'hot_not-one-of-ours');
    await page.click('button[type=submit]');
    await page.waitForSelector('.problem:visible');
    await page.fill('#token', token('vic'));
    await page.keyboard.press('Enter');
    await page.waitForSelector('[data-name=payments]');
    const [cookie, ...others] = await page.context().cookies();
    assert.deepEqual(others, []);
    assert.equal(cookie.name, '__Host-holdoff-session');
    assert.ok(cookie.secure && cookie.httpOnly && cookie.sameSite === 'Strict' && cookie.path === '/', JSON.stringify(cookie));
    assert.equal(await page.evaluate(() => document.cookie), '');
    assert.ok(!(await page.content()).includes(token('vic')), 'the token is not kept in the page');
    // Who may only look is told so, in words.
    await page.click('[data-name=payments] a');
    await page.waitForSelector('.state-line .pill');
    await page.click('[data-action=open]');
    await page.waitForSelector('#action .problem:visible');
    assert.match(await page.locator('#action .problem').textContent(), /vic may not do this: it needs the role operator/);
    await page.keyboard.press('Escape');
    await page.click('#out');
    await page.waitForSelector('#token');
    assert.deepEqual(await page.context().cookies(), []);
    assert.deepEqual(page.wrongs.filter(isWrong), []);
  });
});

test('a_revoked_token_ends_the_page_that_it_opened_within_five_seconds', async () => {
  await served(async (service) => {
    await service.call('payments');
    const page = await signIn(service, 'vic');
    await page.waitForSelector('[data-name=payments]');
    const {vic, ...others} = ALL;
    assert.ok(vic);
    grant(others);
    const begun = Date.now();
    await page.waitForSelector('#token', {timeout: 15000});
    console.log(`asked who it is ${Date.now() - begun} ms after the file was changed`);
    assert.equal(await page.locator('.body .row').count(), 0, 'nothing of it is shown any more');
    await page.fill('#token', token('ada'));
    await page.keyboard.press('Enter');
    await page.waitForSelector('[data-name=payments]');
    assert.deepEqual(page.wrongs.filter(isWrong), []);
  });
});

test('two_clicks_are_one_order_and_of_two_operators_the_second_looks_again', async () => {
  await served(async (service) => {
    await service.call('payments');
    const query = {dependency: 'payments'};
    const [ada, bob] = [await signIn(service, 'ada', query), await signIn(service, 'bob', query)];
    for (const [page, why] of [[ada, 'ada was here'], [bob, 'bob too']]) {
      await page.waitForSelector('.state-line .pill');
      await page.click('[data-action=open]');
      await page.waitForSelector('#action .from-to');
      await page.fill('#reason', why);
    }
    let orders = 0;
    ada.on('request', (request) => { orders += request.url().endsWith('/act') ? 1 : 0; });
    // As fast as it goes: a double click, Enter, and a form that is submitted by a script.
    await ada.evaluate(() => {
      const submit = document.querySelector('#action button[type=submit]');
      submit.click();
      submit.click();
      submit.form.requestSubmit();
      submit.form.requestSubmit(submit.disabled ? null : submit);
    });
    await ada.waitForSelector('.state-line [data-state="forced open"]');
    assert.equal(orders, 1);
    await bob.waitForSelector('.state-line [data-state="forced open"]');
    await bob.click('#action button[type=submit]');
    await bob.waitForSelector('#action .problem:visible');
    assert.match(await bob.locator('#action .problem').textContent(), /has changed since you looked: it is forced open/);
    assert.ok(await bob.locator('#action .from-to').textContent().then((text) => text.startsWith('forced open')), 'the plan is made anew');
    await picture(bob, 'second-operator');
    await bob.click('#action button[type=submit]:not([disabled])');
    await bob.waitForFunction(() => !document.querySelector('#action').open);
    const signed = await ada.locator('.notices').filter({hasText: 'token:bob'}).first().textContent();
    assert.match(signed, /forced open by token:bob/);
    assert.deepEqual([...ada.wrongs, ...bob.wrongs].filter(isWrong), []);
  });
});

test('an_order_whose_answer_is_lost_is_told_as_such_and_is_not_sent_again', async () => {
  await served(async (service) => {
    await service.call('payments');
    const page = await signIn(service, 'ada', {dependency: 'payments'});
    await page.waitForSelector('.state-line .pill');
    await page.click('[data-action=open]');
    await page.waitForSelector('#action .from-to');
    await page.fill('#reason', 'the network is bad');
    let orders = 0;
    await page.route('**/dashboard/act', async (route) => { orders += 1; await route.fetch(); await route.abort('connectionreset'); });
    await page.click('#action button[type=submit]');
    await page.waitForSelector('#action .problem:visible');
    assert.match(await page.locator('#action .problem').textContent(), /does not answer. It may have been done: look/);
    await page.waitForSelector('.state-line [data-state="forced open"]');
    assert.equal(orders, 1);
    assert.deepEqual(page.wrongs.filter(isWrong), []);
  });
});
