// What open dashboards cost those that ask: one service, loaded in turns with and without a hundred
// open streams, a thousand dependencies asked about. Prints the ratio of each pair of turns.
//
//   node cost.js [pages] [rounds] [seconds]       HOLDOFF_BINARY names a release build

import {execFile} from 'node:child_process';
import http from 'node:http';
import path from 'node:path';
import {promisify} from 'node:util';
import {Service} from './service.js';

const [pages, rounds, seconds] = [100, 5, 4].map((usual, at) => Number(process.argv[at + 2] ?? usual));
const binary = process.env.HOLDOFF_BINARY ?? path.resolve(import.meta.dirname, '../../target/debug/holdoff');
const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

const service = await Service.start({more: ['--workers', '1']});

async function load() {
  const {stdout} = await promisify(execFile)(binary, ['bench', '--server', `http://${service.grpc}`, '--report', '--dependencies', '1000', '--duration', `${seconds}s`, '--warmup', '1s', '--server-pid', `${service.process.pid}`, '--output', 'json']);
  const figures = JSON.parse(stdout);
  return {rate: figures.requests_per_second, cpu: figures.server_cpu_micros_per_request};
}

function open() {
  return Promise.all(Array.from({length: pages}, () => new Promise((done, fail) => {
    const agent = new http.Agent({maxSockets: 1});
    const request = http.get({host: '127.0.0.1', port: service.http.split(':')[1], path: '/dashboard/stream', agent}, (answer) => {
      answer.on('data', () => {});
      answer.on('error', () => {});
      done(request);
    });
    request.on('error', fail);
  })));
}

try {
  const [ratios, costs] = [[], []];
  await load();
  for (let round = 0; round < rounds; round++) {
    const without = await load();
    const streams = await open();
    const withThem = await load();
    streams.forEach((request) => { request.on('error', () => {}); request.destroy(); });
    ratios.push(withThem.rate / without.rate);
    costs.push(withThem.cpu / without.cpu);
    console.log(`without ${Math.round(without.rate)}/s, ${without.cpu.toFixed(2)} µs of the server; with ${pages} open pages ${Math.round(withThem.rate)}/s, ${withThem.cpu.toFixed(2)} µs`);
  }
  console.log(`medians of the ratios: ${median(ratios).toFixed(3)} of the calls a second, ${median(costs).toFixed(3)} of the server's processor time a call`);
} finally {
  await service.stop();
}
