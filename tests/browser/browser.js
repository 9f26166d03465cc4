// Chromium, as the tests use it, and what must never happen on any page.

import {mkdirSync} from 'node:fs';
import path from 'node:path';
import {chromium} from 'playwright-core';

const pictures = path.resolve(import.meta.dirname, '../../target/browser');
mkdirSync(pictures, {recursive: true});

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});

// A page whose errors, refused contents and dialogs are collected in `wrongs`.
export async function open(browser, address, options = {}) {
  const context = options.context ?? await browser.newContext({viewport: {width: 1440, height: 900}, ...options});
  const page = await context.newPage();
  page.wrongs = [];
  page.on('console', (message) => {
    const expected = /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|409 \(Conflict\)/.test(message.text());
    if (['error', 'warning'].includes(message.type()) && !expected) page.wrongs.push(message.text());
  });
  page.on('pageerror', (error) => page.wrongs.push(`${error}`));
  page.on('dialog', (dialog) => { page.wrongs.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
  });
  await page.goto(address);
  return page;
}

export const picture = (page, name, more = {}) => page.screenshot({path: path.join(pictures, `${name}.png`), ...more});
