"""Requests with pictures or sounds whose engine dies."""
import http.client
import json
import sys
from pathlib import Path

import pytest

from worker_process import BACKEND, SANITIZED

sys.path.append(str(Path(__file__).resolve().parents[1] / 'models'))

from picture_files import image_part, png, text_part  # noqa: E402
from sound_files import audio_part, wav  # noqa: E402

MEDIA = Path(__file__).resolve().parents[2] / 'data' / 'media'
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + ':' }}"
            "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}"
            "{% elif line['type'] == 'image' %}{{ '<image>' }}"
            "{% elif line['type'] == 'audio' %}{{ '[AUDIO]' }}"
            "{% endif %}{% endfor %}{{ '<|im_end|>\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}")


# On a GPU it is the layers that take time.
SLOWLY = (('--layers', '128', '--ffn', '256') if BACKEND == 'cuda'
          else ('--layers', '3', '--ffn', '256') if SANITIZED else ('--layers', '8', '--ffn', '1024'))
SLOWLY += ('--context', '2048', '--picture-tokens')


@pytest.fixture
def seeing(held, models, tmp_path):
    held.model = models('sees-slowly', '--embedding', '96', '--heads', '4', '--kv-heads', '2', *SLOWLY)
    template = tmp_path / 'template.jinja'
    template.write_text(TEMPLATE)
    return held, ('--holder', 'require', '--chat-template', template, '--mmproj', MEDIA / 'idefics3.gguf')


def asking(first, second):
    content = [text_part('What is'), first, text_part('and'), second, text_part('?')]
    return [{'role': 'user', 'content': content}]


PICTURES = asking(image_part(png(40, 30)), image_part(png(33, 50, seed=2)))
SOUNDS = asking(audio_part(wav(0.3)), audio_part(wav(0.4, 700)))


def body(**more):
    return {'messages': PICTURES, 'max_tokens': 600, 'seed': 4, 'ignore_eos': True, **more}


def answered(engine, **more):
    response = engine.call('POST', '/v1/chat/completions', body(**more))
    assert response.status == 200, response.body
    return response.json()['choices'][0]['message']['content']


def killed_amid_stream(active, **more):
    """What came of a stream whose engine was killed behind its tenth event."""
    connection = http.client.HTTPConnection('127.0.0.1', active.port, timeout=60)
    connection.request('POST', '/v1/chat/completions', json.dumps(body(stream=True, **more)),
                       {'Content-Type': 'application/json'})
    response = connection.getresponse()
    assert response.status == 200
    seen = []
    for line in response:
        if line.startswith(b'data: '):
            seen.append(line[6:].decode().strip())
        if len(seen) == 10:
            active.kill()
    connection.close()
    return seen


def text_of(seen):
    assert seen[-1] == '[DONE]'
    return ''.join(choice['delta'].get('content') or '' for event in seen[:-1]
                   for choice in json.loads(event)['choices'])


def test_the_next_engine_sees_the_same_pictures(seeing):
    held, options = seeing
    active, _ = held.pair(*options)
    alone = answered(active)
    other = asking(image_part(png(40, 30, seed=9)), image_part(png(33, 50, seed=2)))
    assert answered(active, messages=other) != alone
    assert text_of(killed_amid_stream(active)) == alone


def test_the_next_engine_sees_the_same_lines_and_columns(seeing, models, tmp_path):
    held, options = seeing
    held.model = models('grids-slowly', '--family', 'qwen3vl', '--embedding', '32', '--heads', '2',
                        '--kv-heads', '1', *SLOWLY)
    template = tmp_path / 'template.jinja'
    template.write_text(TEMPLATE.replace('<image>', '<|vision_start|><|image_pad|><|vision_end|>'))
    active, _ = held.pair(*options[:-1], MEDIA / 'qwen3.gguf')
    alone = answered(active)
    wider = asking(image_part(png(30, 40)), image_part(png(33, 50, seed=2)))
    assert answered(active, messages=wider) != alone
    assert text_of(killed_amid_stream(active)) == alone


def test_the_next_engine_hears_the_same_sounds(seeing):
    held, options = seeing
    active, _ = held.pair(*options[:-1], MEDIA / 'voxtral.gguf')
    alone = answered(active, messages=SOUNDS)
    assert answered(active, messages=asking(audio_part(wav(0.3)), audio_part(wav(0.4, 600)))) != alone
    assert text_of(killed_amid_stream(active, messages=SOUNDS)) == alone


@pytest.mark.parametrize('change', ['projector', 'limit'])
def test_an_engine_that_would_see_something_else_does_not_go_on(seeing, change, tmp_path):
    held, options = seeing
    active = held.start(0, *options, state='ACTIVE')
    copy = tmp_path / 'other.gguf'
    copy.write_bytes((MEDIA / 'idefics3.gguf').read_bytes())
    second = (*options, '--image-max-tokens', '300') if change == 'limit' else (*options[:-1], copy)
    held.start(1, *second, state='STANDBY')
    seen = killed_amid_stream(active)
    assert any('ENGINE_CHANGED' in event for event in seen), seen[-2:]
