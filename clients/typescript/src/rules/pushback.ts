// What a dependency says about when to come back.
//
// Two headers carry it, and the same number means different things in them. HTTP's `Retry-After`
// (RFC 9110, 10.2.3) is a whole number of seconds or a date; anything else is no instruction.
// gRPC's `grpc-retry-pushback-ms` (gRFC A6) is a whole number of milliseconds; anything else
// says "do not retry". `Date.parse` is not used: it takes dates that HTTP does not know.

import { MILLISECOND, min, NANOS_MAX, type Nanos, SECOND } from "./time.js";

const DIGITS = /^[0-9]+$/;
const EDGES = /^[ \t]+|[ \t]+$/g;

/**
 * A date counts from `date`, the response's own, where that can be read, else from the wall
 * clock; a past one is 0. `null`: no instruction.
 */
export function parseRetryAfter(value: string, date: string | null, wallSeconds: number): Nanos | null {
  const text = value.replace(EDGES, "");
  if (DIGITS.test(text)) return min(BigInt(text) * SECOND, NANOS_MAX);
  const then = parseHttpDate(text, wallSeconds);
  if (then === null) return null;
  const told = date === null ? null : parseHttpDate(date.replace(EDGES, ""), wallSeconds);
  return BigInt(Math.max(then - (told ?? wallSeconds), 0)) * SECOND;
}

/** Decimal, no sign, no leading zero, at most 2^31 - 1. `null`: do not retry. */
export function parseGrpcPushback(value: string): Nanos | null {
  const isCanonical = value === "0" || !value.startsWith("0");
  if (!isCanonical || !DIGITS.test(value) || value.length > 10) return null;
  const millis = Number(value);
  return millis < 2 ** 31 ? BigInt(millis) * MILLISECOND : null;
}

const SHORT_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const LONG_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)";
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = "(?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-9]{2})";

/** The three forms of RFC 9110, 5.6.7. */
const FORMS = [
  new RegExp(`^${SHORT_DAY}, (?<day>[0-9]{2}) ${MONTH} (?<year>[0-9]{4}) ${TIME} GMT$`),
  new RegExp(`^${LONG_DAY}, (?<day>[0-9]{2})-${MONTH}-(?<year>[0-9]{2}) ${TIME} GMT$`),
  new RegExp(`^${SHORT_DAY} ${MONTH} (?<day>[0-9]{2}| [0-9]) ${TIME} (?<year>[0-9]{4})$`),
];

/** As seconds since 1970; `null`: it is none. */
function parseHttpDate(text: string, wallSeconds: number): number | null {
  for (const form of FORMS) {
    const fields = form.exec(text)?.groups;
    if (fields !== undefined) return instant(fields, wallSeconds);
  }
  return null;
}

function instant(fields: Record<string, string>, wallSeconds: number): number | null {
  const number = (name: string) => Number(fields[name]);
  const month = MONTHS.indexOf(fields["month"] ?? "");
  const [day, hour, minute, second] = [number("day"), number("hour"), number("minute"), number("second")];
  const year = fields["year"]?.length === 2 ? fullYear(number("year"), wallSeconds) : number("year");
  const midnight = new Date(0);
  // Not `Date.UTC`, which takes the years 0 to 99 for others.
  midnight.setUTCFullYear(year, month, day);
  const isDay = midnight.getUTCMonth() === month && midnight.getUTCDate() === day;
  const isTime = hour < 24 && minute < 60 && second <= 60;
  if (!isDay || !isTime) return null;
  return midnight.getTime() / 1000 + hour * 3600 + minute * 60 + second;
}

const SECONDS_IN_A_YEAR = 31_556_952;

/** A year that would lie more than 50 years ahead is a century back. */
function fullYear(twoDigits: number, wallSeconds: number): number {
  const thisYear = 1970 + Math.floor(wallSeconds / SECONDS_IN_A_YEAR);
  const year = 2000 + twoDigits;
  return year > thisYear + 50 ? year - 100 : year;
}
