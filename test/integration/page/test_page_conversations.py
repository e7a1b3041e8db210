"""What the browser keeps of conversations: the list, what outlives a reload, files, two tabs, and what is
said where nothing can be kept."""
import json

import pytest

from browser import Tab, answer_with, said


def titles(tab: Tab) -> list:
    return tab.page.locator('#chats .title').all_text_contents()


def wait_titles(tab: Tab, *names: str) -> None:
    tab.wait(lambda: titles(tab) == list(names), f'the list has {names}')


def talk(tab: Tab, question: str, answer: str) -> None:
    before = tab.page.locator('.turn.assistant').count()
    answer_with(tab, said(answer))
    tab.say(question)
    tab.wait(lambda: tab.page.locator('.turn.assistant').count() > before, 'an answer begins')
    tab.wait_done()


def row(tab: Tab, title: str):
    return tab.page.locator('#chats li', has_text=title)


def test_conversations_are_kept_listed_renamed_and_deleted(tab):
    talk(tab, 'What is red?', 'A colour.')
    tab.button('New chat').click()
    talk(tab, 'What is blue?', 'Another *one*.')
    wait_titles(tab, 'What is blue?', 'What is red?')
    tab.reload()
    tab.wait_turns('What is blue?', 'Another one.')
    row(tab, 'red').locator('.open').click()
    tab.wait_turns('What is red?', 'A colour.')
    tab.page.go_back()
    tab.wait_turns('What is blue?', 'Another one.')

    row(tab, 'red').hover()
    tab.button('Rename: What is red?').click()
    tab.page.get_by_label('Title').fill('Colours')
    tab.page.keyboard.press('Enter')
    wait_titles(tab, 'What is blue?', 'Colours')

    tab.page.get_by_role('searchbox').fill('COLOUR.')
    wait_titles(tab, 'Colours')
    assert row(tab, 'Colours').locator('.day').text_content() == 'A colour.', 'where it was found'
    tab.page.get_by_role('searchbox').fill('nowhere')
    tab.page.get_by_text('Nothing found.').wait_for()
    tab.page.get_by_role('searchbox').fill('')
    wait_titles(tab, 'What is blue?', 'Colours')

    row(tab, 'blue').hover()
    tab.button('Delete: What is blue?').click()
    wait_titles(tab, 'Colours')
    tab.wait(lambda: tab.turns() == [], 'it is not shown any more')
    tab.notice('was deleted').get_by_role('button', name='Undo').click()
    tab.wait_turns('What is blue?', 'Another one.')
    row(tab, 'Colours').hover()
    tab.button('Delete: Colours').click()
    wait_titles(tab, 'What is blue?')
    tab.reload()
    wait_titles(tab, 'What is blue?')


def test_a_conversation_can_be_deleted_while_it_is_answered(tab, worker):
    tab.go_on()
    tab.say('Once upon a time')
    tab.wait(tab.said, 'text appears')
    row(tab, 'Once').hover()
    tab.button('Delete: Once upon a time').click()
    wait_titles(tab)
    tab.wait(lambda: worker.running() == 0, 'its job has ended')
    tab.page.unroute_all()
    talk(tab, 'Hello', 'Good day.')
    wait_titles(tab, 'Hello')
    assert counted(tab) == [1, 2]


def test_a_draft_and_the_settings_outlive_a_reload(tab):
    tab.set('Temperature', '0.25')
    tab.set('System prompt', 'Be brief.')
    tab.field().fill('Half a thou')
    tab.wait(lambda: kept(tab, 'settings', 'draft').get('text') == 'Half a thou', 'the draft is kept')
    tab.wait(lambda: kept(tab, 'settings', 'settings')['values']['temperature'] == '0.25', 'so is that')
    tab.reload()
    assert tab.field().input_value() == 'Half a thou'
    talk(tab, 'Hello', 'Good day.')
    assert tab.bodies[-1]['temperature'] == 0.25
    assert tab.bodies[-1]['messages'][0] == {'role': 'system', 'content': 'Be brief.'}
    tab.field().type('And th')
    tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    tab.reload()
    tab.wait_turns('Hello', 'Good day.')
    assert tab.field().input_value() == 'And th', 'of this conversation'


def kept(tab: Tab, part: str, key: str) -> dict:
    return tab.page.evaluate('([part, key]) => store.database.one(part, key)', [part, key]) or {}


def counted(tab: Tab) -> list:
    return tab.page.evaluate("""async () => [(await store.database.all('conversations')).length,
                                             (await store.database.all('messages')).length]""")


def test_nothing_of_a_private_chat_is_kept(tab):
    talk(tab, 'Open', 'Kept.')
    tab.page.get_by_label('Private').check()
    tab.wait(lambda: tab.turns() == [], 'another chat begins')
    talk(tab, 'A secret', 'Not kept.')
    wait_titles(tab, 'A secret', 'Open')
    tab.field().type('more of it')
    tab.page.evaluate("dispatchEvent(new Event('pagehide'))")
    assert counted(tab) == [1, 2]
    assert 'secret' not in tab.page.evaluate("""async () => JSON.stringify(await Promise.all(
        Object.keys(storeParts).map(part => store.database.all(part))))""") and '#' not in tab.page.url
    tab.reload()
    wait_titles(tab, 'Open')
    assert tab.page.get_by_label('Private').is_checked(), 'who wants nothing kept need not say it twice'
    assert tab.field().input_value() == ''


def export(tab: Tab, title: str, kind: str) -> str:
    row(tab, title).hover()
    tab.button(f'Export: {title}').click()
    with tab.page.expect_download() as loaded:
        tab.button(kind).click()
    return open(loaded.value.path(), encoding='utf-8').read()


def bring(tab: Tab, name: str, text: str) -> None:
    tab.page.locator('#import-file').set_input_files(
        {'name': name, 'mimeType': 'text/plain', 'buffer': text.encode()})


ODD = '## You\n\n<!-- worker-orcd: user -->\n\\<!-- worker-orcd: tool -->\n## Model\n'


def test_files_of_conversations_can_be_read_back(tab):
    talk(tab, 'First', 'One.')
    talk(tab, ODD, ODD)
    answer_with(tab, said('Other.'))
    tab.page.locator('.turn.assistant').last.get_by_role('button', name='Write another answer').click()
    tab.wait(lambda: tab.said() == 'Other.', 'another version')
    tab.wait_done()
    as_json, as_markdown = export(tab, 'First', 'As JSON'), export(tab, 'First', 'As Markdown')
    (written,) = json.loads(as_json)['conversations']
    assert [m['content'] for m in written['messages']] == ['First', 'One.', ODD, ODD, 'Other.']
    assert 'Other.' in as_markdown and as_markdown.startswith('<!-- worker-orcd: title -->\n# First\n')
    shown = tab.page.evaluate('chat.conversation.path().map(m => m.content)')

    bring(tab, 'a.json', as_json)
    tab.notice('a.json: one conversation was imported')
    wait_titles(tab, 'First', 'First')
    tab.page.locator('.turn.assistant').last.get_by_text('2 / 2').wait_for()
    assert tab.page.evaluate('chat.conversation.path().map(m => m.content)') == shown
    tab.page.locator('.turn.assistant').last.hover()
    tab.page.get_by_role('button', name='Version before').click()
    tab.wait(lambda: tab.said() == ODD, 'the other version came with it')

    bring(tab, 'b.md', as_markdown)
    tab.notice('b.md: one conversation was imported')
    tab.wait(lambda: tab.page.evaluate('chat.conversation.path().map(m => m.content)') == shown, 'the same')
    with tab.page.expect_download() as loaded:
        tab.button('Export all').click()
    assert len(json.load(open(loaded.value.path(), encoding='utf-8'))['conversations']) == 3


BROKEN = {
    'cut.json': ('{"format": "worker-orcd conv', 'it is no JSON'),
    'foreign.json': ('{"hello": 1}', 'it was not written by this page'),
    'newer.json': ('{"format": "worker-orcd conversations", "version": 2}', 'written by a newer page'),
    'empty.json': ('{"format": "worker-orcd conversations", "version": 1}', 'no list of conversations'),
    'role.json': (json.dumps({'format': 'worker-orcd conversations', 'version': 1, 'conversations': [
        {'messages': [{'role': 'user', 'content': 'a'}, {'role': 'king', 'content': 'b'}]}]}),
        'conversation 1, message 2 has no role'),
    'circle.json': (json.dumps({'format': 'worker-orcd conversations', 'version': 1, 'conversations': [
        {'messages': [{'id': 'x', 'role': 'user', 'content': 'a', 'parent': 'x'}]}]}),
        'follows a message that is not before it'),
    'plain.md': ('# Nothing of ours', 'it has no marks of this page'),
}


def test_a_broken_file_changes_nothing(tab):
    talk(tab, 'Here', 'Yes.')
    for name, (text, why) in BROKEN.items():
        bring(tab, name, text)
        assert why in tab.notice(name).text_content()
    assert counted(tab) == [1, 2]
    tab.wait_turns('Here', 'Yes.')


# What a browser may do to a page that wants to keep something, run before its scripts.
SPOIL = "Object.defineProperty(window, 'indexedDB', {value: %s})"
REFUSED = SPOIL % "{open() { throw new DOMException('', 'SecurityError'); }}"
NONE = SPOIL % 'undefined'


@pytest.mark.parametrize('spoil', [REFUSED, NONE], ids=['refused', 'none'])
def test_without_a_place_to_keep_it_says_so_and_works(chromium, worker, spoil):
    with Tab(chromium, worker.port) as tab:
        tab.page.add_init_script(spoil)
        tab.load()
        tab.page.locator('#not-kept', has_text='Nothing is kept').wait_for()
        talk(tab, 'Hello', 'Good day.')
        tab.button('New chat').click()
        talk(tab, 'Again', 'Yes.')
        row(tab, 'Hello').locator('.open').click()
        tab.wait_turns('Hello', 'Good day.')
        assert tab.errors == []


def test_a_full_store_is_said_and_loses_nothing(tab):
    talk(tab, 'Before', 'Kept.')
    tab.page.evaluate("""() => {
      window.put = IDBObjectStore.prototype.put;
      IDBObjectStore.prototype.put = () => { throw new DOMException('', 'QuotaExceededError'); };
    }""")
    talk(tab, 'Meanwhile', 'In memory.')
    tab.page.locator('#not-kept', has_text='storage that the browser gives this page is full').wait_for()
    tab.wait_turns('Before', 'Kept.', 'Meanwhile', 'In memory.')
    tab.button('New chat').click()
    row(tab, 'Before').locator('.open').click()
    tab.wait_turns('Before', 'Kept.', 'Meanwhile', 'In memory.')
    tab.page.evaluate('void (IDBObjectStore.prototype.put = put)')
    talk(tab, 'After', 'Kept again.')
    tab.wait(lambda: tab.page.locator('#not-kept').text_content() == '', 'it is kept again')


OTHER_VERSION = """version => new Promise((done, failed) => {
  indexedDB.deleteDatabase('worker-orcd');
  const asking = indexedDB.open('worker-orcd', version);
  asking.onupgradeneeded = () => {
    asking.result.createObjectStore('conversations', {keyPath: 'id'}).put(
      {id: 'old', title: 'From before', created: 1, changed: 1, leaf: 'm', draft: ''});
    const messages = asking.result.createObjectStore('messages', {keyPath: 'id'});
    messages.createIndex('conversation', 'conversation');
    messages.put({id: 'm', conversation: 'old', parent: null, role: 'user', content: 'A question', made: 1});
  };
  asking.onsuccess = () => { asking.result.close(); done(); };
  asking.onerror = () => failed(asking.error);
})"""


@pytest.mark.parametrize('version', [1, 99])
def test_what_another_version_has_kept_is_not_lost(chromium, worker, version):
    with Tab(chromium, worker.port) as tab:
        tab.page.goto(tab.origin + 'live')  # of the same origin, without the page
        tab.page.evaluate(OTHER_VERSION, version)
        tab.load()
        if version == 1:
            row(tab, 'From before').locator('.open').click()
            tab.wait_turns('A question')
            return
        tab.page.locator('#not-kept', has_text='a newer version of this page').wait_for()
        talk(tab, 'Hello', 'Good day.')
        tab.page.goto(tab.origin + 'live')
        assert tab.page.evaluate("""async () => (await indexedDB.databases())[0].version""") == 99


def test_two_tabs_share_what_is_kept(tab, worker):
    talk(tab, 'First', 'One.')
    other = tab.page.context.new_page()
    other.goto(tab.page.url)
    bodies = other.locator('.turn .body')
    tab.wait(lambda: bodies.all_text_contents() == ['First', 'One.'], 'it is there, too')
    talk(tab, 'Second', 'Two.')
    tab.wait(lambda: [t.strip() for t in bodies.all_text_contents()] == ['First', 'One.', 'Second', 'Two.'],
             'what one tab writes the other shows')
    tab.page.unroute_all()
    tab.go_on()
    tab.set('Tokens of an answer', '3000')
    tab.say('A long one')
    tab.wait(tab.said, 'it begins')
    other.locator('.facts', has_text='being written in another tab').wait_for()
    other.reload()
    other.locator('.facts', has_text='being written in another tab').wait_for()
    tab.page.keyboard.press('Escape')
    tab.wait_done()
    last = other.locator('.turn.assistant').last
    last.locator('.facts', has_text='stopped').wait_for()
    tab.wait(lambda: other.evaluate('chat.conversation.path().at(-1).content') == tab.said(), 'all of it')
    other.close()
