// Words for what goes wrong, and what its user can do about it.

/// By the worker's code: what it means for who reads this page, and the one thing to do. `again` asks once
/// more, `on` goes on with an answer that broke, `key` and `settings` lead to the field.
const meaningOf = {
  UNAUTHORIZED: ['The worker asks for an API key.', 'key'],
  FORBIDDEN: ['This key may not do that, or the worker does not take requests from this address.', 'key'],
  NOT_FOUND: ['The worker does not have this.', ''],
  model_not_found:
    ['The worker serves no such model or adapter any more. Choose another one in the settings.', 'settings'],
  QUEUE_FULL: ['The worker is busy: all places are taken.', 'again'],
  NOT_READY: ['The worker is starting; its model is not loaded yet.', 'again'],
  DRAINING: ['The worker is about to stop. It ends what it has begun and takes nothing new.', 'again'],
  CONTEXT_LENGTH_EXCEEDED: [
    'This conversation is longer than the model can read. Go on from an earlier message or begin a new chat.',
    ''
  ],
  PAYLOAD_TOO_LARGE: ['This message is too long for the worker.', ''],
  INVALID_REQUEST: ['The worker does not take this request as it is.', 'settings'],
  INFERENCE_TIMEOUT: ['The answer took longer than the worker allows.', 'on'],
  CANCELLED: ['The answer was ended from elsewhere.', 'on'],
  VRAM_OOM: ['The GPU has no memory left for this.', 'again'],
  CUDA_ERROR: ['The GPU has failed. The worker ends, and may be started again.', 'on'],
  INTERNAL: ['The worker has failed at this answer.', 'on'],
  ENGINE_LOST: ['The engines that worked at this answer are gone.', 'on'],
  ENGINE_CHANGED: ['Another engine serves now, and it would answer otherwise.', 'again'],
};
meaningOf.context_length_exceeded = meaningOf.CONTEXT_LENGTH_EXCEEDED;
const meaningOfStatus = {401: 'UNAUTHORIZED', 403: 'FORBIDDEN', 404: 'NOT_FOUND', 413: 'PAYLOAD_TOO_LARGE',
                         429: 'QUEUE_FULL', 503: 'NOT_READY', 504: 'INFERENCE_TIMEOUT'};

/// {title, detail, act} of an error: a sentence of the page's own, what the worker said, and what can be
/// done.
function wordsFor(error) {
  if (error instanceof Refusal) {
    const code = error.code || meaningOfStatus[error.status] || '';
    const [title, act] = meaningOf[code] || ['The worker could not do this.', 'again'];
    const named =
      [error.code, error.param && 'field ' + error.param, error.status && 'status ' + error.status];
    const place = named.filter(Boolean).join(', ');
    return {title, act, detail: error.message + (place ? ' (' + place + ')' : '') +
                                (error.wait ? '. Try again in ' + error.wait + ' s.' : '')};
  }
  if (error instanceof CutShort) {
    return {title: 'The connection ended before the answer was complete. What came is kept.', act: 'on',
            detail: 'The worker may have been stopped or restarted, or the network was cut.'};
  }
  if (error instanceof TypeError) {
    return {
      title: 'The worker cannot be reached.',
      act: 'again',
      detail: 'It may be restarting; this page goes on looking for it and says above when it is there.'
    };
  }
  return {title: error.message, act: '', detail: ''};
}

/// Something of which the page says where it is: {field, message}.
class WrongField extends Error {
  constructor(field, name, message) {
    super(name + ': ' + message);
    this.field = field;
  }
}

/// Says what went wrong above the composer, with a button for what can be done: acts has a function for each
/// name in meaningOf.
function showProblem(error, acts) {
  const {title, detail, act} = wordsFor(error), box = $('problem');
  // What has not begun cannot be gone on with; where a field is to be set first, it is asked again after
  // that.
  const first = act === 'on' && !acts.on ? 'again' : act,
        names = first === 'key' || first === 'settings' ? [first, 'again'] : [first];
  box.replaceChildren(make('strong', '', title));
  if (detail) box.append(make('span', 'detail', detail));
  const labels =
    {again: 'Try again', on: 'Continue the answer', key: 'Enter a key', settings: 'Open settings'};
  for (const name of names.filter(one => acts[one])) {
    box.append(textButton(labels[name], () => { clearProblem(); acts[name](); }));
  }
  box.append(iconButton('close', 'Close this message', clearProblem));
}
function clearProblem() {
  $('problem').replaceChildren();
}

/// A word about something that is done, with a button to undo it where that is possible. It goes by itself,
/// but not while it is read by pointer or keyboard.
const noticeTime = 12000;
function showNotice(text, label, act) {
  const box = make('div', 'notice');
  box.append(make('span', '', text));
  const close = () => box.remove();
  if (label) box.append(textButton(label, () => { close(); act(); }));
  box.append(iconButton('close', 'Close this notice', close));
  $('notices').append(box);
  while ($('notices').children.length > 3) $('notices').firstChild.remove();
  const leave = () => box.matches(':hover, :focus-within') ? setTimeout(leave, 2000) : close();
  setTimeout(leave, noticeTime);
}
