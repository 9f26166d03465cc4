// The vectors of tests/vectors, which all clients share: reading them, and strictly. A field that a
// test does not know fails it, since a misspelt one would check nothing.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

export type Json = { [name: string]: Json } & { [index: number]: Json } & unknown;

export const repository = findRepository();

function findRepository(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "proto/holdoff/v1"))) folder = dirname(folder);
  return folder;
}

/** Runs each vector of a file, of which there are at least so many. */
export function vectors<V extends { name: string }>(
  file: string,
  atLeast: number,
  check: (vector: V) => void,
): void {
  test(`${file} vectors`, () => {
    const text = readFileSync(join(repository, "tests/vectors", `${file}.json`), "utf8");
    const all = (JSON.parse(text) as { vectors: V[] }).vectors;
    assert.ok(all.length >= atLeast, `${file} has ${all.length} vectors`);
    const failures: string[] = [];
    for (const vector of all) {
      try {
        check(vector);
      } catch (error) {
        failures.push(`${vector.name}: ${(error as Error).message}`);
      }
    }
    assert.equal(
      failures.length,
      0,
      `${failures.length} of ${all.length}\n${failures.slice(0, 5).join("\n")}`,
    );
  });
}

/** Fails for fields that are none of these. */
export function only(object: object, ...names: string[]): void {
  const odd = Object.keys(object).filter((name) => !names.includes(name));
  assert.deepEqual(odd, [], "unknown fields");
}

export function text(nanos: bigint | null): string | null {
  return nanos === null ? null : nanos.toString();
}

export function nanos(value: string | null | undefined): bigint | null {
  return value === null || value === undefined ? null : BigInt(value);
}

/** Numbers for which JSON has no sign are written as text. */
export function number(value: number | string): number {
  return Number(value);
}
