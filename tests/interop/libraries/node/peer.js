// Locks of npm's libraries, driven over stdin with the protocol of ../../java/src/main/java/pyredisson/Peer.java.
//
// The verb is the library, the arguments are the address of the server and the name. Each request has a connection, acquires
// the lock as the library does by default, waiting, and keeps it.
'use strict';

const readline = require('readline');
const Redis = require('ioredis');
const Redlock4 = require('redlock');
const { default: Redlock5 } = require('redlock-5');
const { Mutex, Semaphore } = require('redis-semaphore');
const { createLock, IoredisAdapter } = require('redlock-universal');

const LEASE = 60000; // ms
const patient = { lockTimeout: LEASE, acquireTimeout: LEASE, onLockLost: () => {} };

const libraries = {
  'redlock-4': (client, name) => new Redlock4([client], { retryCount: -1 }).lock(name, LEASE),
  'redlock-5': (client, name) => new Redlock5([client], { retryCount: -1 }).acquire([name], LEASE),
  'redis-semaphore-mutex': (client, name) => new Mutex(client, name, patient).acquire(),
  'redis-semaphore': (client, name) => new Semaphore(client, name, 1, patient).acquire(),
  'redlock-universal': (client, name) =>
    createLock({ adapter: new IoredisAdapter(client), key: name, ttl: LEASE, retryAttempts: 600 }).acquire(),
};

async function answer([id, , library, address, name]) {
  const [host, port] = address.split(':');
  try {
    await libraries[library](new Redis({ host, port: Number(port) }), name);
    console.log(`${id}\tok\tbtrue`);
  } catch (error) {
    console.log(`${id}\terror\t${error.constructor.name}\t${encodeURIComponent(error.message)}`);
  }
}

const lines = readline.createInterface({ input: process.stdin });
lines.on('line', (line) => answer(line.split('\t').map(decodeURIComponent)));
lines.on('close', () => process.exit(0)); // Like a crash: locks stay held until they expire.
