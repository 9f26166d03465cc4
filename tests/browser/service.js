// The built service, driven as its clients drive it: a process, its gRPC port, its pages.

import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {createInterface} from 'node:readline';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const root = path.resolve(import.meta.dirname, '../..');
export const binary = process.env.HOLDOFF_BINARY ?? path.join(root, 'target/debug/holdoff');
const protos = path.join(root, 'proto');
const found = loader.loadSync(['holdoff/v1/coordinator.proto', 'holdoff/v1/operator.proto'], {
  includeDirs: [protos], keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true,
});
const {holdoff} = grpc.loadPackageDefinition(found);

const called = (client, method, metadata) => (request) => new Promise((done, fail) => {
  client[method](request, metadata, {deadline: Date.now() + 30000}, (error, answer) => (error ? fail(error) : done(answer)));
});

// A folder of its own, gone with this process.
export function scratch() {
  const folder = mkdtempSync(path.join(tmpdir(), 'holdoff-browser-'));
  process.on('exit', () => rmSync(folder, {recursive: true, force: true}));
  return folder;
}

export class Service {
  static async start({policies = 'version: 1\n', http = '127.0.0.1:0', listen = '127.0.0.1:0', more = [], tls = null} = {}) {
    const file = path.join(scratch(), 'policies.yaml');
    writeFileSync(file, policies);
    const service = new Service();
    service.file = file;
    service.process = spawn(binary, ['serve', '--listen', listen, '--http', http, '--policies', file, ...more], {stdio: ['ignore', 'pipe', 'inherit'], env: {...process.env, RUST_LOG: 'warn'}});
    const lines = createInterface({input: service.process.stdout});
    for await (const line of lines) {
      service.grpc = line.match(/gRPC on (.*)/)?.[1] ?? service.grpc;
      service.http = line.match(/HTTP on (.*)/)?.[1] ?? service.http;
      if (service.grpc && service.http) break;
    }
    const credentials = tls ? grpc.credentials.createSsl(tls.authority) : grpc.credentials.createInsecure();
    const metadata = new grpc.Metadata();
    if (tls) metadata.set('authorization', `Bearer ${tls.token}`);
    const coordinator = new holdoff.v1.CoordinatorService(service.grpc, credentials);
    const operator = new holdoff.v1.OperatorService(service.grpc, credentials);
    service.acquire = called(coordinator, 'Acquire', metadata);
    service.report = called(coordinator, 'Report', metadata);
    service.force = called(operator, 'SetOverride', metadata);
    service.shown = called(operator, 'GetDependency', metadata);
    service.put = called(operator, 'PutPolicy', metadata);
    service.clients = [coordinator, operator];
    service.page = `${tls ? 'https' : 'http'}://${service.http}/dashboard/`;
    return service;
  }

  // The page of the list, or of a dependency.
  at(query = {}) {
    return `${this.page}?${new URLSearchParams(query)}`;
  }

  // A call of a dependency by an instance, and its end.
  async call(dependency, kind = 'OUTCOME_KIND_SUCCESS', caller = {service: 'shop', instance: 'shop-1'}) {
    const {grant} = await this.acquire({dependency, attempt: 1, caller});
    if (!grant) return false;
    await this.report({caller, entries: [{result: {permit: grant.permit, outcome: {kind, latency: {seconds: 0, nanos: 2e7}}}}]});
    return true;
  }

  // A retry that waits: it holds a place in the calendar and a token.
  async retry(dependency, caller = {service: 'shop', instance: 'shop-1'}) {
    const {grant} = await this.acquire({dependency, attempt: 1, caller});
    if (!grant) return null;
    return this.acquire({
      dependency, attempt: 2, caller, safety: 'SAFETY_IDEMPOTENT',
      previous: {permit: grant.permit, outcome: {kind: 'OUTCOME_KIND_FAILURE'}},
    });
  }

  async trip(dependency) {
    for (let call = 0; call < 30; call++) {
      if (!await this.call(dependency, 'OUTCOME_KIND_FAILURE')) return;
    }
    throw new Error(`${dependency} did not open`);
  }

  // Tallies for many dependencies at once make them live.
  async fill(names, caller = {service: 'shop', instance: 'shop-1'}) {
    for (let at = 0; at < names.length; at += 400) {
      const entries = names.slice(at, at + 400).map((dependency, index) => ({
        tally: {dependency, first_attempts: 10 + index % 90, successes: 9 + index % 80, failures: index % 3 ? 0 : 1},
      }));
      await this.report({caller, entries});
    }
  }

  async stop(signal = 'SIGTERM') {
    this.clients.forEach((client) => client.close());
    if (this.process.exitCode !== null || this.process.signalCode) return;
    const ended = new Promise((done) => this.process.once('exit', done));
    this.process.kill(signal);
    await ended;
  }
}
