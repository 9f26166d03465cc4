// Says why an address cannot be shown. The page is the same for all that is wrong; what is wrong is
// asked for once more, as a program would, and goes in as text.

import {write} from './elements.js';

const left = new AbortController();
try {
  const answer = await fetch(location.href, {headers: {Accept: 'application/json'}, signal: left.signal});
  const body = answer.ok ? {problem: 'It can be shown to programs; it is no page.'} : await answer.json();
  if (body.problem) write(document.getElementById('problem'), body.problem);
} catch { /* What the page says already holds. */ }
left.abort();
