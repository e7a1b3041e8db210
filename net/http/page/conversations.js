// The list of conversations: what is kept is found, opened, renamed, deleted, exported and imported here.

const listedMost = 200;  // that are shown at a time

const dayOf = at => {
  const days = Math.floor((new Date().setHours(24, 0, 0, 0) - at) / 86400000);
  if (days < 1) return new Date(at).toLocaleTimeString([], {hour: '2-digit', minute: '2-digit'});
  return days < 2 ? 'yesterday' : days < 7 ? days + ' days ago' : new Date(at).toLocaleDateString();
};

class Conversations {
  constructor() {
    this.records = new Map();
    this.shown = null;         // id of the one that is open
    this.found = null;         // of a search: ids, with a piece of text around what was found
    this.most = listedMost;
    this.searching = 0;
    this.opened = () => {};    // opened(id), when its user chooses one
    this.gone = () => {};      // gone(ids), when they are deleted
    this.isRunning = () => false;
    $('search').addEventListener('input', () => this.search($('search').value));
    $('import').addEventListener('click', () => $('import-file').click());
    $('import-file').addEventListener('change', async () => {
      for (const file of [...$('import-file').files]) await this.importFile(file);
      $('import-file').value = '';
    });
    $('export-all')
      .addEventListener('click', () => this.exportJson([...this.records.keys()], 'worker-orcd-chats.json'));
  }
  async load() {
    this.records = new Map((await store.all('conversations')).map(record => [record.id, record]));
    this.draw();
  }
  /// Keeps what has changed of a conversation: its record, and of its messages those that are named. It is of
  /// now then, unless it is `dated` already.
  async keep(conversation, put = [], more = {}) {
    const {record} = conversation;
    if (put.length && !more.dated) record.changed = Date.now();
    this.records.set(record.id, record);
    this.draw();
    await store.write(record.id, {
      conversations: {put: [record]},
      ...(put.length || more.messages ? {messages: {put, ...more.messages}} : {}),
      ...(more.tokens ? {tokens: more.tokens} : {})
    });
    if (!record.private) tabs.tell(record.id);
  }
  async read(id) {
    const record = this.records.get(id) || await store.one('conversations', id);
    return record ? new Conversation(record, await store.ofConversation('messages', id)) : null;
  }
  sorted() {
    let all = [...this.records.values()].sort((a, b) => b.changed - a.changed);
    if (this.found) all = all.filter(record => this.found.has(record.id));
    return all;
  }
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => { this.drawing = false; this.drawNow(); });
  }
  drawNow() {
    if ($('chats').querySelector('input')) return;  // a title is being written
    const all = this.sorted(), focused = document.activeElement?.closest?.('#chats li')?.dataset.id;
    // What is as it was is left: a row that has the focus or the pointer must not be made anew each second.
    const rowOf =
      ({id, title, changed}) => [id, title, dayOf(changed), this.isRunning(id), this.found?.get(id)];
    const told = JSON.stringify([this.shown, all.length, all.slice(0, this.most).map(rowOf)]);
    if (told === this.told) return;
    this.told = told;
    $('chats').replaceChildren(...all.slice(0, this.most).map(record => this.row(record)));
    if (all.length > this.most) {
      const item = make('li');
      item.append(textButton(`Show ${count(all.length - this.most)} more`, () => {
        this.most += listedMost;
        this.draw();
      }));
      $('chats').append(item);
    }
    $('no-chats').hidden = all.length > 0;
    $('no-chats').textContent =
      this.found ? 'Nothing found.' : 'What you ask is kept here, in this browser alone.';
    if (focused) $('chats').querySelector(`li[data-id="${CSS.escape(focused)}"] button`)?.focus();
  }
  row(record) {
    const item = make('li', record.id === this.shown ? 'current' : ''), open = make('button', 'open');
    const title = make('span', 'title', record.title || 'New chat'), piece = this.found?.get(record.id);
    item.dataset.id = record.id;
    open.type = 'button';
    if (record.id === this.shown) open.setAttribute('aria-current', 'true');
    if (record.private) title.prepend(icon('lock'));
    if (this.isRunning(record.id)) title.prepend(make('span', 'pulse'));
    open.append(
      title, make('span', 'day', piece || (record.private ? 'private, ' : '') + dayOf(record.changed)));
    open.addEventListener('click', () => this.opened(record.id));
    const bar = make('span', 'row-bar'), named = record.title || 'New chat';
    bar.append(iconButton('edit', 'Rename: ' + named, () => this.rename(record, item)),
               iconButton('save', 'Export: ' + named, () => this.exportOne(record.id)),
               iconButton('remove', 'Delete: ' + named, () => this.remove(record.id)));
    item.append(open, bar);
    return item;
  }
  rename(record, item) {
    const field = make('input');
    field.value = record.title;
    field.maxLength = 200;
    field.setAttribute('aria-label', 'Title');
    item.replaceChildren(field);
    field.focus();
    field.select();
    let over = false;
    const end = keep => {
      if (over) return;
      over = true;
      field.remove();
      if (keep && field.value.trim()) {
        record.title = field.value.trim();
        record.named = true;
        this.keep({record});
      }
      this.told = '';
      this.drawNow();
      $('chats').querySelector(`li[data-id="${CSS.escape(record.id)}"] button`)?.focus();
    };
    field.addEventListener('keydown', event => {
      if (event.key !== 'Enter' && event.key !== 'Escape') return;
      event.preventDefault();
      event.stopPropagation();
      end(event.key === 'Enter');
    });
    field.addEventListener('blur', () => end(true));
  }
  async remove(id) {
    const conversation = await this.read(id), tokens = await store.ofConversation('tokens', id);
    if (!conversation) return;
    const messages = [...conversation.messages.values()];
    this.gone([id]);
    this.records.delete(id);
    this.draw();
    await store.write(id, {
      conversations: {remove: [id]},
      messages: {remove: messages.map(m => m.id)},
      tokens: {remove: tokens.map(t => t.id)}
    });
    tabs.tell(id);
    showNotice(`\u201c${conversation.record.title || 'New chat'}\u201d was deleted.`, 'Undo', async () => {
      await this.keep(conversation, messages, {tokens: {put: tokens}, dated: true});
      this.opened(id);
    });
  }
  /// Looks for a text in titles and messages.
  async search(text) {
    const mine = ++this.searching, wanted = text.trim().toLowerCase();
    this.most = listedMost;
    if (!wanted) {
      this.found = null;
      return this.draw();
    }
    const found = new Map();
    for (const {id, title} of this.records.values())
      if (title.toLowerCase().includes(wanted)) found.set(id, '');
    for (const id of this.records.keys()) {
      if (found.get(id) === '') continue;
      for (const {content} of await store.ofConversation('messages', id)) {
        const at = content.toLowerCase().indexOf(wanted);
        if (at < 0) continue;
        found.set(
          id, (at > 20 ? '\u2026' : '') + content.slice(Math.max(0, at - 20), at + 60).replace(/\s+/g, ' '));
        break;
      }
      if (mine !== this.searching) return;
    }
    this.found = found;
    this.draw();
  }
  exportOne(id) {
    const record = this.records.get(id), title = record.title || 'chat';
    const sheet = $('export');
    $('export-json').onclick = () => { sheet.close(); this.exportJson([id], fileName(title, '.json')); };
    $('export-markdown').onclick = async () => {
      sheet.close();
      download(fileName(title, '.md'), 'text/markdown', markdownOf(await this.read(id)));
    };
    $('export-what').textContent = title;
    sheet.showModal();
  }
  async exportJson(ids, name) {
    const all = await Promise.all(ids.map(id => this.read(id)));
    download(name, 'application/json', jsonOf(all.filter(Boolean)));
  }
  async importFile(file) {
    try {
      if (file.size > transferMax) throw new Error('it has more than 256 MiB');
      const read = readConversations(await file.text(), file.name);
      for (const conversation of read) {
        await this.keep(conversation, [...conversation.messages.values()], {dated: true});
      }
      showNotice(`${file.name}: ${
        read.length === 1 ? 'one conversation was' : read.length + ' conversations were'} imported.`);
      if (read.length) this.opened(read[0].id);
    } catch (e) {
      showNotice(`${file.name} cannot be imported, and nothing was changed: ${e.message}.`);
    }
  }
}
const conversations = new Conversations();
const isPrivate = () => $('private').checked;
