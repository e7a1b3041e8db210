// The keyboard: what each key does, and the sheet that says so.

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
const mainKey = isMac ? '\u2318' : 'Ctrl';
const helpRows = [
  [
    'In the message field',
    [
      ['Enter', 'send'], ['Shift+Enter', 'begin a line'], ['Escape', 'stop the answer'],
      ['Up, in an empty field', 'edit the last question']
    ]
  ],
  [
    'Everywhere',
    [
      ['MAIN+Shift+O', 'new chat'], ['MAIN+K', 'find a conversation'],
      ['MAIN+B', 'show or hide the conversations'], ['MAIN+.', 'show or hide state and settings'],
      ['MAIN+Shift+C', 'copy the last answer'], ['MAIN+/', 'this sheet'],
      ['Escape', 'close what is open, stop the answer']
    ]
  ],
  [
    'On a message (Up and Down go from one to the next)',
    [
      ['E', 'edit'], ['C', 'copy'], ['R', 'ask again, write another answer'],
      ['T', 'text as the model wrote it'], ['P', 'tokens and their probabilities'],
      ['Left, Right', 'other versions'], ['Delete', 'delete it and what follows'],
      ['Enter', 'back to the message field']
    ]
  ],
];

function drawHelp() {
  for (const [title, rows] of helpRows) {
    const list = make('dl');
    for (const [keys, does] of rows) {
      const term = make('dt');
      term.append(
        ...keys.replace('MAIN', mainKey)
          .split('+')
          .flatMap((key, i) => [...(i ? ['+'] : []), key.includes(' ') ? key : make('kbd', '', key)]));
      list.append(term, make('dd', '', does));
    }
    $('help-rows').append(make('h3', '', title), list);
  }
}

const everywhere = {
  'shift+o': () => chat.fresh(),
  k: () => { setPanel('list', true); $('search').focus(); },
  b: () => panels.list.click(),
  '.': () => panels.panel.click(),
  '/': () => $('help').showModal(),
  'shift+c': () => copyLast(),
};
async function copyLast() {
  const last = chat.conversation.path().findLast(m => m.role === 'assistant');
  if (!last) return;
  try {
    await copyPlain(last.content);
    showNotice('The last answer was copied.');
  } catch {
    showNotice('The browser did not let the page copy.');
  }
}

/// Keys on a message that has the focus. True where the key did something.
function pressOnMessage(event, view) {
  const turns = [...log.querySelectorAll('.turn')], at = turns.indexOf(view.turn);
  const press = label => view.foot.querySelector(`button[aria-label^="${label}"]`);
  const buttons = {
    e: 'Edit',
    c: 'Copy text',
    t: 'Text as',
    p: 'Tokens',
    r: view.message.role === 'user' ? 'Ask again' : 'Write another',
    Delete: 'Delete',
    ArrowLeft: 'Version before',
    ArrowRight: 'Next version'
  };
  if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
    const next = turns[at + (event.key === 'ArrowUp' ? -1 : 1)];
    next ? next.focus() : $('input').focus();
  } else if (event.key === 'Enter') {
    $('input').focus();
  } else {
    view.dress();  // whose buttons may not be there yet
    const button = buttons[event.key] && press(buttons[event.key]);
    if (!button || button.disabled) return false;
    button.click();
  }
  return true;
}

function beginKeys() {
  drawHelp();
  $('show-help').addEventListener('click', () => $('help').showModal());
  // A click beside a sheet closes it.
  for (const sheet of document.querySelectorAll('dialog')) {
    sheet.addEventListener('click', event => { if (event.target === sheet) sheet.close(); });
    for (const button of sheet.querySelectorAll('[data-done]'))
      button.addEventListener('click', () => sheet.close());
  }
  document.addEventListener('keydown', event => {
    if (document.querySelector('dialog[open]')) return;
    if ((isMac ? event.metaKey : event.ctrlKey) && !event.altKey) {
      const act = everywhere[(event.shiftKey ? 'shift+' : '') + event.key.toLowerCase()];
      if (!act) return;
      event.preventDefault();
      act();
    } else if (event.key === 'Escape') {
      if (!closeCover() && chat.running) asking.stop();
    } else if (event.target.view && !event.altKey && !event.metaKey && !event.ctrlKey) {
      if (pressOnMessage(event, event.target.view)) event.preventDefault();
    }
  });
  $('input').addEventListener('keydown', event => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      chat.send();
    } else if (event.key === 'ArrowUp' && !$('input').value) {
      const last = chat.conversation.path().findLast(m => m.role === 'user'),
            view = last && chat.views.get(last.id);
      if (!view || chat.running) return;
      event.preventDefault();
      view.dress();
      view.edit();
    }
  });
  // From the conversation as a whole, arrows go to its last message.
  log.addEventListener('keydown', event => {
    if (event.target !== log || event.key !== 'ArrowUp' || !log.lastElementChild) return;
    event.preventDefault();
    log.lastElementChild.focus();
  });
}
