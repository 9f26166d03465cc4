// What a client takes as an endpoint and as a name, and what `holdoffFetch` takes a request for.

import assert from "node:assert/strict";
import { nameOf, readRequest } from "../../src/fetch.js";
import { readEndpoint } from "../../src/link/endpoint.js";
import { isName } from "../../src/options.js";
import { only, vectors } from "./files.js";

interface SettingVector {
  name: string;
  endpoint?: string;
  text?: string;
  request?: { method: string; url: string; headers: [string, string][] };
  expected: object;
}

vectors<SettingVector>("settings", 100, ({ endpoint, text, request, expected, ...rest }) => {
  only(rest, "name");
  if (endpoint !== undefined) {
    const read = readEndpoint(endpoint);
    const address = read && { host: read.host, port: read.port, encrypted: read.isEncrypted };
    assert.deepEqual({ address }, expected);
  } else if (text !== undefined) {
    assert.deepEqual({ taken: isName(text) }, expected);
  } else {
    assert.ok(request !== undefined);
    only(request, "method", "url", "headers");
    const { method, url, headers } = request;
    assert.deepEqual({ dependency: nameOf(new URL(url)), safety: safetyOf(method, headers) }, expected);
  }
});

function safetyOf(method: string, headers: [string, string][]): string {
  const { isIdempotent, hasKey } = readRequest("http://x/", { method, headers });
  return hasKey ? "keyed" : isIdempotent ? "idempotent" : "unsafe";
}
