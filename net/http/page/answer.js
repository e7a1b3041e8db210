// An answer while it is written: what comes is shown, counted and timed, and becomes part of its message.

const liveEvery = 250;  // milliseconds between two changes of the line that counts

class Answer {
  constructor(view) {
    this.view = view;
    this.message = view.message;
    this.calls = [];
    this.tokens = [];
    this.left = 0;
    this.shownAt = 0;
    this.timings = null;
    this.progress = null;
    this.times = {asked: performance.now(), begun: 0, first: 0, last: 0};
    view.growing = this;
    view.kind = 'shown';
    view.turn.setAttribute('aria-busy', 'true');
    this.begin();
  }
  /// Boxes for what comes, with what an answer that is continued has already.
  begin() {
    const {view, message} = this;
    view.body.replaceChildren();
    view.answer = null;
    if (message.reasoning_content) this.reason(message.reasoning_content);
    if (message.content) this.say(message.content);
    this.live = make('p', 'live');
    this.live.append(make('span', 'pulse'), make('span', '', 'waiting'));
    view.foot.replaceChildren(view.versions(), this.live);
  }
  reason(text) {
    if (!this.thoughts) this.thoughts = new GrowingText(this.view.addReasoning());
    this.thoughts.append(text);
  }
  say(text) {
    if (!this.said) {
      this.view.answer = make('div', 'answer');
      this.view.body.append(this.view.answer);
      this.said = new MarkdownText(this.view.answer);
    }
    this.said.append(text);
  }
  take(chunk) {
    const now = performance.now(), {message} = this;
    if (chunk.usage) message.usage = chunk.usage;
    if (chunk.timings) this.timings = chunk.timings;
    if (chunk.prompt_progress) this.progress = chunk.prompt_progress;
    // What the worker tells of the prompt comes when the job has its place.
    if (chunk.prompt_progress || chunk.choices.length) this.times.begun = this.times.begun || now;
    if (chunk.model) message.model = chunk.model;
    for (const choice of chunk.choices) {
      if (choice.finish_reason) message.ended = choice.finish_reason;
      const delta = choice.delta || {};
      if (!choice.finish_reason && Object.keys(delta).some(k => k !== 'role' && delta[k])) {
        this.times.last = now;
        this.times.first = this.times.first || now;
      }
      for (const entry of (choice.logprobs && choice.logprobs.content) || []) {
        this.tokens.length < tokensKept ? this.tokens.push(keptToken(entry)) : ++this.left;
      }
      this.add(delta);
    }
    if (now - this.shownAt > liveEvery) this.showLive(now);
  }
  add(delta) {
    const {message} = this;
    if (delta.reasoning_content) {
      message.reasoning_content = (message.reasoning_content || '') + delta.reasoning_content;
      this.reason(delta.reasoning_content);
    }
    if (delta.content) {
      message.content += delta.content;
      this.say(delta.content);
      if (this.view.turn.isConnected) speech.add(delta.content);
    }
    for (const part of delta.tool_calls || []) this.addCall(part);
  }
  addCall(part) {
    const i = part.index || 0;
    if (!this.calls[i]) {
      const {box, title} = this.view.addCall('');
      this.calls[i] = {
        title,
        text: new GrowingText(box),
        call: {id: '', type: 'function', function: {name: '', arguments: ''}}
      };
    }
    const {title, text, call} = this.calls[i], said = part.function || {};
    if (part.id) call.id = part.id;
    call.function.name += said.name || '';
    call.function.arguments += said.arguments || '';
    title.textContent = 'Calls ' + call.function.name;
    text.append(said.arguments || '');
  }
  showLive(now) {
    this.shownAt = now;
    const {progress, timings, times} = this;
    let text = 'waiting for a place';
    if (timings && times.first) {
      const rate = timings.predicted_n > 1 ? timings.predicted_per_second : 0;
      text = `${count(timings.predicted_n)} tokens` + (rate ? `, ${rate.toFixed(1)} tokens/s` : '');
    } else if (progress) {
      text = `reading ${count(progress.processed)} of ${count(progress.total)} tokens` +
        (progress.cache ? ` (${count(progress.cache)} cached)` : '');
    }
    this.live.lastChild.textContent = text;
  }
  /// The end: `ended` '' is as the worker said. The message has all of it then.
  finish(ended, why) {
    const {message, view, times, timings} = this;
    message.ended = ended || (message.ended === 'running' ? 'stop' : message.ended);
    message.why = why || '';
    const made = this.calls.filter(Boolean);
    // A call cut short is no JSON, and nobody can answer it.
    if (made.length && (!ended || ended === 'tool_calls')) message.tool_calls = made.map(c => c.call);
    // Without its last part a stream has no usage, but every part says how far it was.
    if (!message.usage && timings) {
      message.usage = {
        prompt_tokens: timings.cache_n + timings.prompt_n,
        completion_tokens: timings.predicted_n,
        prompt_tokens_details: {cached_tokens: timings.cache_n}
      };
    }
    if (times.first) {
      const {asked, begun, first, last} = times;
      message.times = {asked: 0, begun: begun - asked, first: first - asked, last: last - asked};
    }
    speech.finish();
    view.growing = null;
    const texts = [this.thoughts, this.said, ...made.map(c => c.text)].filter(Boolean);
    follow(() => { view.dressed = true; nearby.unobserve(view.turn); view.drawFoot(); });
    return Promise.all(texts.map(text => text.finish())).then(() => view.turn.removeAttribute('aria-busy'));
  }
}
