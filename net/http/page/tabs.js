// Several tabs of this page share what is kept. Each tells the others what it has written; an answer that is
// being written in one is not taken for a broken one in another.

const tabsPatience = 1500;  // milliseconds in which another tab says that it writes an answer

class Tabs {
  constructor() {
    this.channel = window.BroadcastChannel ? new BroadcastChannel('worker-orcd') : null;
    this.writing = new Set();    // ids of answers that this tab writes
    this.elsewhere = new Set();  // and of those that others do
    this.changed = () => {};     // changed(conversation id or ''), by another tab
    if (this.channel) this.channel.onmessage = ({data}) => this.hear(data);
  }
  hear(data) {
    if (data.kind === 'changed') this.changed(data.conversation);
    if (data.kind === 'who writes' && this.writing.has(data.id)) this.say({kind: 'I write', id: data.id});
    if (data.kind === 'I write') this.elsewhere.add(data.id);
  }
  say(data) {
    if (this.channel) this.channel.postMessage(data);
  }
  tell(conversation) { this.say({kind: 'changed', conversation}); }
  /// Those of the answers that nobody writes any more: their tab was closed, or reloaded.
  async abandoned(ids) {
    const open = ids.filter(id => !this.writing.has(id));
    if (!open.length || !this.channel) return open;
    for (const id of open) {
      this.elsewhere.delete(id);
      this.say({kind: 'who writes', id});
    }
    await new Promise(wake => setTimeout(wake, tabsPatience));
    return open.filter(id => !this.elsewhere.has(id));
  }
}
const tabs = new Tabs();
