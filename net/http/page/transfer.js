// Conversations as files: JSON, which holds all versions of all messages, and Markdown, which holds what is
// shown. Both can be read back; what cannot is refused as a whole, in words.

const transferFormat = 'worker-orcd conversations';
const transferMax = 256 * 1024 * 1024;  // bytes of a file
const roles = ['user', 'assistant', 'tool'];
const roleTitles = {user: 'You', assistant: 'Model', tool: 'Tool result'};

function download(name, type, text) {
  const link = make('a'), address = URL.createObjectURL(new Blob([text], {type}));
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
const fileName = (title, end) =>
  (title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 60) || 'chat') + end;

/// The text of a JSON file of these conversations.
const jsonOf = conversations => JSON.stringify({
  format: transferFormat, version: 1,
  conversations: conversations.map(conversation => {
    const {id, draft, private: secret, ...rest} = conversation.record;
    return {...rest, messages: conversation.inOrder().map(({conversation: place, ...message}) => message)};
  }),
}, null, 1);

// A line that could be taken for a mark gets a backslash in front, and loses it when it is read.
const markOf = (role, more) => `<!-- worker-orcd: ${role}${more} -->`;
const markLike = /^(\\*)(?=<!-- worker-orcd: )/gm;
const markLine = /^<!-- worker-orcd: (title|user|assistant|tool|reasoning|calls|media)(?: (.*?))? -->\r?$/;

/// What is shown of a conversation, as Markdown.
function markdownOf(conversation) {
  const lines = [markOf('title', ''), '# ' + (conversation.record.title || 'Chat').replace(/\n/g, ' '), ''];
  const part = (mark, text) => lines.push(mark, text.replace(markLike, '\\$1'), '');
  for (const m of conversation.path()) {
    lines.push('## ' + roleTitles[m.role], '');
    if (m.reasoning_content) part(markOf('reasoning', ''), m.reasoning_content);
    if (m.media) part(markOf('media', ''), JSON.stringify(m.media));
    if (m.tool_calls) part(markOf('calls', ''), JSON.stringify(m.tool_calls));
    part(markOf(m.role, m.tool_call_id ? ' ' + encodeURIComponent(m.tool_call_id) : ''), m.content);
  }
  return lines.join('\n');
}

/// The conversation in such a file, as jsonOf would give it.
function readMarkdown(text) {
  const parts = [];
  for (const line of text.split('\n')) {
    const mark = markLine.exec(line);
    if (mark) parts.push({kind: mark[1], more: mark[2] || '', lines: []});
    else if (parts.length) parts.at(-1).lines.push(line);
  }
  if (!parts.length) throw new Error('it has no marks of this page (<!-- worker-orcd: user -->)');
  // Behind each text there is an empty line, and then, between messages, the heading of the next one.
  const textOf = ({kind, lines}, next) => {
    const own = lines.slice();
    if (next && ['title', ...roles].includes(kind) && /^## /.test(own.at(-2) || '')) own.splice(-2);
    if (own.at(-1) === '') own.pop();
    return own.join('\n').replace(/^\\(\\*)(?=<!-- worker-orcd: )/gm, '$1');
  };
  const out = {title: '', messages: []};
  let more = {};
  parts.forEach((part, i) => {
    const said = textOf(part, parts[i + 1]);
    if (part.kind === 'title') out.title = said.replace(/^# /, '').trim();
    else if (part.kind === 'reasoning') more.reasoning_content = said;
    else if (part.kind === 'media') more.media = JSON.parse(said);
    else if (part.kind === 'calls') more.tool_calls = JSON.parse(said);
    else {
      const before = out.messages.at(-1), id = String(i);
      if (part.more) more.tool_call_id = decodeURIComponent(part.more);
      out.messages.push({id, parent: before ? before.id : null, role: part.kind, content: said, ...more});
      more = {};
    }
  });
  out.leaf = out.messages.at(-1)?.id;
  return [out];
}

const isText = value => typeof value === 'string';
const isCall = call =>
  call && isText(call.id) && call.function && isText(call.function.name) && isText(call.function.arguments);

/// A message of a file with what this page needs and nothing else; wrong ones are refused by their place.
function checkedMessage(message, place, known) {
  const wrong = what => { throw new Error(place + ' ' + what); };
  if (!message || typeof message !== 'object') wrong('is no object');
  const id = message.id === undefined ? place : String(message.id);
  if (!roles.includes(message.role)) wrong('has no role of user, assistant or tool');
  if (!isText(message.content)) wrong('has no text as content');
  if (known.has(id)) wrong('has an id that is there twice');
  if (message.parent !== undefined && message.parent !== null && !known.has(String(message.parent))) {
    wrong('follows a message that is not before it');
  }
  const out = {id, parent: message.parent ?? null, role: message.role, content: message.content};
  if (out.parent !== null) out.parent = String(out.parent);
  out.made = Number.isFinite(message.made) ? message.made : Date.now();
  if (isText(message.reasoning_content)) out.reasoning_content = message.reasoning_content;
  if (isText(message.tool_call_id)) out.tool_call_id = message.tool_call_id;
  if (message.tool_calls !== undefined) {
    if (!Array.isArray(message.tool_calls) || !message.tool_calls.every(isCall))
      wrong('has calls of another form');
    out.tool_calls = message.tool_calls;
  }
  if (message.media !== undefined) {
    if (!Array.isArray(message.media) || !message.media.every(isMedium)) wrong('has media of another form');
    out.media = message.media.map(({name, type, data}) => ({name, type, data}));
  }
  if (message.role === 'assistant')
    out.ended = isText(message.ended) && message.ended !== 'running' ? message.ended : 'stop';
  if (isText(message.model)) out.model = message.model;
  if (Number.isSafeInteger(message.seed)) out.seed = message.seed;
  for (const name of ['usage', 'times']) {
    const figures = message[name];
    if (figures && typeof figures === 'object' && !Array.isArray(figures)) out[name] = figures;
  }
  return out;
}

/// A file's conversations as new ones: ids are made anew, so that nothing that is here is touched.
function readConversations(text, name) {
  let listed;
  if (/\.(md|markdown)$/i.test(name)) {
    listed = readMarkdown(text);
  } else {
    let read;
    try { read = JSON.parse(text); } catch (e) { throw new Error('it is no JSON: ' + e.message); }
    if (!read || read.format !== transferFormat)
      throw new Error('it was not written by this page (no "format": "' + transferFormat + '")');
    if (read.version !== 1)
      throw new Error('it was written by a newer page: version ' + read.version + ', this one reads 1');
    if (!Array.isArray(read.conversations)) throw new Error('it has no list of conversations');
    listed = read.conversations;
  }
  return listed.map((one, i) => {
    if (!one || typeof one !== 'object' || !Array.isArray(one.messages))
      throw new Error('conversation ' + (i + 1) + ' has no list of messages');
    const known = new Map();
    const checked = one.messages.map((message, j) => {
      const good = checkedMessage(message, 'conversation ' + (i + 1) + ', message ' + (j + 1), known);
      known.set(good.id, freshId());
      return good;
    });
    const conversation = Conversation.fresh(isPrivate()),
          at = Number.isFinite(one.changed) ? one.changed : Date.now();
    for (const message of checked) {
      conversation.link({...message, id: known.get(message.id), conversation: conversation.id,
                         parent: message.parent === null ? null : known.get(message.parent)});
    }
    Object.assign(conversation.record, {
      title: isText(one.title) ? one.title.slice(0, 200) : '',
      changed: at,
      leaf: known.get(String(one.leaf)) || known.get(checked.at(-1)?.id) || null
    });
    return conversation;
  });
}
