// Five hundred texts that would be more than text on a page that lets them.

const RUNS = ['window.ran=1', 'alert(1)', 'top.ran=1', 'document.title="ran"'];
const FRAMES = [
  (run) => `<script>${run}</script>`,
  (run) => `<img src=x onerror="${run}">`,
  (run) => `<svg onload=${run}>`,
  (run) => `<svg><animate onbegin=${run} attributeName=x dur=1s>`,
  (run) => `"><script>${run}</script>`,
  (run) => `'><img src=x onerror='${run}'>`,
  (run) => `</textarea><script>${run}</script>`,
  (run) => `</title><svg/onload=${run}>`,
  (run) => `javascript:${run}`,
  (run) => `<a href="javascript:${run}">x</a>`,
  (run) => `<iframe srcdoc="<script>${run}</script>">`,
  (run) => `<details open ontoggle=${run}>`,
  (run) => `<math><mtext></form><form><mglyph><style></math><img src onerror=${run}>`,
  (run) => `<style>@import'javascript:${run}';</style>`,
  (run) => `\${${run}}{{${run}}}<%= ${run} %>#{${run}}`,
  (run) => `data:text/html,<script>${run}</script>`,
  (run) => `\n\ndata: {"rows":[]}\n\nevent: snapshot\ndata: <script>${run}</script>`,
  (run) => `\u2028\u2029</script><script>${run}</script>`,
  (run) => `\u202e<script>${run}</script>\u202c`,
  (run) => `\u0000\u001b[31m<img src=x onerror=${run}>\u001b]0;x\u0007`,
  (run) => `=cmd|' /C calc'!A0<object data="javascript:${run}">`,
  (run) => `&lt;script&gt;${run}&lt;/script&gt;&#60;script&#62;`,
  (run) => `<base href="https://evil.example/"><link rel=stylesheet href=//evil.example/x.css>`.concat(run),
  (run) => `<meta http-equiv=refresh content="0;url=javascript:${run}">`,
  (run) => `<input autofocus onfocus=${run}>`,
];
const TAILS = ['', ' ', '<!--', ']]>', '`;'];

export const TEXTS = RUNS.flatMap((run) => FRAMES.flatMap((frame) => TAILS.map((tail) => frame(run) + tail)));

// Names that a dependency may have and a page may stumble over.
export const NAMES = ['javascript:alert', '__proto__', 'constructor', 'toString', 'hasOwnProperty', '../../etc/passwd', '//evil.example/x', 'https://evil.example', '.', '..', '-', '@', ':', 'data:text/html', 'a'.repeat(200), 'NaN', 'null', 'undefined', '0', 'on', 'row-1', 'main'];
