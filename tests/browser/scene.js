// A fleet in trouble, to be looked at: one dependency in each state, and some that are quiet.

export const POLICIES = `
version: 1
namespaces:
  default:
    dependencies:
      payments: {breaker: {open_for: 30s, open_max: 60s}}
      search: {breaker: {detect: window, window: 10s, min_calls: 20, failure_ratio: 0.9, slow_after: 15ms, slow_ratio: 1.0}}
      recommendations/eu: {breaker: {open_for: 1s, open_max: 1s, spread: 0ms, probe_successes: 1, min_reporters: 1}, ramp: {start: 0.1, step: 10s}}
      ledger: {breaker: {open_for: 1s, open_max: 1s, spread: 0ms}}
      "openai:*": {pushback: {scope: dependency, max: 10m}, budget: {ratio: 0.5, floor_per_second: 5}}
`;

const callers = Array.from({length: 5}, (_, at) => ({service: at % 2 ? 'shop' : 'checkout', instance: `node-${at + 1}`}));

export async function play(service) {
  const quiet = ['auth', 'auth/eu-west-1', 'billing', 'cart', 'email:smtp', 'geo', 'images', 'inventory', 'notifications', 'pricing', 'profile', 'reviews', 'shipping', 'stock', 'tax', 'users'];
  await service.fill(quiet, callers[0]);
  await service.fill(quiet.slice(0, 9), callers[1]);
  for (let call = 0; call < 60; call++) {
    await service.call('search', call % 6 ? 'OUTCOME_KIND_SUCCESS' : 'OUTCOME_KIND_TIMEOUT', callers[call % 5]);
    await service.call('recommendations/eu', 'OUTCOME_KIND_SUCCESS', callers[call % 5]);
    await service.call('openai:gpt:account-7', 'OUTCOME_KIND_SUCCESS', callers[call % 5]);
  }
  for (let call = 0; call < 24; call++) await service.retry('search', callers[call % 5]);
  await service.trip('payments');
  for (let call = 0; call < 9; call++) await service.acquire({dependency: 'payments', attempt: 1, caller: callers[call % 5]});
  await service.trip('ledger');
  await service.trip('recommendations/eu');
  await service.force({dependency: 'cart', kind: 'OVERRIDE_KIND_FORCE_OPEN', owner: 'ana', reason: 'INC-2041: cart corrupts orders', expires_in: {seconds: 1800, nanos: 0}});
  await service.force({dependency: 'tax', kind: 'OVERRIDE_KIND_FORCE_CLOSED', owner: 'li', reason: 'false alarms since the deploy'});
  const {grant} = await service.acquire({dependency: 'openai:gpt:account-7', attempt: 1, caller: callers[0]});
  await service.report({caller: callers[0], entries: [{result: {permit: grant.permit, outcome: {kind: 'OUTCOME_KIND_THROTTLED', pushback: {seconds: 120, nanos: 0}, status_code: 429}}}]});
  await new Promise((done) => setTimeout(done, 1400));
  await service.call('recommendations/eu', 'OUTCOME_KIND_SUCCESS', callers[0]);
}
