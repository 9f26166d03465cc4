// Numbers and times as people read them. Times on the wire are the service's clock in
// milliseconds since 1970; `clock` knows how far this computer's is from it.

export const clock = {
  ahead: 0,
  now() { return Date.now() + this.ahead; },
  set(theirs) { this.ahead = theirs - Date.now(); },
};

export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes < 10 && seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

export const age = (since) => span(clock.now() - since);
export const left = (until) => span(until - clock.now());

const time = new Intl.DateTimeFormat(undefined, {hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});
const date = new Intl.DateTimeFormat(undefined, {month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23'});

export function at(ms) {
  const far = Math.abs(clock.now() - ms) > 12 * 3600 * 1000;
  return (far ? date : time).format(new Date(ms));
}

const whole = new Intl.NumberFormat('en');
const few = new Intl.NumberFormat('en', {maximumSignificantDigits: 3});

export const count = (number) => whole.format(number);
export const rate = (number) => (number ? few.format(number) : '0');
export const share = (part) => (part === 0 ? '0 %' : part < 0.001 ? '< 0.1 %' : `${few.format(part * 100)} %`);
// While a breaker is not closed, the shares are those of the calls that opened it.
export const ofTrip = (row) => ['open', 'half-open'].includes(row.shadow ?? row.state);
export const failing = (row) => (ofTrip(row) && !row.failing && !row.slow ? '–' : share(row.failing ?? 0));
export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;
