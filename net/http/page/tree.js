// A conversation as a tree of messages. Each message knows the one before it; several that follow the same
// one are versions of each other, of which one is shown. Nothing is overwritten: an edit is another version.

/// ended: how an answer ended. 'running' while it is written, 'broken' where something cut it.
const isComplete = ended => ended === 'stop' || ended === 'tool_calls';

class Conversation {
  /// `record` as it is kept: {id, title, created, changed, leaf, draft}. `messages`: records of the whole
  /// tree.
  constructor(record, messages) {
    this.record = record;
    this.messages = new Map();
    this.after = new Map();  // ids of the messages that follow one; those at the beginning under null
    for (const message of messages) this.link(message);
  }
  /// A new one. Nothing of one that is `secret` ever gets to the database, its drafts neither.
  static fresh(secret) {
    const now = Date.now(), id = freshId();
    if (secret) store.secret.add(id);
    const record = {id, title: '', created: now, changed: now, leaf: null, draft: '', private: secret};
    return new Conversation(record, []);
  }
  get id() { return this.record.id; }
  link(message) {
    if (!this.messages.has(message.id)) {
      const parent = message.parent || null;
      if (!this.after.has(parent)) this.after.set(parent, []);
      this.after.get(parent).push(message.id);
    }
    this.messages.set(message.id, message);
  }
  /// Adds a message behind `parent` (null: at the beginning), and shows it.
  add(parent, role, fields) {
    const message = {
      id: freshId(),
      conversation: this.id,
      parent: parent || null,
      role,
      made: Date.now(),
      content: '',
      ...fields
    };
    this.link(message);
    this.record.leaf = message.id;
    return message;
  }
  /// The messages that are shown, the first one first.
  path() {
    const path = [], seen = new Set();
    let at = this.messages.get(this.record.leaf);
    while (at && !seen.has(at.id)) {
      seen.add(at.id);
      path.push(at);
      at = this.messages.get(at.parent);
    }
    return path.reverse();
  }
  versions(message) {
    return (this.after.get(message.parent || null) || [])
      .map(id => this.messages.get(id))
      .sort((a, b) => a.made - b.made);
  }
  /// All messages, each behind the one that it follows.
  inOrder() {
    const first = parent => (this.after.get(parent) || []).map(id => this.messages.get(id));
    const out = [], waiting = first(null).sort((a, b) => b.made - a.made);
    while (waiting.length) {
      const next = waiting.pop();
      out.push(next);
      waiting.push(...first(next.id).sort((a, b) => b.made - a.made));
    }
    return out;
  }
  /// Shows this message and, behind it, the newest that follows.
  choose(message) {
    let at = message;
    for (;;) {
      const next = (this.after.get(at.id) || []).map(id => this.messages.get(id));
      if (!next.length) break;
      at = next.reduce((newest, one) => one.made >= newest.made ? one : newest);
    }
    this.record.leaf = at.id;
  }
  /// The message and all that follows it.
  under(message) {
    const all = [message];
    for (let i = 0; i < all.length; ++i) {
      for (const id of this.after.get(all[i].id) || []) all.push(this.messages.get(id));
    }
    return all;
  }
  /// Takes the message and all that follows it away, and shows another version, or what was before. Gives
  /// what was taken.
  remove(message) {
    const gone = this.under(message), rest = this.versions(message).filter(one => one !== message);
    for (const one of gone) {
      this.messages.delete(one.id);
      this.after.delete(one.id);
    }
    this.after.set(message.parent || null, rest.map(one => one.id));
    rest.length ? this.choose(rest.at(-1)) : this.record.leaf = message.parent || null;
    return gone;
  }
  /// Takes over what another tab has written; gives the ids of what is not as it was. What is shown stays,
  /// unless the other tab has gone on from there.
  merge(record, messages) {
    const changed = new Set(), {leaf, draft} = this.record;
    for (const message of messages) {
      const mine = this.messages.get(message.id);
      if (mine && JSON.stringify(mine) === JSON.stringify(message)) continue;
      changed.add(message.id);
      if (mine) Object.assign(mine, message);
      else this.link(message);
    }
    const ids = new Set(messages.map(m => m.id));
    for (const id of [...this.messages.keys()]) {
      if (ids.has(id) || !this.messages.has(id)) continue;
      changed.add(id);
      this.remove(this.messages.get(id));
    }
    const shown = this.messages.has(leaf) ? leaf : this.record.leaf;
    Object.assign(this.record, record, {draft});
    if (this.messages.has(shown) && !this.path().some(m => m.id === shown)) this.record.leaf = shown;
    return changed;
  }
  /// Calls of tools in the last answer that have no result yet.
  openCalls() {
    const path = this.path(), at = path.findLastIndex(m => m.role === 'assistant');
    const calls = at < 0 ? [] : path[at].tool_calls || [], later = path.slice(at + 1);
    if (later.some(m => m.role === 'user')) return [];
    return calls.filter(c => !later.some(m => m.tool_call_id === c.id));
  }
}

/// Messages as the API takes them. A question without an answer is as if never asked, so that roles go on
/// taking turns; the last message is there in any case.
function requestMessages(path) {
  const out = [];
  path.forEach((message, i) => {
    const {role, content, media, tool_calls, tool_call_id, reasoning_content} = message,
                                                           last = i === path.length - 1;
    if (role === 'assistant' && !content && !tool_calls && !last) {
      while (out.length && out.at(-1).role === 'user') out.pop();
      return;
    }
    const one = {role, content: withMedia(content, media)};
    if (reasoning_content) one.reasoning_content = reasoning_content;
    if (tool_calls) one.tool_calls = tool_calls;
    if (tool_call_id) one.tool_call_id = tool_call_id;
    out.push(one);
  });
  return out;
}

/// A title from the first question: its first line, cut at a word.
function titleFrom(text) {
  const line = text.trim().split('\n')[0].trim();
  if (line.length <= 60) return line;
  const cut = line.slice(0, 60), space = cut.lastIndexOf(' ');
  return (space > 30 ? cut.slice(0, space) : cut).replace(/[\ud800-\udbff]$/, '') + '\u2026';
}
