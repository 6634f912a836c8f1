// Locks of node-redlock, driven over stdin with the protocol of ../../java/src/main/java/pyredisson/Peer.java.
//
// Each "thread" of a request does one thing after another, and is an owner. Arguments are URL-encoded, and carry no
// letter of their type.
'use strict';

const readline = require('readline');
const Redis = require('ioredis');
const Redlock = require('redlock');

const owners = new Map();
const clock = () => process.hrtime.bigint(); // That of Python's time.monotonic_ns().
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Connect, or begin to try: commands to a dead node fail at once instead of waiting for it. */
function open(address) {
  const [host, port] = address.split(':');
  const client = new Redis({ host, port: Number(port), enableOfflineQueue: false });
  return new Promise((resolve) => {
    client.on('error', () => resolve(client)).on('ready', () => resolve(client));
  });
}

/** Whether it did not fail with what the library raises if a lock is another's. */
async function succeeds(promise) {
  try {
    await promise;
    return true;
  } catch (error) {
    if (error instanceof Redlock.LockError) return false;
    throw error;
  }
}

class Owner {
  constructor() {
    this.last = Promise.resolve();
    this.held = new Map();
  }

  async perform(verb, args) {
    const [name, lease] = args;
    switch (verb) {
      case 'clock':
        return `l${clock()}`;
      case 'connect': {
        const clients = await Promise.all(args.map(open));
        this.once = new Redlock(clients, { retryCount: 0 });
        // Retries follow each other faster than by default.
        this.patient = new Redlock(clients, { retryCount: -1, retryDelay: 6, retryJitter: 5 });
        return 'n';
      }
      case 'lock':
      case 'try_lock': {
        const locks = verb === 'lock' ? this.patient : this.once;
        const taking = locks.lock(name, Number(lease)).then((lock) => this.held.set(name, { lock, lease: Number(lease) }));
        return `b${await succeeds(taking)}`;
      }
      case 'unlock':
        return `b${await succeeds(this.once.unlock(this.held.get(name).lock))}`;
      case 'extend':
        return `b${await succeeds(this.once.extend(this.held.get(name).lock, this.held.get(name).lease))}`;
      case 'value':
        return `s${encodeURIComponent(this.held.get(name).lock.value)}`;
      case 'contend':
        return `a${await this.contend(...args)}`;
      default:
        throw new Error(`unknown verb ${verb}`);
    }
  }

  /** As contend() in ../../contention.py. */
  async contend(name, lease, address, counter, wanted, hold, rest) {
    const client = await open(address);
    const times = [];
    await client.incr(`${counter}:here`);
    while (!(await client.exists(`${counter}:begin`))) await sleep(1);
    for (;;) {
      const lock = await this.patient.lock(name, Number(lease));
      const entered = clock();
      const value = Number(await client.get(counter));
      const twin = Number(await client.get(`${counter}:twin`));
      if (value !== twin) throw new Error(`another owner is inside: ${value}, then ${twin}`);
      const over = value >= Number(wanted) && times.length > 0;
      if (!over) {
        await client.set(counter, value + 1);
        await sleep(hold / 1e6);
        await client.set(`${counter}:twin`, value + 1);
        times.push(entered, clock());
      }
      await lock.unlock();
      if (over) {
        client.disconnect();
        return times.join(',');
      }
      await sleep((Math.random() * 2 * rest) / 1e6);
    }
  }

  async answer([id, , verb, ...args]) {
    try {
      console.log(`${id}\tok\t${await this.perform(verb, args)}`);
    } catch (error) {
      console.log(`${id}\terror\t${error.constructor.name}\t${encodeURIComponent(error.message)}`);
    }
  }
}

const lines = readline.createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const request = line.split('\t').map(decodeURIComponent);
  if (!owners.has(request[1])) owners.set(request[1], new Owner());
  const owner = owners.get(request[1]);
  owner.last = owner.last.then(() => owner.answer(request));
});
lines.on('close', () => process.exit(0)); // Like a crash: locks stay held until they expire.
