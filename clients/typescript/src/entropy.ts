// The only source of random numbers: the operating system's generator, read ahead in blocks so that
// a draw costs nanoseconds. A worker or a forked process has blocks of its own.

import { getRandomValues } from "node:crypto";

const block = new Uint32Array(256);
let next = block.length;

function draw(): number {
  if (next === block.length) {
    getRandomValues(block);
    next = 0;
  }
  return block[next++] ?? 0;
}

/** Uniform in [0, 1), with all 53 bits of a double. */
export function unit(): number {
  return ((draw() >>> 5) * 2 ** 26 + (draw() >>> 6)) / 2 ** 53;
}

/** Sixteen hexadecimal digits. */
export function name(): string {
  return draw().toString(16).padStart(8, "0") + draw().toString(16).padStart(8, "0");
}

/** 0 to 2^64 - 1. */
export function number(): bigint {
  return (BigInt(draw()) << 32n) | BigInt(draw());
}
