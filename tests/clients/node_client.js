// A tour of node-zookeeper-client, with two sessions of one process.
//
//     NODE_PATH=build/node/node_modules node node_client.js tour 127.0.0.1:2181
//
// `survive` sets a znode once for each line of its input, and ends when that ends; it tries again
// while no server takes it. A step that does not do what it must throws.

'use strict';

const assert = require('node:assert');
const readline = require('node:readline');
const zookeeper = require('node-zookeeper-client');

const { ACL, CreateMode, Event, Exception, Id, Permission } = zookeeper;

function open(hosts) {
  const client = zookeeper.createClient(hosts, { sessionTimeout: 30000, retries: 3 });
  return new Promise((resolve) => {
    client.once('connected', () => resolve(client));
    client.connect();
  });
}

function close(client) {
  return new Promise((resolve) => {
    client.once('disconnected', resolve);
    client.close();
  });
}

// Call a method whose last argument is a callback; resolves with all that the callback is told.
function call(client, method, ...words) {
  return new Promise((resolve, reject) => {
    client[method](...words, (error, ...told) => (error ? reject(error) : resolve(told)));
  });
}

function refused(promise, code) {
  return assert.rejects(promise, (error) => error.getCode() === code);
}

async function readAndWrite(client) {
  await call(client, 'create', '/node', Buffer.from('one'));
  await refused(call(client, 'create', '/node'), Exception.NODE_EXISTS);
  const [data, stat] = await call(client, 'getData', '/node');
  assert.deepStrictEqual([data.toString(), stat.version, stat.dataLength], ['one', 0, 3]);
  const [changed] = await call(client, 'setData', '/node', Buffer.from('two'), 0);
  assert.strictEqual(changed.version, 1);
  await refused(call(client, 'setData', '/node', Buffer.from('x'), 0), Exception.BAD_VERSION);
  const mode = CreateMode.PERSISTENT_SEQUENTIAL;
  const [path] = await call(client, 'create', '/node/s-', mode);
  assert.strictEqual(path, '/node/s-0000000000');
  const [names] = await call(client, 'getChildren', '/node');
  assert.deepStrictEqual(names, ['s-0000000000']);
  const [missing] = await call(client, 'exists', '/node/missing');
  assert.strictEqual(missing, null);
  await refused(call(client, 'remove', '/node', -1), Exception.NOT_EMPTY);
}

async function watch(watcher, writer) {
  let told;
  const next = () => new Promise((resolve) => { told = resolve; });
  let event = next();
  await call(watcher, 'getData', '/node', (each) => told(each));
  await call(writer, 'setData', '/node', Buffer.from('three'));
  assert.strictEqual((await event).getType(), Event.NODE_DATA_CHANGED);
  event = next();
  await call(watcher, 'exists', '/node/w', (each) => told(each));
  await call(writer, 'create', '/node/w');
  assert.strictEqual((await event).getType(), Event.NODE_CREATED);
  event = next();
  await call(watcher, 'getChildren', '/node', (each) => told(each));
  await call(writer, 'remove', '/node/w');
  assert.strictEqual((await event).getType(), Event.NODE_CHILDREN_CHANGED);
}

async function severalAtOnce(client) {
  const several = () => client.transaction()
    .create('/node/m').setData('/node/m', Buffer.from('m'), 0).check('/node/m', 1);
  const commit = (transaction) => new Promise((resolve) => {
    transaction.commit((error, results) => resolve([error, results]));
  });
  let [error, results] = await commit(several().remove('/node/m', 1));
  assert.ifError(error);
  assert.strictEqual(results[0].path, '/node/m');
  assert.strictEqual(results[1].stat.version, 1);
  [error, results] = await commit(several().remove('/node/m', 9));
  assert.strictEqual(error.getCode(), Exception.BAD_VERSION);
  const [found] = await call(client, 'exists', '/node/m');
  assert.strictEqual(found, null);
}

async function access(owner, other) {
  owner.addAuthInfo('digest', Buffer.from('ann:secret'));
  const mine = [new ACL(Permission.ALL, new Id('auth', ''))];
  await call(owner, 'create', '/node/acl', Buffer.from('x'), mine);
  await refused(call(other, 'getData', '/node/acl'), Exception.NO_AUTH);
  await call(owner, 'getData', '/node/acl');
  const [acls] = await call(owner, 'getACL', '/node/acl');
  assert.strictEqual(acls[0].id.scheme, 'digest');
  await call(owner, 'setACL', '/node/acl', ACL.OPEN_ACL_UNSAFE, 0);
  await call(other, 'getData', '/node/acl');
}

// The second of two contenders waits for the end of the first one's session.
async function contend(hosts, second) {
  const first = await open(hosts);
  await call(second, 'create', '/node/lock');
  const mode = CreateMode.EPHEMERAL_SEQUENTIAL;
  const [held] = await call(first, 'create', '/node/lock/n-', mode);
  const [wanted] = await call(second, 'create', '/node/lock/n-', mode);
  assert(held < wanted);
  const released = new Promise((resolve) => {
    second.exists(held, resolve, (error) => assert.ifError(error));
  });
  await call(second, 'exists', held);
  await close(first);
  assert.strictEqual((await released).getType(), Event.NODE_DELETED);
}

async function tour(hosts) {
  const client = await open(hosts);
  const other = await open(hosts);
  await readAndWrite(client);
  await watch(other, client);
  await severalAtOnce(client);
  await access(client, other);
  await contend(hosts, client);
  await close(other);
  await close(client);
}

async function survive(hosts) {
  const client = await open(hosts);
  const session = client.getSessionId().toString('hex');
  await call(client, 'create', '/survives-node', CreateMode.EPHEMERAL);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    for (let isDone = false; !isDone;) {
      try {
        await call(client, 'setData', '/survives-node', Buffer.from(line));
        isDone = true;
      } catch (error) {
        assert.strictEqual(error.getCode(), Exception.CONNECTION_LOSS, error);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
    console.log(`set ${line}`);
  }
  const [stat] = await call(client, 'exists', '/survives-node');
  assert.strictEqual(stat.ephemeralOwner.toString('hex'), session);
  await close(client);
}

(process.argv[2] === 'tour' ? tour : survive)(process.argv[3]).then(
  () => { console.log('done'); process.exit(0); },
  (error) => { console.error(error); process.exit(1); },
);
