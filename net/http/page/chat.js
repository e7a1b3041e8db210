// Which conversation is shown, what is sent, other versions, deleting, and what other tabs do.

class Chat {
  constructor() {
    this.conversation = Conversation.fresh(false);
    this.views = new Map();   // of the messages that are shown, by id
    this.acts = {
      again: message => asking.again(message),
      goOn: message => asking.goOn(message),
      edited: (message, text) => this.edited(message, text),
      remove: message => this.remove(message),
      choose: message => this.choose(message),
      tokensOf: message => this.tokensOf(message),
    };
    conversations.opened = id => this.open(id);
    conversations.gone = ids => { for (const id of ids) this.forget(id); };
    conversations.isRunning = id => asking.runs.has(id);
    tabs.changed = id => this.hearOfChange(id);
    composer.onDraft = text => this.keepDraft(text);
  }
  get running() { return asking.runs.get(this.conversation.id) || null; }

  // What is shown.

  /// Shows another conversation; what is under way in this one goes on.
  show(conversation) {
    composer.flush();
    this.conversation = conversation;
    conversations.shown = conversation.id;
    this.views.clear();
    log.replaceChildren();
    clearProblem();
    composer.fill(conversation.record.draft || '');
    this.draw();
    goToEnd();
    conversations.draw();
    const hash = conversation.messages.size && !conversation.record.private ? '#' + conversation.id : '';
    if (location.hash !== hash && (hash || location.hash))
      history.pushState(null, '', hash || location.pathname);
  }
  async open(id) {
    const wanted = this.wanted = id;
    const running = asking.runs.get(id);
    const conversation = running ? running.conversation : await conversations.read(id);
    if (wanted !== this.wanted) return;
    if (!conversation) return showNotice('This conversation is not here any more.');
    this.show(conversation);
    if (isCover('list') && isOpen('list')) setPanel('list', false);
    await this.findBroken(conversation);
  }
  fresh() {
    this.wanted = null;
    if (covering()) setPanel(covering(), false);
    this.show(Conversation.fresh(isPrivate()));
    $('input').focus();
  }
  /// Answers of which nobody writes any more were cut: by a reload, a closed tab, a browser that ended.
  async findBroken(conversation) {
    const open =
      [...conversation.messages.values()].filter(m => m.ended === 'running' || m.ended === 'elsewhere');
    if (!open.length) return;
    const left = new Set(await tabs.abandoned(open.map(m => m.id)));
    const broken = [];
    for (const message of open) {
      // It may have been ended, here or elsewhere, while nobody answered.
      if (tabs.writing.has(message.id) || message.ended !== 'running' && message.ended !== 'elsewhere')
        continue;
      message.ended = left.has(message.id) ? 'broken' : 'elsewhere';
      if (left.has(message.id)) broken.push(message);
      if (left.has(message.id)) message.why = 'the page was closed or loaded again while it was written.';
      this.views.get(message.id)?.refresh();
    }
    if (broken.length) await conversations.keep(conversation, broken);
    this.watchElsewhere(conversation);
  }
  /// A tab that writes may end without a word.
  watchElsewhere(conversation) {
    clearTimeout(this.watching);
    if (![...conversation.messages.values()].some(m => m.ended === 'elsewhere')) return;
    this.watching = setTimeout(() => {
      if (this.conversation === conversation) this.findBroken(conversation);
    }, 5000);
  }
  /// Makes the page show the path of the conversation; what is there already is left as it is.
  draw() {
    const path = this.conversation.path(), ids = new Set(path.map(m => m.id));
    for (const [id, view] of this.views) {
      if (ids.has(id)) continue;
      view.turn.remove();
      this.views.delete(id);
    }
    const fresh = document.createDocumentFragment();
    path.forEach((message, i) => {
      const next = path[i + 1];
      if (!this.views.has(message.id)) fresh.append(this.viewOf(message).turn);
      this.views.get(message.id).unanswered = message.role === 'user' && next?.role === 'assistant' &&
                                              next.ended !== 'running' && !next.content && !next.tool_calls;
    });
    log.append(fresh);
    this.showMode();
  }
  viewOf(message) {
    const run = this.running, written = run && run.answer.message === message;
    const view = written ? run.answer.view : new MessageView(this.conversation, message, this.acts);
    this.views.set(message.id, view);
    return view;
  }
  refreshFeet() {
    for (const view of this.views.values())
      if (view.dressed && !view.growing && !view.editing) view.drawFoot();
  }
  showMode() {
    const path = this.conversation.path(), open = this.conversation.openCalls(),
          running = this.running !== null;
    $('input-label').textContent = open.length ? 'Result of ' + open[0].function.name : 'Message';
    $('input').placeholder = open.length ? 'Result of ' + open[0].function.name : 'Ask something';
    $('send').hidden = running;
    $('stop').hidden = !running;
    $('title').textContent = this.conversation.record.title || 'New chat';
    $('welcome').hidden = path.length > 0;
    document.body.classList.toggle('secret', Boolean(this.conversation.record.private));
    const last = path.findLast(m => m.usage);
    composer.showContext(last ? last.usage.prompt_tokens + last.usage.completion_tokens : 0, state.context);
  }
  focusAnswer(id) {
    this.views.get(id)?.turn.focus({preventScroll: true});
  }

  // What is asked.

  async send() {
    const text = composer.text(), media = composer.media(), {conversation} = this;
    if (this.running || this.checking || !text.trim() && !media.length) return;
    clearProblem();
    this.checking = true;
    const body = await settings.checked();
    this.checking = false;
    if (!body || this.conversation !== conversation) return;
    const [call] = conversation.openCalls(), {record} = conversation;
    const last = conversation.path().at(-1);
    // A question that got no answer stays as another version of this one.
    const parent = last && last.role === 'user' ? last.parent : last ? last.id : null;
    const message = conversation.add(
      parent, call ? 'tool' : 'user',
      {content: text, ...(call ? {tool_call_id: call.id} : {}), ...(media.length ? {media} : {})});
    if (!record.title && !record.named) record.title = titleFrom(text.trim() || media[0].name);
    record.draft = '';
    composer.clear();
    this.draw();
    goToEnd();
    if (!record.private && location.hash !== '#' + conversation.id)
      history.replaceState(null, '', '#' + conversation.id);
    conversations.shown = conversation.id;
    this.keepDraft('');
    const kept = conversations.keep(conversation, [message]);
    if (!conversation.openCalls().length) await asking.ask(conversation, message.id, null, body);
    await kept;
  }

  // Versions.

  choose(message) {
    if (this.running) return;
    this.conversation.choose(message);
    this.draw();
    this.refreshFeet();
    this.focusAnswer(message.id);
    conversations.keep(this.conversation);
  }
  async edited(message, text) {
    const {conversation} = this, {role, parent, tool_call_id, media} = message;
    if (this.running) return;
    const more = tool_call_id ? {tool_call_id} : role === 'assistant' ? {ended: 'stop', edited: true} : {};
    const other = conversation.add(parent, role, {content: text, ...more, ...(media ? {media} : {})});
    this.draw();
    this.refreshFeet();
    const kept = conversations.keep(conversation, [other]);
    if (role === 'user' || role === 'tool' && !conversation.openCalls().length)
      await asking.ask(conversation, other.id, null);
    else this.focusAnswer(other.id);
    await kept;
  }
  /// Takes a message and what follows it away for good.
  async take(conversation, message) {
    const gone = conversation.remove(message);
    if (this.conversation === conversation) this.draw();
    const ids = gone.map(m => m.id);
    const tokens = (await store.ofConversation('tokens', conversation.id)).filter(t => ids.includes(t.id));
    await conversations.keep(conversation, [], {messages: {remove: ids}, tokens: {remove: ids}});
    return {gone, tokens};
  }
  async remove(message) {
    const {conversation} = this, leaf = conversation.record.leaf;
    if (this.running) return;
    const {gone, tokens} = await this.take(conversation, message);
    this.refreshFeet();
    (conversation.path().length ? this.views.get(conversation.record.leaf).turn : $('input')).focus();
    showNotice(
      gone.length > 1 ? `${gone.length} messages were deleted.` : 'The message was deleted.', 'Undo',
      async () => {
        for (const one of gone) conversation.link(one);
        conversation.record.leaf = leaf;
        await conversations.keep(conversation, gone, {tokens: {put: tokens}});
        if (this.conversation === conversation) {
          this.draw();
          this.refreshFeet();
        }
      });
  }
  tokensOf(message) { return store.one('tokens', message.id); }

  // What others do, and what is kept of what is not sent.

  forget(id) {
    asking.drop(id);
    if (this.conversation.id === id) this.fresh();
  }
  async hearOfChange(id) {
    const record = await store.one('conversations', id);
    record ? conversations.records.set(id, record) : conversations.records.delete(id);
    conversations.draw();
    if (this.conversation.id !== id || this.running) return;
    if (!record)
      return showNotice('This conversation was deleted in another tab. What is shown goes with this tab.');
    const {conversation} = this;
    const changed = conversation.merge(record, await store.ofConversation('messages', id));
    conversations.records.set(id, conversation.record);
    if (this.conversation !== conversation) return;
    this.draw();
    for (const one of changed) {
      const message = conversation.messages.get(one);
      if (message?.ended === 'running' && !tabs.writing.has(one)) message.ended = 'elsewhere';
      this.views.get(one)?.refresh();
    }
    this.refreshFeet();
    if (changed.size) this.watchElsewhere(conversation);
  }
  keepDraft(text) {
    const {conversation} = this;
    conversation.record.draft = text;
    if (conversation.messages.size) {
      store.write(conversation.id, {conversations: {put: [conversation.record]}});
    }
    // What is written before there is a conversation is nobody's yet.
    if (!conversation.record.private && !isPrivate()) {
      store.write('', {settings: {put: [{name: 'draft', text: conversation.messages.size ? '' : text}]}});
    }
  }
}
