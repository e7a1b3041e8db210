
const names = {user: 'You', assistant: 'Model', tool: 'Tool result'};
let history = [];      // messages as the API takes them
let running = null;    // the AbortController of the answer under way

const log = $('log');
const follow = change => {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
};

function addTurn(role, text) {
  const turn = make('article', 'turn ' + role);
  turn.append(make('h2', '', names[role]));
  if (text) turn.append(make('p', 'text', text));
  follow(() => log.append(turn));
  return turn;
}

/// One answer on the page, and the message that it becomes.
class Answer {
  constructor() {
    this.turn = addTurn('assistant');
    this.turn.setAttribute('aria-busy', 'true');
    this.message = {role: 'assistant', content: ''};
    this.calls = [];
  }
  add(delta) {
    if (delta.reasoning_content) {
      this.message.reasoning_content = (this.message.reasoning_content || '') + delta.reasoning_content;
      if (!this.thoughts) {
        const folded = make('details', 'reasoning'), box = make('p', 'text');
        this.thoughts = document.createTextNode('');
        box.append(this.thoughts);
        folded.append(make('summary', '', 'Reasoning'), box);
        this.turn.append(folded);
      }
      this.thoughts.appendData(delta.reasoning_content);
    }
    if (delta.content) {
      this.message.content += delta.content;
      if (!this.said) {
        const box = make('div', 'answer');
        this.turn.append(box);
        this.said = new MarkdownText(box);
      }
      this.said.append(delta.content);
    }
    for (const part of delta.tool_calls || []) this.addCall(part);
  }
  addCall(part) {
    const i = part.index || 0;
    if (!this.calls[i]) {
      const box = make('div', 'call'), name = make('strong'), text = make('pre');
      box.append(name, text);
      this.turn.append(box);
      this.calls[i] = {name, text, call: {id: '', type: 'function', function: {name: '', arguments: ''}}};
    }
    const {name, text, call} = this.calls[i], said = part.function || {};
    if (part.id) call.id = part.id;
    call.function.name += said.name || '';
    call.function.arguments += said.arguments || '';
    name.textContent = 'Calls ' + call.function.name;
    text.textContent = call.function.arguments;
  }
  /// The message for the next request, or null when there is nothing to go on from.
  finish(notes, timeline) {
    follow(() => {
      if (this.said) this.said.finish();
      if (timeline) this.turn.append(timeline);
      if (notes) this.turn.append(make('p', 'facts', notes));
    });
    this.turn.removeAttribute('aria-busy');
    const calls = this.calls.filter(Boolean).map(c => c.call);
    if (calls.length) this.message.tool_calls = calls;
    if (!this.message.content && !calls.length) return null;
    return this.message;
  }
}

/// Tool calls of the last answer that have no result yet.
function openCalls() {
  const at = history.findLastIndex(m => m.role === 'assistant');
  const calls = at < 0 ? [] : history[at].tool_calls || [];
  const later = history.slice(at + 1);
  if (later.some(m => m.role === 'user')) return [];
  return calls.filter(c => !later.some(m => m.tool_call_id === c.id));
}

function showMode() {
  const open = openCalls();
  $('input-label').textContent = open.length ? 'Result of ' + open[0].function.name : 'Message';
  $('send').disabled = running !== null;
  $('stop').disabled = running === null;
}

function numberOf(id, name) {
  const field = $(id);
  if (!field.checkValidity()) throw new Error(name + ': ' + field.validationMessage);
  return field.value === '' ? undefined : Number(field.value);
}

function requestBody(asked) {
  const system = $('system').value;
  const body = {
    messages: system.trim() ? [{role: 'system', content: system}, ...asked] : asked,
    stream: true, stream_options: {include_usage: true},
    temperature: numberOf('temperature', 'Temperature'), max_tokens: numberOf('max-tokens', 'Tokens'),
  };
  if ($('tools').value.trim()) {
    try { body.tools = JSON.parse($('tools').value); } catch (e) { throw new Error('Tools: ' + e.message); }
  }
  return JSON.stringify(body);
}

function notesOn(reason, usage, {first, last}) {
  const notes = [];
  if (reason && reason !== 'stop') notes.push(reason === 'length' ? 'cut at the token limit' : reason);
  if (usage) {
    const cached = (usage.prompt_tokens_details || {}).cached_tokens;
    notes.push(usage.prompt_tokens + ' tokens in' + (cached ? ' (' + cached + ' cached)' : ''),
               usage.completion_tokens + ' out');
    if (usage.completion_tokens > 1 && last > first) {
      notes.push(((usage.completion_tokens - 1) * 1000 / (last - first)).toFixed(1) + ' tokens/s');
    }
  }
  return notes.join(', ');
}

/// Asks for an answer and adds it to the messages; an error is thrown after what had come was kept.
async function ask(messages, control) {
  const times = {asked: performance.now(), begun: 0, first: 0, last: 0};
  const response = await fetch('v1/chat/completions', {
    method: 'POST', signal: control.signal, body: requestBody(messages),
    headers: {'Content-Type': 'application/json', ...headers()},
  });
  if (!response.ok) throw await refusalOf(response);
  const answer = new Answer();
  let reason = '', usage = null, failure = null;
  try {
    for await (const chunk of chunksOf(response)) {
      usage = chunk.usage || usage;
      for (const choice of chunk.choices) {
        reason = choice.finish_reason || reason;
        times.begun = times.begun || performance.now();
        if (!choice.finish_reason && Object.keys(choice.delta).some(k => k !== 'role' && choice.delta[k])) {
          times.last = performance.now();
          times.first = times.first || times.last;
        }
        follow(() => answer.add(choice.delta));
      }
    }
  } catch (e) {
    failure = e;
  }
  const stopped = control.signal.aborted;
  const message = answer.finish(stopped ? 'stopped' : notesOn(reason, usage, times), timelineOf(times, usage));
  if (message) {
    // A call cut short is no JSON, and nobody can answer it.
    if (failure) delete message.tool_calls;
    if (message.content || message.tool_calls) messages.push(message);
  }
  if (failure && !stopped) throw failure;
}

async function send() {
  const text = $('input').value;
  if (running || !text.trim()) return;
  const kept = history.slice(), [call] = openCalls();
  const message = call ? {role: 'tool', tool_call_id: call.id, content: text} : {role: 'user', content: text};
  $('problem').textContent = '';
  $('input').value = '';
  history.push(message);
  const turn = addTurn(message.role, text);
  log.scrollTop = log.scrollHeight;
  if (openCalls().length) return showMode();
  const control = running = new AbortController();
  const mine = history;
  showMode();
  try {
    await ask(mine, control);
  } catch (e) {
    if (e.name !== 'AbortError' && mine === history) showProblem(e);
  } finally {
    running = null;
  }
  // Without an answer the question is as if never asked, so that roles go on taking turns.
  if (mine === history && history.at(-1) === message) {
    history = kept;
    turn.append(make('p', 'facts', 'without an answer; not part of the conversation'));
    if (!$('input').value) $('input').value = text;
  }
  showMode();
}

function showProblem(e) {
  $('problem').textContent = e.message;
  if (e.status === 401) {
    $('settings').open = true;
    $('key').focus();
  }
}

$('composer').addEventListener('submit', event => {
  event.preventDefault();
  send();
});
// Its fields are read where they are needed; the form is there for password managers and screen readers.
$('options').addEventListener('submit', event => event.preventDefault());
$('input').addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
document.addEventListener('keydown', event => {
  if (event.key === 'Escape' && running) running.abort();
});
$('stop').addEventListener('click', () => {
  if (running) running.abort();
  $('input').focus();
});
$('clear').addEventListener('click', () => {
  if (running) running.abort();
  history = [];
  log.replaceChildren();
  $('problem').textContent = '';
  showMode();
  $('input').focus();
});

