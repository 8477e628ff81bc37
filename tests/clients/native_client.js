// A tour of npm's package zookeeper, the C client in Node, with two sessions of one process.
//
//     NODE_PATH=build/node/node_modules node native_client.js tour 127.0.0.1:2181 3>&1
//
// `survive` sets a znode once for each line of its input, and ends when that ends; it tries again
// while no server takes it. A step that does not do what it must throws.

'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const readline = require('node:readline');
const ZooKeeper = require('zookeeper');

const { constants } = ZooKeeper;
const { ZOO_EPHEMERAL, ZOO_PERSISTENT, ZOO_PERSISTENT_SEQUENTIAL } = constants;

function say(text) {
  fs.writeSync(3, `${text}\n`); // the standard output is the C client's
}

function open(hosts) {
  const options = {
    connect: hosts,
    timeout: 30000,
    debug_level: constants.ZOO_LOG_LEVEL_ERROR,
    host_order_deterministic: false,
  };
  const client = new ZooKeeper(options);
  return new Promise((resolve, reject) => {
    client.connect(options, (error) => (error ? reject(error) : resolve(client)));
  });
}

async function readAndWrite(client) {
  assert.strictEqual(await client.create('/native', 'one', ZOO_PERSISTENT), '/native');
  await assert.rejects(client.create('/native', '', ZOO_PERSISTENT));
  const [stat, data] = await client.get('/native', false);
  assert.deepStrictEqual([stat.version, stat.dataLength, data.toString()], [0, 3, 'one']);
  assert.strictEqual((await client.set('/native', 'two', 0)).version, 1);
  await assert.rejects(client.set('/native', 'three', 0));
  const path = await client.create('/native/s-', '', ZOO_PERSISTENT_SEQUENTIAL);
  assert.strictEqual(path, '/native/s-0000000000');
  assert.deepStrictEqual(await client.get_children('/native', false), ['s-0000000000']);
  await assert.rejects(client.delete_('/native', -1));
  await assert.rejects(client.exists('/native/missing', false));
  assert.strictEqual((await client.get_acl('/native'))[0][0].scheme, 'world');
}

async function watch(watcher, writer) {
  const changed = new Promise((resolve) => {
    watcher.w_get('/native', (type, state, path) => resolve([type, path]));
  });
  await watcher.exists('/native', false);
  await writer.set('/native', 'three', 1);
  assert.deepStrictEqual(await changed, [constants.ZOO_CHANGED_EVENT, '/native']);
  const listed = new Promise((resolve) => {
    watcher.w_get_children('/native', (type, state, path) => resolve([type, path]));
  });
  await watcher.exists('/native', false);
  await writer.create('/native/w', '', ZOO_EPHEMERAL);
  assert.deepStrictEqual(await listed, [constants.ZOO_CHILD_EVENT, '/native']);
}

async function tour(hosts) {
  const client = await open(hosts);
  const other = await open(hosts);
  await readAndWrite(client);
  await watch(other, client);
  other.close();
  client.close();
}

async function survive(hosts) {
  const client = await open(hosts);
  await client.create('/survives-native', '', ZOO_EPHEMERAL);
  const [first] = await client.get('/survives-native', false);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    for (let isDone = false; !isDone;) {
      try {
        await client.set('/survives-native', line, -1);
        isDone = true;
      } catch (error) {
        assert.match(String(error), /connection loss|operation timeout/);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
    say(`set ${line}`);
  }
  const [last] = await client.get('/survives-native', false);
  assert.strictEqual(last.ephemeralOwner, first.ephemeralOwner);
  client.close();
}

(process.argv[2] === 'tour' ? tour : survive)(process.argv[3]).then(
  () => { say('done'); process.exit(0); },
  (error) => { console.error(error); process.exit(1); },
);
