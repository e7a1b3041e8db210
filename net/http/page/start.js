// The beginning: what is kept is read, what is done with keyboard and pointer is heard, the worker is
// watched.

const chat = new Chat();

$('composer').addEventListener('submit', event => {
  event.preventDefault();
  chat.send();
});
// Its fields are read where they are needed; the form is there for password managers and screen readers.
$('options').addEventListener('submit', event => event.preventDefault());
$('key').addEventListener('change', () => settings.loadDefaults());
$('key').addEventListener('keydown', event => {
  if (event.key !== 'Enter') return;
  event.preventDefault();
  asking.useKey();
});
$('stop').addEventListener('click', () => asking.stop());
$('clear').addEventListener('click', () => chat.fresh());
$('clear-top').addEventListener('click', () => chat.fresh());
$('private').addEventListener('change', () => {
  // The switch itself is kept: who asks for nothing to be kept asks for it after a reload, too.
  store.write('', {settings: {put: [{name: 'private', on: isPrivate()}, {name: 'draft', text: ''}]}});
  const text = $('input').value;
  if (!chat.conversation.messages.size) {
    chat.fresh();
    composer.fill(text);
  } else if (isPrivate()) {
    chat.fresh();
    showNotice('A private chat: nothing of it is kept. The one before is in the list.');
  }
});
document.addEventListener('visibilitychange', watch);
// A page that is left must not lose what was typed last.
addEventListener('pagehide', () => {
  composer.flush();
  if (settings.saving) settings.keepNow();
  for (const {conversation, answer} of asking.runs.values()) {
    conversations.keep(conversation, [answer.message]);
  }
});
addEventListener('popstate', () => {
  const id = location.hash.slice(1);
  id ? chat.open(id) : chat.show(Conversation.fresh(isPrivate()));
});

store.told = trouble => { $('not-kept').textContent = trouble; };

async function begin() {
  beginKeys();
  await store.open();
  const layout = await store.one('settings', 'layout') || {};
  settings.layout = layout;
  beginLayout(layout);
  settings.ready = true;
  $('private').checked = (await store.one('settings', 'private'))?.on === true;
  await settings.load();
  await conversations.load();
  const id = location.hash.slice(1);
  if (id && conversations.records.has(id)) {
    await chat.open(id);
  } else {
    if (id) history.replaceState(null, '', location.pathname);
    const draft = isPrivate() ? '' : (await store.one('settings', 'draft'))?.text;
    if (!chat.conversation.messages.size && !$('input').value) {
      chat.show(Conversation.fresh(isPrivate()));
      composer.fill(draft || '');
    }
    chat.draw();
  }
  document.body.dataset.ready = 'yes';
  $('input').focus({preventScroll: true});
}
chat.showMode();
watch();
begin();
