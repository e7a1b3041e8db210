// What the browser keeps: conversations, messages, the probabilities of tokens, settings. Nothing is kept on
// the server. Where the browser keeps nothing (it refuses, is full, or has a newer page's data) the page
// works all the same, with what is in memory, and says so.

const storeName = 'worker-orcd';
const storeVersion = 2;  // 1: without tokens
// A version adds parts and never changes what an older one wrote, so that an upgrade has nothing to lose.
const storeParts = {conversations: 'id', messages: 'id', settings: 'name', tokens: 'id'};

const resultOf = request => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/// The same calls as those of DatabaseParts, for what is in memory alone.
class MemoryParts {
  constructor() {
    this.parts = new Map(Object.keys(storeParts).map(name => [name, new Map()]));
  }
  async all(part) { return [...this.parts.get(part).values()]; }
  async ofConversation(part, id) { return (await this.all(part)).filter(r => r.conversation === id); }
  async one(part, key) { return this.parts.get(part).get(key); }
  async write(changes) {
    for (const [part, {put = [], remove = []}] of Object.entries(changes)) {
      const records = this.parts.get(part);
      for (const record of put) records.set(record[storeParts[part]], structuredClone(record));
      for (const key of remove) records.delete(key);
    }
  }
}

class DatabaseParts {
  static async open(leave) {
    const asking = indexedDB.open(storeName, storeVersion);
    asking.onupgradeneeded = () => {
      for (const [name, keyPath] of Object.entries(storeParts)) {
        if (asking.result.objectStoreNames.contains(name)) continue;
        const part = asking.result.createObjectStore(name, {keyPath});
        if (name !== 'conversations' && name !== 'settings') part.createIndex('conversation', 'conversation');
      }
    };
    asking.onblocked = () =>
      leave('Another tab has an older version of this page open. Close it, then reload here.');
    const database = await resultOf(asking);
    // A newer page in another tab must not wait for this one.
    database.onversionchange = () => {
      database.close();
      leave(
        'A newer version of this page was opened in another tab. Reload this one: it keeps nothing now.');
    };
    database.onclose = () =>
      leave('The browser has deleted what this page had kept. What is shown is still here.');
    return new DatabaseParts(database);
  }
  constructor(database) {
    this.database = database;
  }
  part(name) { return this.database.transaction(name).objectStore(name); }
  all(part) { return resultOf(this.part(part).getAll()); }
  ofConversation(part, id) { return resultOf(this.part(part).index('conversation').getAll(id)); }
  one(part, key) { return resultOf(this.part(part).get(key)); }
  /// All of the changes or none of them: {PART: {put: [RECORD], remove: [KEY]}}.
  write(changes) {
    return new Promise((resolve, reject) => {
      const work = this.database.transaction(Object.keys(changes), 'readwrite');
      work.oncomplete = () => resolve();
      work.onerror = work.onabort = () => reject(work.error || new Error('the browser gave up'));
      for (const [part, {put = [], remove = []}] of Object.entries(changes)) {
        const records = work.objectStore(part);
        for (const record of put) records.put(record);
        for (const key of remove) records.delete(key);
      }
    });
  }
}

const whyNotKept = error => {
  if (!error) return 'this browser has no place for it';
  if (error.name === 'VersionError')
    return 'a newer version of this page has kept things here, which this one leaves alone';
  if (error.name === 'QuotaExceededError') return 'the storage that the browser gives this page is full';
  if (error.name === 'SecurityError' || error.name === 'InvalidStateError')
    return 'the browser does not allow it here';
  return error.message || error.name;
};

/// What is kept and what is only in memory, behind one set of calls. Records of a private conversation never
/// get to the database.
class Store {
  constructor() {
    this.memory = new MemoryParts();
    this.database = null;
    this.secret = new Set();  // ids of private conversations
    this.trouble = '';        // why nothing is kept, or ''
    this.told = () => {};     // told(trouble), when that changes
  }
  async open() {
    try {
      this.database = await DatabaseParts.open(why => this.leave(why));
    } catch (e) {
      this.say(
        'Nothing is kept: ' + whyNotKept(e) +
        '. What is said here goes with this page; export what you need.');
    }
  }
  leave(why) {
    this.database = null;
    this.say(why);
  }
  say(trouble) {
    if (this.trouble === trouble) return;
    this.trouble = trouble;
    this.told(trouble);
  }
  isSecret(id) { return this.secret.has(id); }
  async all(part) {
    const kept = this.database ? await this.database.all(part) : [];
    const here = await this.memory.all(part);
    const ids = new Set(here.map(r => r[storeParts[part]]));
    return [...kept.filter(r => !ids.has(r[storeParts[part]])), ...here];
  }
  async ofConversation(part, id) {
    const here = await this.memory.ofConversation(part, id);
    if (!this.database || this.isSecret(id)) return here;
    const ids = new Set(here.map(r => r.id));
    return [...(await this.database.ofConversation(part, id)).filter(r => !ids.has(r.id)), ...here];
  }
  async one(part, key) {
    return await this.memory.one(part, key) || (this.database ? this.database.one(part, key) : undefined);
  }
  /// Keeps the changes of one conversation ('' for settings); what cannot be kept stays in memory, and
  /// `trouble` says why. Never fails.
  async write(conversation, changes) {
    if (!this.database || this.isSecret(conversation)) return this.memory.write(changes);
    try {
      await this.database.write(changes);
      // What did not fit before may have been written now, and what is in memory is older.
      await this.memory.write(Object.fromEntries(Object.entries(changes).map(
        ([part,
          {put = [], remove = []}]) => [part, {remove: [...put.map(r => r[storeParts[part]]), ...remove]}])));
      if (this.database) this.say('');
    } catch (e) {
      await this.memory.write(changes);
      this.say(
        'Not kept: ' + whyNotKept(e) +
        '. What is shown is still here; export it, or delete other conversations.');
    }
  }
}
const store = new Store();
