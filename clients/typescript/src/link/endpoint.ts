// Where the service is, as a user writes it (docs/client-states.md, Settings). Read by hand rather than
// by `URL`, which forgets a port that is the scheme's own and takes much that is no endpoint.

import { isIPv6 } from "node:net";

export interface Endpoint {
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
  /** `host:port`. */
  readonly authority: string;
  readonly isEncrypted: boolean;
}

export const ENDPOINT_ALLOWED = "it must be http://host:port, https://host:port or host:port";

const DEFAULT_PORT = 7460;
const PORT_MAX = 65_535;
const FORM = /^(?:(https?):\/\/)?(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?(\/?)$/;

/** `null`: it is none. */
export function readEndpoint(text: unknown): Endpoint | null {
  const read = typeof text === "string" && !/\s/.test(text) ? FORM.exec(text.toLowerCase()) : null;
  if (read === null) return null;
  const [, scheme, address, name = "", digits, slash] = read;
  if (address !== undefined && !isIPv6(address)) return null;
  // Without a scheme a lone word is a mistake more often than a host, and what has a path is none.
  if (scheme === undefined && (digits === undefined || slash !== "")) return null;
  const port = digits === undefined ? DEFAULT_PORT : Number(digits);
  if (port < 1 || port > PORT_MAX) return null;
  const host = address ?? name;
  const authority = `${address === undefined ? host : `[${host}]`}:${port}`;
  return { host, port, authority, isEncrypted: scheme === "https" };
}
