// Makes the messages of src/gen from the contract in proto/. Needs nothing but the packages of
// `npm ci`: protoc comes as one of them. With a folder as argument they are made there instead.

import { execFileSync } from "node:child_process";
import { mkdirSync, realpathSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const proto = fileURLToPath(new URL("../../../proto", import.meta.url));
const bin = realpathSync(new URL("../node_modules/.bin", import.meta.url));
const out = process.argv[2] ?? fileURLToPath(new URL("../src/gen", import.meta.url));
const files = ["google/rpc/status.proto", "holdoff/v1/coordinator.proto", "holdoff/v1/operator.proto"];

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
execFileSync(
  `${bin}/protoc`,
  [
    `--plugin=protoc-gen-es=${bin}/protoc-gen-es`,
    `--proto_path=${proto}`,
    `--es_out=${out}`,
    "--es_opt=target=ts,import_extension=js",
    ...files,
  ],
  { stdio: "inherit" },
);
