// One message on the page. A long conversation is shown at once as plain text; what comes near the window is
// dressed: its Markdown is read, its buttons and figures are made.

const roleNames = {user: 'You', assistant: 'Model', tool: 'Tool result'};
const longQuestion = 3000;  // characters, beyond which a question is folded
const endWords = {
  length: 'cut at the token limit',
  stopped: 'stopped',
  broken: 'broken off',
  elsewhere: 'being written in another tab'
};

/// Reads the Markdown of messages that are near, a few at a time.
const reading = {
  waiting: [], busy: 0,
  add(view) {
    this.waiting.push(view);
    this.next();
  },
  next() {
    while (this.busy < 2 && this.waiting.length) {
      ++this.busy;
      this.waiting.pop().read().finally(() => { --this.busy; this.next(); });
    }
  },
};
const nearby = new IntersectionObserver(entries => {
  const near = entries.filter(entry => entry.isIntersecting).map(entry => entry.target.view);
  if (near.length) follow(() => near.forEach(view => view.dress()));
}, {root: log, rootMargin: '1000px 0px'});

const cachedOf = usage => (usage && usage.prompt_tokens_details || {}).cached_tokens || 0;
function notesOn({ended, usage, times}) {
  const notes = [];
  if (endWords[ended]) notes.push(endWords[ended]);
  else if (ended && ended !== 'stop' && ended !== 'running' && ended !== 'tool_calls') notes.push(ended);
  if (usage) {
    const cached = cachedOf(usage), out = usage.completion_tokens;
    notes.push(
      count(usage.prompt_tokens) + ' tokens in' + (cached ? ' (' + count(cached) + ' cached)' : ''),
      count(out) + ' out');
    if (out > 1 && times && times.last > times.first) {
      notes.push(((out - 1) * 1000 / (times.last - times.first)).toFixed(1) + ' tokens/s');
    }
  }
  return notes.join(', ');
}

class MessageView {
  /// `acts`: what can be done with a message, by name; chat.js has them.
  constructor(conversation, message, acts) {
    this.conversation = conversation;
    this.message = message;
    this.acts = acts;
    this.kind = 'shown';    // or raw, or tokens
    this.dressed = false;
    this.turn = make('article', 'turn ' + message.role);
    this.turn.view = this;
    this.turn.tabIndex = -1;
    this.turn.dataset.id = message.id;
    this.head = make('h2', '', roleNames[message.role]);
    this.body = make('div', 'body');
    this.foot = make('div', 'foot');
    this.turn.append(this.head, this.body, this.foot);
    this.drawBody();
    nearby.observe(this.turn);
  }
  drawBody() {
    const {role, content, media, reasoning_content, tool_calls} = this.message;
    this.body.replaceChildren();
    this.answer = null;
    if (reasoning_content) new PlainText(this.addReasoning()).append(reasoning_content);
    if (media) {
      const shown = make('div', 'media');
      shown.append(...media.map(showMedium));
      this.body.append(shown);
    }
    if (role !== 'assistant' && (content || !media)) {
      const box = make('div', 'said');
      new PlainText(box).append(content);
      this.body.append(box);
      if (content.length > longQuestion) this.fold(box);
    } else if (role === 'assistant' && content) {
      this.answer = make('div', 'answer');
      this.answer.source = content;
      new PlainText(this.answer).append(content);
      this.body.append(this.answer);
    }
    for (const call of tool_calls || [])
      new PlainText(this.addCall(call.function.name).box).append(call.function.arguments);
  }
  fold(box) {
    box.classList.add('folded');
    const more = textButton('Show all', () => {
      const folded = box.classList.toggle('folded');
      more.textContent = folded ? 'Show all' : 'Show less';
    });
    more.className = 'plain';
    box.after(more);
  }
  addReasoning() {
    const folded = make('details', 'reasoning');
    folded.append(make('summary', '', 'Reasoning'));
    this.body.append(folded);
    return folded;
  }
  addCall(name) {
    const box = make('div', 'call'), title = make('strong', '', name && 'Calls ' + name);
    box.append(title);
    this.body.append(box);
    return {box, title};
  }
  dress() {
    if (this.dressed) return;
    this.dressed = true;
    nearby.unobserve(this.turn);
    if (this.growing) return;
    this.drawFoot();
    if (this.answer) reading.add(this);
  }
  /// Shows the answer's Markdown in place of its plain text.
  async read() {
    const old = this.answer;
    if (!old || !this.turn.isConnected || this.growing) return;
    // What the renderer puts beside its box comes along with it.
    const place = make('div'), box = place.appendChild(make('div', 'answer')), text = new MarkdownText(box);
    text.append(this.message.content);
    await text.finish();
    if (this.answer !== old) return;
    follow(() => old.replaceWith(...place.childNodes));
    this.answer = box;
  }
  /// After the message has changed, or the messages around it.
  refresh() {
    if (this.growing || this.editing) return;
    this.drawBody();
    this.kind = 'shown';
    if (this.dressed) {
      this.drawFoot();
      if (this.answer) reading.add(this);
    }
  }
  drawFoot() {
    const {message} = this, parts = [];
    const elsewhere = message.model && message.model !== state.model && state.model;
    this.head.replaceChildren(roleNames[message.role]);
    if (elsewhere) this.head.append(make('span', 'by', ' by ' + message.model));
    if (message.ended === 'broken') parts.push(this.brokenNote());
    if (message.role === 'assistant' && !this.growing) {
      const timeline = timelineOf(message.times, message.usage);
      if (timeline) parts.push(timeline);
    }
    const row = make('div', 'foot-row'), facts = message.role === 'assistant' ? notesOn(message) : '';
    row.append(this.versions(), this.toolbar());
    if (facts) {
      const line = make('p', 'facts', facts);
      line.title =
        [
          message.model && 'model ' + message.model, message.seed !== undefined && 'seed ' + message.seed,
          'made ' + new Date(message.made).toLocaleString()
        ].filter(Boolean)
          .join(', ');
      row.append(line);
    }
    if (this.unanswered) row.append(make('p', 'facts', 'without an answer; not part of the conversation'));
    this.foot.replaceChildren(...parts, row);
  }
  brokenNote() {
    const note = make('p', 'broken');
    note.append(
      make('span', '', 'This answer is not complete: ' + (this.message.why || 'it broke off') + ' '),
      textButton(
        this.message.content ? 'Continue' : 'Ask again',
        () => this.message.content ? this.acts.goOn(this.message) : this.acts.again(this.message)));
    return note;
  }
  versions() {
    const box = make('span', 'versions'), all = this.conversation.versions(this.message);
    if (all.length < 2) return box;
    const at = all.indexOf(this.message), cached = cachedOf(this.message.usage);
    const step = (name, label, to) => {
      const button = iconButton(name, label, () => this.acts.choose(all[to]));
      button.disabled = !all[to];
      return button;
    };
    const text = make(
      'span', 'version', `${at + 1} / ${all.length}` + (cached ? ` \u00b7 ${count(cached)} cached` : ''));
    text.title = `Version ${at + 1} of ${all.length}` +
      (this.message.usage ? `; ${count(cached)} of the ${
                              count(this.message.usage.prompt_tokens)} tokens before it were in the cache` :
                            '');
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', 'Versions');
    box.append(step('left', 'Version before', at - 1), text, step('right', 'Next version', at + 1));
    return box;
  }
  toolbar() {
    const {message, acts} = this, bar = make('span', 'toolbar'), answer = message.role === 'assistant';
    if (this.growing || message.ended === 'elsewhere') return bar;
    const copy = iconButton('copy', 'Copy text', () => copyAndSay(copy, () => copyPlain(message.content)));
    bar.append(copy);
    if (answer && message.content) {
      const shown = iconButton('shown', 'Copy as shown', () => copyAndSay(shown, () => this.copyShown()));
      bar.append(shown, this.viewButton('raw', 'raw', 'Text as the model wrote it'));
    }
    if (answer) bar.append(this.viewButton('tokens', 'tokens', 'Tokens and their probabilities'));
    bar.append(iconButton('edit', 'Edit', () => this.edit()));
    if (message.role !== 'tool')
      bar.append(
        iconButton('again', answer ? 'Write another answer' : 'Ask again', () => acts.again(message)));
    if (answer && message.content && !isComplete(message.ended))
      bar.append(iconButton('on', 'Continue this answer', () => acts.goOn(message)));
    bar.append(iconButton('remove', 'Delete this and what follows', () => acts.remove(message)));
    return bar;
  }
  viewButton(kind, name, label) {
    const button = iconButton(name, label, () => this.show(this.kind === kind ? 'shown' : kind));
    button.setAttribute('aria-pressed', String(this.kind === kind));
    return button;
  }
  async show(kind) {
    const tokens = kind === 'tokens' ? await this.acts.tokensOf(this.message) : null;
    this.kind = kind;
    this.body.replaceChildren();
    this.answer = null;
    if (kind === 'raw') {
      const box = make('div', 'raw');
      box.tabIndex = 0;
      box.setAttribute('role', 'group');
      box.setAttribute('aria-label', 'Text as the model wrote it');
      new PlainText(box).append(this.message.content);
      this.body.append(box);
    } else if (kind === 'tokens' && tokens) {
      this.body.append(new TokenView(tokens.list, tokens.left || 0).box);
    } else if (kind === 'tokens') {
      this.body.append(make(
        'p', 'facts',
        'The probabilities of these tokens were not asked for or not kept. The settings switch them on.'));
    } else {
      this.drawBody();
      if (this.answer) reading.add(this);
    }
    this.drawFoot();
    this.foot.querySelector(kind === 'shown' ? '.toolbar button' : '[aria-pressed=true]')?.focus();
  }
  async copyShown() {
    if (!this.answer) this.drawBody();
    await this.read();
    const shown = this.answer.cloneNode(true);
    for (const bar of shown.querySelectorAll('.code-bar, button')) bar.remove();
    return copyPlain(this.answer.innerText, new XMLSerializer().serializeToString(shown));
  }
  /// A field in place of the message; what is saved becomes another version.
  edit() {
    const {message, acts} = this, form = make('form', 'edit'), field = make('textarea'),
                    row = make('div', 'buttons');
    const answer = message.role === 'assistant',
          save = make('button', '', answer ? 'Save as another version' : 'Ask this');
    const leave = () => {
      this.editing = false;
      this.refresh();
      this.turn.focus();
    };
    save.type = 'submit';
    field.value = message.content;
    field.setAttribute('aria-label', 'Your text');
    row.append(save);
    row.append(textButton('Cancel', leave), make('span', 'hint', 'Ctrl+Enter saves, Escape cancels'));
    form.append(field, row);
    this.editing = true;
    this.body.replaceChildren(form);
    this.foot.replaceChildren();
    growField(field);
    field.focus();
    field.addEventListener('input', () => growField(field));
    field.addEventListener('keydown', event => {
      if (event.key === 'Escape') leave();
      else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    form.addEventListener('submit', event => {
      event.preventDefault();
      this.editing = false;
      if (!field.value.trim() && !message.media || field.value === message.content && answer) return leave();
      this.refresh();
      acts.edited(message, field.value);
    });
  }
}
