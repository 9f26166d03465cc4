// A service in a thread of its own, which grants everything.

import { parentPort } from "node:worker_threads";
import { Scripted } from "./server.js";

const service = await Scripted.start();
parentPort?.postMessage(service.endpoint);
