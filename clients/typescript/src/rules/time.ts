// Times of the rules: whole nanoseconds from 0 to 2^64 - 1, as a bigint, since milliseconds in a
// double are not exact over that range and all clients must agree to the last digit. Sums
// saturate at the top, differences at 0. Everywhere else in this package a time is a number of
// milliseconds, as `setTimeout` has it; the two meet in `nanosOf` and `millisOf`.

export type Nanos = bigint;

export const NANOS_MAX: Nanos = 2n ** 64n - 1n;
const TWO_64 = 2 ** 64;

export const SECOND: Nanos = 1_000_000_000n;
export const MILLISECOND: Nanos = 1_000_000n;

export function add(a: Nanos, b: Nanos): Nanos {
  const sum = a + b;
  return sum > NANOS_MAX ? NANOS_MAX : sum;
}

export function multiply(a: Nanos, b: bigint): Nanos {
  const product = a * b;
  return product > NANOS_MAX ? NANOS_MAX : product;
}

export function subtract(a: Nanos, b: Nanos): Nanos {
  return a > b ? a - b : 0n;
}

export function min(a: Nanos, b: Nanos): Nanos {
  return a < b ? a : b;
}

export function max(a: Nanos, b: Nanos): Nanos {
  return a > b ? a : b;
}

/** By truncation: no number and negatives are 0, 2^64 and above is 2^64 - 1. */
export function fromDouble(value: number): Nanos {
  if (!(value > 0)) return 0n;
  return value >= TWO_64 ? NANOS_MAX : BigInt(Math.trunc(value));
}

/** This part of a time, truncated. `unit` is first clamped to 0 to 1. */
export function part(nanos: Nanos, unit: number): Nanos {
  return fromDouble(Number(nanos) * Math.min(Math.max(unit, 0), 1));
}

/** By squaring, in this order: it decides the last digit. */
export function power(base: number, exponent: number): number {
  let product = 1;
  let square = base;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) product *= square;
    square *= square;
  }
  return product;
}

/** Infinity is the longest time, no number and negatives are none. */
export function nanosOf(millis: number): Nanos {
  if (!(millis > 0)) return 0n;
  if (millis >= TWO_64 / 1e6) return NANOS_MAX;
  const whole = Math.trunc(millis);
  return min(BigInt(whole) * MILLISECOND + BigInt(Math.round((millis - whole) * 1e6)), NANOS_MAX);
}

/** The longest time is Infinity. */
export function millisOf(nanos: Nanos): number {
  if (nanos >= NANOS_MAX) return Number.POSITIVE_INFINITY;
  return Number(nanos / MILLISECOND) + Number(nanos % MILLISECOND) / 1e6;
}
