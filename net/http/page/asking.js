// Asking the worker: an answer, another one, the rest of one; what comes is written into the conversation and
// kept while it comes.

const saveEvery = 1000;  // milliseconds after which an answer under way is kept again; more for long ones

class Asking {
  constructor() {
    this.runs = new Map();  // answers under way, by conversation: {answer, control, conversation}
    this.afterKey = null;   // what was refused for want of a key
  }
  /// The answer under way in the conversation that is shown, or null.
  get current() { return this.runs.get(chat.conversation.id) || null; }
  /// Asks for an answer behind a message, or for the rest of one.
  async ask(conversation, parent, goesOn, checked) {
    const body = checked || await settings.checked();
    if (!body || this.runs.has(conversation.id)) return;
    clearProblem();
    const before = goesOn || conversation.messages.get(parent);
    conversation.record.leaf = before.id;
    body.messages = requestMessages(conversation.path());
    const system = settings.value('system');
    if (system.trim()) body.messages.unshift({role: 'system', content: system});
    if (goesOn) body.continue_final_message = true;
    const message = goesOn || conversation.add(parent, 'assistant', {ended: 'running'});
    if (body.seed !== undefined) message.seed = body.seed;
    const asBefore = {ended: message.ended, why: message.why, usage: message.usage};
    message.ended = 'running';
    delete message.usage;
    if (chat.conversation === conversation) chat.draw();
    const view = chat.views.get(message.id) || new MessageView(conversation, message, chat.acts);
    const run = {conversation, control: new AbortController(), answer: new Answer(view)};
    if (chat.conversation === conversation) goToEnd();
    this.runs.set(conversation.id, run);
    tabs.writing.add(message.id);
    chat.showMode();
    try {
      await this.write(run, body);
    } catch (e) {
      await this.failed(run, e, goesOn && asBefore);
    } finally {
      this.runs.delete(conversation.id);
      tabs.writing.delete(message.id);
      conversations.draw();
      if (chat.conversation === conversation) { chat.draw(); chat.refreshFeet(); }
    }
  }
  async write(run, body) {
    const {answer, control, conversation} = run;
    const response = await fetch('v1/chat/completions', {
      method: 'POST',
      signal: control.signal,
      headers: {'Content-Type': 'application/json', ...headers()},
      body: JSON.stringify({
        ...body,
        stream: true,
        stream_options: {include_usage: true},
        timings_per_token: true,
        return_progress: true
      }),
    });
    if (!response.ok) throw await refusalOf(response);
    run.begun = true;
    let savedAt = performance.now(), pause = 0;
    conversations.keep(conversation, [answer.message]);
    for await (const chunk of chunksOf(response)) {
      answer.take(chunk);
      // Long answers are kept less often, so that all of it costs what its text costs.
      const now = performance.now();
      if (now - savedAt < pause) continue;
      savedAt = now;
      pause = saveEvery + answer.message.content.length / 1000;
      conversations.keep(conversation, [answer.message]);
    }
    await this.finished(run, '', '');
  }
  async finished({answer, conversation, dropped}, ended, why) {
    const shown = answer.finish(ended, why), {message, tokens, left} = answer;
    if (dropped) return;
    const told = {id: message.id, conversation: conversation.id, list: tokens, left};
    await conversations.keep(conversation, [message], tokens.length ? {tokens: {put: [told]}} : {});
    await shown;
  }
  async failed(run, error, asBefore) {
    const {answer, control, conversation} = run, {message} = answer, stopped = control.signal.aborted;
    const shown = chat.conversation === conversation;
    if (run.begun && (message.content || message.reasoning_content || stopped)) {
      await this.finished(run, stopped ? 'stopped' : 'broken', stopped ? '' : wordsFor(error).title);
    } else {
      answer.finish('broken', '');
      Object.assign(message, asBefore || {});
      if (asBefore) answer.view.refresh();
      else await chat.take(conversation, message);
      if (asBefore) await conversations.keep(conversation, [message]);
    }
    if (stopped) return;
    if (!shown) return showNotice(`${conversation.record.title}: ${wordsFor(error).title}`);
    const told = error instanceof Refusal && error.param && settings.blame(error.param, error.message);
    const again = () => asBefore ? this.goOn(message) : this.ask(conversation, message.parent, null);
    const begun = message.content && conversation.messages.has(message.id);
    showProblem(error, {
      again,
      on: begun ? () => this.goOn(message) : null,
      key: () => this.enterKey(),
      settings: () => settings.goTo(null),
    });
    if (told) $('settings').open = true;
    if (error.status !== 401) return;
    this.afterKey = again;
    this.enterKey();
  }
  /// Asks once more with the key that was written.
  useKey() {
    const again = this.afterKey;
    this.afterKey = null;
    closeCover();
    $('input').focus();
    if (again && $('key').value.trim()) again();
  }
  enterKey() {
    setPanel('panel', true);
    $('settings').open = true;
    $('key').focus();
  }
  stop() {
    if (this.current) this.current.control.abort();
    $('input').focus();
  }
  /// Asks a question once more, or for another answer.
  again(message) {
    return this.ask(chat.conversation, message.role === 'user' ? message.id : message.parent, null);
  }
  goOn(message) { return this.ask(chat.conversation, message.parent, message); }
  /// Ends the answer under way in a conversation that is no more.
  drop(id) {
    const run = this.runs.get(id);
    if (!run) return;
    run.dropped = true;
    run.control.abort();
  }
}
const asking = new Asking();
