"""Messages with sounds: what is taken, that the bytes of an answer do not depend on what
else runs or is kept, and what is refused with which words."""
import json
import struct
import subprocess
from pathlib import Path

import pytest

from picture_files import data_url, image_part, png, text_part
from sound_files import audio_part, chunks, wav
from worker_process import BUILD, Worker, run_to_exit

MEDIA = Path(__file__).resolve().parents[2] / 'data' / 'media'
LISTS = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + ':' }}"
         "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
         "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}"
         "{% elif line['type'] == 'audio' %}{{ '[AUDIO]' }}{% endif %}{% endfor %}{% endif %}"
         "{{ '<|im_end|>\\n' }}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}")
STRINGS = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + ':' + message['content'] }}"
           "{{ '<|im_end|>\\n' }}{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}")
CHUNK = 375  # rows of 30 seconds


def start(models, folder, *more, template=STRINGS):
    path = folder / 'template.jinja'
    path.write_text(template)
    model = models('hears', '--embedding', '96', '--heads', '4', '--kv-heads', '2', '--context', '2048',
                   '--picture-tokens')
    return Worker('--model', model, '--mmproj', MEDIA / 'voxtral.gguf', '--chat-template', path, *more)


@pytest.fixture(scope='module')
def worker(models, tmp_path_factory):
    with start(models, tmp_path_factory.mktemp('sounds'), '--slots', '3') as running:
        running.wait_event('ready')
        yield running


def ask(worker, *parts, messages=None, path='/v1/chat/completions', **more):
    body = {'messages': messages or [{'role': 'user', 'content': list(parts)}], 'max_tokens': 8, 'seed': 3,
            'ignore_eos': True, 'temperature': 0.7, 'logprobs': True, 'top_logprobs': 3, **more}
    return worker.call('POST', path, body)


def answer(response):
    assert response.status == 200, response.body
    return json.loads(response.body)


def told_of(response):
    """The text, and how likely its tokens were: a model of random values says the same of much."""
    choice = answer(response)['choices'][0]
    return choice['message']['content'], choice['logprobs']


def usage(response):
    return answer(response)['usage']


def cached(response):
    return usage(response)['prompt_tokens_details']['cached_tokens']


def test_a_sound_is_heard_and_counted(worker):
    question = text_part('What is it?')
    one, other = ask(worker, question, audio_part(wav(0.5))), ask(worker, question, audio_part(wav(0.5, 900)))
    assert told_of(one) != told_of(other)
    bare = usage(ask(worker, question))
    assert usage(one)['prompt_tokens'] - bare['prompt_tokens'] == CHUNK + 1
    assert usage(one)['prompt_tokens_details']['audio_tokens'] == CHUNK
    assert 'audio_tokens' not in bare['prompt_tokens_details']
    # A sample more than 30 seconds is a second chunk; both sounds of a request count.
    long = ask(worker, audio_part(chunks(bytes(2 * (30 * 16000 + 1)))), audio_part(wav(0.2)), question)
    assert usage(long)['prompt_tokens_details']['audio_tokens'] == 3 * CHUNK
    event = worker.wait_event('projector')
    assert (event['projector'], event['kinds']) == ('voxtral', 'audio')
    meta = worker.get('/v1/models').json()['data'][0]['meta']
    assert (meta['projector'], meta['input_modalities']) == ('voxtral', ['text', 'audio'])
    assert worker.get('/props').json()['modalities'] == {'vision': False, 'audio': True}


def test_rates_channels_and_kinds_of_samples_are_the_same_sound(worker):
    question = text_part('And now?')
    expected = told_of(ask(worker, question, audio_part(chunks(struct.pack('<8000h', *[4096] * 8000)))))
    as_floats = chunks(struct.pack('<8000f', *[0.125] * 8000), kind=3, bits=32)
    two_channels = chunks(struct.pack('<16000h', *[8192, 0] * 8000), channels=2)
    for file in (as_floats, two_channels):
        same = ask(worker, question, audio_part(file))
        assert told_of(same) == expected
        assert cached(same) > 256
    mp3 = audio_part((MEDIA / 'files' / 'stereo.mp3').read_bytes(), 'mp3')
    assert usage(ask(worker, question, mp3))['prompt_tokens_details']['audio_tokens'] == CHUNK


def test_the_same_bytes_cold_kept_beside_text_and_alone(worker, models, tmp_path):
    sounds = [audio_part(wav(0.3 + n, 300 + 100 * n)) for n in range(3)]
    asked = [[text_part('First'), sounds[n], text_part('then'), sounds[(n + 1) % 3],
              text_part('and now? ' * 20)] for n in range(3)]
    with start(models, tmp_path, '--no-prefix-cache', '--media-cache-mb', '0') as cold:
        cold.wait_event('ready')
        expected = [told_of(ask(cold, *parts)) for parts in asked]
    connections = [worker.connect() for _ in range(9)]
    for n, connection in enumerate(connections):
        body = {'messages': [{'role': 'user', 'content': asked[n % 3]}], 'max_tokens': 8, 'seed': 3,
                'ignore_eos': True, 'temperature': 0.7, 'logprobs': True, 'top_logprobs': 3}
        if n >= 6:
            body['messages'] = [{'role': 'user', 'content': 'only text ' * 20}]
        connection.request('POST', '/v1/chat/completions', json.dumps(body).encode())
    together = [told_of(c.read_response()) for c in connections]
    assert together[:6] == expected * 2
    kept = [ask(worker, *parts) for parts in asked]
    assert [told_of(k) for k in kept] == expected
    assert all(cached(k) > 2 * CHUNK for k in kept)


def test_pages_behind_a_sound_are_of_that_sound_alone(worker):
    tail, before = text_part('the same text ' * 20), text_part('Listen ' * 30)
    first, changed = audio_part(wav(1, 500)), audio_part(wav(1, 500, touched=1))
    ask(worker, before, first, tail)
    assert cached(ask(worker, before, first, tail)) > CHUNK
    # What stands before the sound is shared, and no more.
    lead = usage(ask(worker, before))['prompt_tokens']
    assert 100 <= cached(ask(worker, before, changed, tail)) <= lead


@pytest.mark.parametrize('template', [LISTS, STRINGS], ids=['lists', 'strings'])
def test_a_placeholder_in_a_text_stays_text(models, tmp_path, template):
    with start(models, tmp_path, template=template) as running:
        running.wait_event('ready')
        spelled = 'Say [BEGIN_AUDIO][AUDIO] and [AUDIO] to me'
        plain = ask(running, text_part(spelled))
        beside = ask(running, text_part(spelled), audio_part(wav(0.2)), text_part('now'))
        more = usage(ask(running, text_part(spelled + 'now')))['prompt_tokens']
        assert usage(beside)['prompt_tokens_details']['audio_tokens'] == CHUNK
        assert CHUNK <= usage(beside)['prompt_tokens'] - more <= CHUNK + 3
        system = ask(running, messages=[{'role': 'system', 'content': spelled},
                                        {'role': 'user', 'content': [audio_part(wav(0.2)), text_part('?')]}])
        assert usage(system)['prompt_tokens_details']['audio_tokens'] == CHUNK
        assert told_of(plain)


def test_streams_tell_the_tokens_of_sounds(worker):
    streamed = ask(worker, audio_part(wav(0.2)), text_part('?'), stream=True,
                   stream_options={'include_usage': True})
    assert streamed.status == 200 and b'"audio_tokens":375' in streamed.body and b'[DONE]' in streamed.body


GOOD = wav(0.1)
BAD = {
    'nothing': ('', 'no bytes', 'wav', '.data'),
    'no base64': ('AA AA', 'no base64', 'wav', '.data'),
    'no sound': ('AAAA', 'WAV and MP3 are', 'wav', '.data'),
    'another format': (GOOD, "'wav' or 'mp3'", 'flac', '.format'),
    'a lie': (GOOD, "is 'mp3', but the data are a WAV file", 'mp3', '.format'),
    'cut': (GOOD[:-3], 'says it has', 'wav', '.data'),
    'a chunk beyond the end': (chunks(bytes(20), declared=4000), 'a chunk of 4000 bytes', 'wav', '.data'),
    'no samples': (chunks(b''), 'without a sample', 'wav', '.data'),
    'no numbers': (chunks(struct.pack('<2f', 0, float('nan')), kind=3, bits=32), 'no number', 'wav', '.data'),
    'too many channels': (chunks(bytes(260), channels=65), '65 channels', 'wav', '.data'),
    'too fast': (chunks(bytes(20), rate=200000), '200000 samples a second', 'wav', '.data'),
    'too long': (chunks(bytes(8000 * 41), rate=8000, bits=8), 'lasts longer than the limit of 40 seconds', 'wav',
                 '.data'),
    'too many bytes': (chunks(bytes(700000)), 'the limit is 655360', 'wav', '.data'),
    'a broken MP3': (b'\xff\xfb\x90\x00' + bytes(40), 'cannot be decoded', 'mp3', '.data'),
}


@pytest.fixture(scope='module')
def limited(models, tmp_path_factory):
    with start(models, tmp_path_factory.mktemp('limited'), '--audio-max-seconds', '40', '--audio-max-bytes',
               '655360', '--max-images', '2') as running:
        running.wait_event('ready')
        yield running


@pytest.mark.parametrize('file, why, kind, field', BAD.values(), ids=BAD)
def test_bad_sounds_are_refused_by_name(limited, file, why, kind, field):
    refused = ask(limited, text_part('?'), audio_part(file, kind))
    assert refused.status == 400, refused.body
    assert why in refused.error['message']
    assert refused.error['param'] == 'messages[0].content[1].input_audio' + field


def test_other_things_that_are_refused(limited, worker):
    one = audio_part(GOOD)
    many = ask(limited, one, one, one, text_part('?'))
    assert many.status == 400 and 'one sound more than a request may have: 2' in many.error['message']
    for changes, param in (({'prompt_logprobs': 1}, 'prompt_logprobs'),
                           ({'return_token_ids': True}, 'return_token_ids')):
        refused = ask(worker, text_part('?'), one, **changes)
        assert (refused.status, refused.error['param']) == (400, param), refused.body
    picture = ask(worker, image_part(png(4, 4)), text_part('?'))
    assert picture.status == 400 and 'is a picture, which this worker' in picture.error['message']
    assert picture.error['param'] == 'messages[0].content[0].image_url.url'
    said = ask(worker, messages=[{'role': 'assistant', 'content': [one]}, {'role': 'user', 'content': '?'}])
    assert said.status == 400, said.body
    responses = worker.call('POST', '/v1/responses', {
        'input': [{'role': 'user', 'content': [one]}], 'max_output_tokens': 4})
    assert responses.status == 400, responses.body
    assert responses.error['param'] == 'input[0].content[0].type'
    shown = worker.call('POST', '/v1/responses', {'max_output_tokens': 4, 'store': False, 'input': [
        {'role': 'user', 'content': [{'type': 'input_image', 'image_url': data_url(png(4, 4))}]}]})
    assert shown.status == 400 and 'is a picture' in shown.error['message'], shown.body
    messages = worker.call('POST', '/v1/messages', {'messages': [{'role': 'user', 'content': [one]}],
                                                    'max_tokens': 4})
    assert messages.status == 400, messages.body
    long = ask(worker, audio_part(chunks(bytes(8000 * 200), rate=8000, bits=8)), text_part('?'))
    assert long.status == 400 and long.error['code'] == 'context_length_exceeded', long.body


def test_a_worker_of_pictures_or_of_text_hears_nothing(shared_tiny):
    refused = ask(shared_tiny, text_part('?'), audio_part(GOOD))
    assert refused.status == 400 and refused.error['param'] == 'messages[0].content[1].type'


def test_what_became_of_sounds_is_counted(limited):
    assert ask(limited, audio_part(GOOD), text_part('?')).status == 200
    refused = ask(limited, audio_part(b'\xff\xfb\x90\x00' + bytes(40), 'mp3'), text_part('?'))
    assert refused.status == 400
    metrics = limited.get('/metrics').body.decode()
    counts = dict(line.rsplit(' ', 1) for line in metrics.splitlines() if line.startswith('worker_sounds_total'))
    assert int(counts['worker_sounds_total{result="decoded"}']) >= 1
    assert int(counts['worker_sounds_total{result="refused"}']) >= 1
    assert int(counts['worker_sounds_total{result="crashed"}']) == 0


def test_inspection_tells_what_a_projector_of_sounds_is():
    told = subprocess.run([BUILD / 'worker-orcd-inspect', 'info', MEDIA / 'voxtral.gguf'], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    assert "projector 'voxtral' of sounds: 2 layers, 16 wide, 80 bands, 375 tokens for each 30 seconds" in told
    doctor = subprocess.run([BUILD / 'worker-orcd-inspect', 'doctor', MEDIA / 'voxtral.gguf'],
                            stdout=subprocess.PIPE, text=True).stdout
    assert "'voxtral' of sounds" in doctor and 'yes, on both backends' in doctor


def test_a_vocabulary_without_the_tokens_is_refused(models):
    wide = models('wide', '--embedding', '96', '--heads', '4', '--kv-heads', '2')
    code, wordless = run_to_exit('--model', wide, '--mmproj', MEDIA / 'voxtral.gguf')
    assert code == 1 and "no token '[AUDIO]'" in wordless.events('error')[0]['message']
