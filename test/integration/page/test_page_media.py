"""Pictures and sounds on the page: attached, sent, shown, kept, edited, and brought to another browser."""
import base64
import sys
from pathlib import Path
from typing import Iterator

import pytest

from browser import Tab
from completion_worker import TEMPLATE
from worker_process import Worker

sys.path.append(str(Path(__file__).resolve().parents[1] / 'models'))

from picture_files import image_part, png  # noqa: E402
from sound_files import wav  # noqa: E402

MEDIA = Path(__file__).resolve().parents[2] / 'data' / 'media'
PARTS = TEMPLATE.replace('{{ message.content }}',
                         "{% if message.content is string %}{{ message.content }}{% else %}"
                         "{% for part in message.content %}"
                         "{{ part.text if part.type == 'text' else '<image>' }}{% endfor %}{% endif %}")


@pytest.fixture(scope='module')
def seeing(models, tmp_path_factory) -> Iterator[Worker]:
    template = tmp_path_factory.mktemp('seeing') / 'template.jinja'
    template.write_text(PARTS)
    model = models('page-sees', '--embedding', '96', '--heads', '4', '--kv-heads', '2', '--context', '1024',
                   '--picture-tokens')
    with Worker('--model', model, '--mmproj', MEDIA / 'idefics3.gguf', '--chat-template', template,
                '--threads', '1') as running:
        running.wait_event('ready')
        yield running


@pytest.fixture
def tab(chromium, seeing) -> Iterator[Tab]:
    with Tab(chromium, seeing.port, accept_downloads=True) as opened:
        opened.set('Tokens of an answer', '4')
        yield opened
        assert opened.errors == []
    seeing.wait_idle()


def attach(tab: Tab, *files: tuple) -> None:
    tab.page.locator('#attach-file').set_input_files(
        [{'name': name, 'mimeType': kind, 'buffer': data} for name, kind, data in files])


def pictures(tab: Tab):
    return tab.page.locator('.turn .media img')


def test_a_picture_is_sent_shown_kept_and_edited(tab):
    file = png(40, 30)
    attach(tab, ('red.jpg', 'image/jpeg', file))  # by its content, not by its name
    tab.page.locator('.chip', has_text='red.jpg').locator('img').wait_for()
    tab.say('What is it?')
    pictures(tab).first.wait_for()
    tab.wait_done()
    content = [image_part(file), {'type': 'text', 'text': 'What is it?'}]
    assert tab.bodies[-1]['messages'] == [{'role': 'user', 'content': content}]
    assert pictures(tab).evaluate('e => e.naturalWidth') == 40
    assert tab.page.locator('.chip').count() == 0
    assert tab.problem() == ''
    tab.reload()
    pictures(tab).first.wait_for()
    assert pictures(tab).evaluate('e => e.naturalHeight') == 30
    tab.page.locator('.turn.user').hover()
    tab.button('Edit').first.click()
    tab.page.get_by_label('Your text').fill('And now?')
    tab.button('Ask this').click()
    tab.page.locator('.turn.user').get_by_text('2 / 2').wait_for()
    tab.wait_done()
    content = tab.bodies[-1]['messages'][0]['content']
    assert [part['type'] for part in content] == ['image_url', 'text']
    assert content[1]['text'] == 'And now?'


def test_a_picture_alone_is_a_question(tab):
    attach(tab, ('alone.png', 'image/png', png(20, 20)))
    tab.page.locator('.chip img').wait_for()
    tab.page.locator('#send').click()
    pictures(tab).first.wait_for()
    tab.wait_done()
    assert [part['type'] for part in tab.bodies[-1]['messages'][0]['content']] == ['image_url']
    assert tab.page.locator('#chats .title').first.text_content() == 'alone.png'


def test_what_this_model_does_not_take_is_said(tab):
    attach(tab, ('tone.wav', 'audio/wav', wav(0.1)), ('old.gif', 'image/gif', b'GIF89a'),
           ('far.png', 'image/png', png(4, 4) + b'\0' * (20 << 20)))
    tab.notice('This model takes no sounds: tone.wav')
    tab.notice('old.gif cannot be sent: pictures are PNG, JPEG or WebP files.')
    tab.notice('far.png is too long to be attached: 20.0 MiB of at most 20.')
    assert tab.page.locator('.chip').count() == 0


@pytest.mark.parametrize('kind', ['JSON', 'Markdown'])
def test_files_of_conversations_hold_pictures(tab, kind):
    file = png(30, 20)
    attach(tab, ('kept.png', 'image/png', file))
    tab.page.locator('.chip img').wait_for()
    tab.say('Keep it')
    pictures(tab).first.wait_for()
    tab.wait_done()
    row = tab.page.locator('#chats li', has_text='Keep it')
    row.hover()
    tab.button('Export: Keep it').click()
    with tab.page.expect_download() as download:
        tab.button('As ' + kind).click()
    text = Path(download.value.path()).read_bytes()
    assert base64.b64encode(file) in text
    tab.button('New chat').click()
    name = 'back.json' if kind == 'JSON' else 'back.md'
    tab.page.locator('#import-file').set_input_files([{'name': name, 'mimeType': '', 'buffer': text}])
    tab.notice('imported')
    pictures(tab).first.wait_for()
    assert pictures(tab).evaluate('e => e.naturalWidth') == 30
    forged = text.replace(base64.b64encode(file), b'&quot; onerror=&quot;')
    tab.page.locator('#import-file').set_input_files([{'name': name, 'mimeType': '', 'buffer': forged}])
    tab.notice('has media of another form')
