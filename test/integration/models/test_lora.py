"""LoRA adapters end to end: who gets which, the same bytes alone, in a mix and from the cache, and what is
refused. That the arithmetic is right is for the unit tests."""
import os
import threading

import pytest

from completion_worker import TEMPLATE
from http_client import check_stream, text_of
from lora_files import Shape, write_adapter
from ports import free_port
from worker_process import PROJECT, Worker, run_to_exit, wait_until

PROMPT = 'A long enough beginning that all requests have in common, so that the cache has what to keep. ' * 2
DATA = PROJECT / 'test' / 'data'


@pytest.fixture(scope='module')
def base(models):
    return models('lora-base', *Shape().options('--type', 'F32'))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Adapters a, b and others."""
    place = tmp_path_factory.mktemp('adapters')
    for seed, name in enumerate('abcd', 1):
        write_adapter(place / name, seed)
    write_adapter(place / 'high', 9, rank=17)
    (place / 'template.jinja').write_text(TEMPLATE)
    return place


def options(base, folder, *more: str):
    return ('--model', base, '--chat-template', folder / 'template.jinja', '--model-name', 'base',
            '--slots', '4', '--cache-min-tokens', '16', *more)


@pytest.fixture(scope='module')
def serving(base, folder):
    """Knows a and b, and applies neither unless asked."""
    with Worker(*options(base, folder, '--lora', f'a={folder}/a', '--lora', f'b={folder}/b:0.5',
                         '--lora-init-without-apply')) as worker:
        worker.wait_event('ready')
        yield worker


def ask(worker, expected: int = 200, path: str = '/v1/completions', **changes):
    answer = worker.call('POST', path, {'prompt': PROMPT, 'temperature': 0.8, 'seed': 5, 'max_tokens': 12,
                                        'ignore_eos': True, **changes})
    assert answer.status == expected, answer.body
    return answer.json()


def text(worker, **changes) -> str:
    return ask(worker, **changes)['choices'][0]['text']


def cached(answer) -> int:
    return answer['usage']['prompt_tokens_details']['cached_tokens']


BOTH = [{'id': 0, 'scale': 1}, {'id': 1, 'scale': 0.5}]
KINDS = [{'model': 'base'}, {'model': 'a'}, {'model': 'b'}, {'lora': BOTH}]


def test_a_name_chooses_and_is_answered(worker):
    answers = [ask(worker, **kind) for kind in KINDS]
    assert [answer['model'] for answer in answers] == ['base', 'a', 'b', 'base']
    texts = [answer['choices'][0]['text'] for answer in answers]
    assert len(set(texts)) == 4, texts
    assert text(worker) == texts[0] == text(worker, lora=[])
    assert text(worker, lora=[{'id': 0, 'scale': 1}]) == texts[1]
    assert text(worker, lora=[{'id': 1, 'scale': 0.5}, {'id': 0, 'scale': 0}]) == texts[2]
    assert text(worker, lora=BOTH[::-1]) == texts[3]


MIX = [[], [{'id': 0, 'scale': 1}], [{'id': 1, 'scale': 0.5}], BOTH]


def open_stream(worker, scales, cache: bool = True, tokens: int = 700):
    return worker.open(prompt=PROMPT, temperature=0.8, seed=5, max_tokens=tokens, ignore_eos=True,
                       cache_prompt=cache, lora=scales)


def ran_together(worker, streams: int) -> bool:
    """Whether all of the last streams had begun before the first of them ended, by the log."""
    def seen():
        return [e['event'] for e in worker.events() if e['event'] in ('execute_start', 'execute_end')]
    wait_until(lambda: seen().count('execute_end') == seen().count('execute_start'), 30, 'all ends in the log')
    return seen()[-2 * streams:-streams] == ['execute_start'] * streams


def test_alone_in_a_mix_cold_and_cached_are_the_same(worker):
    alone = [text_of(open_stream(worker, scales, cache=False).rest()) for scales in MIX]
    assert len(set(alone)) == len(MIX)
    for cache in False, True, True:
        together = False
        for _ in range(20):
            streams = [open_stream(worker, scales, cache) for scales in MIX]
            assert [text_of(stream.rest()) for stream in streams] == alone
            together = ran_together(worker, len(MIX))
            if together:
                break
        assert together, 'no four streams ran at the same time'


def test_prefixes_are_shared_within_the_same_adapters(worker):
    shared = {'prompt': 'Another beginning, of this test alone, and not a short one at all: ' * 3}
    for kind in KINDS:
        first, second = (ask(worker, **shared, **kind) for _ in range(2))
        assert cached(first) == 0 and cached(second) == second['usage']['prompt_tokens'] - 1, kind
    assert cached(ask(worker, **shared, lora=[{'id': 0, 'scale': 1}])) > 0  # what 'a' has computed
    assert cached(ask(worker, **shared, lora=[{'id': 0, 'scale': 0.75}])) == 0


def test_every_endpoint_takes_an_adapter(worker):
    chat = {'messages': [{'role': 'user', 'content': 'Once upon a time'}], 'prompt': None, 'ignore_eos': None}
    shapes = [('/v1/chat/completions', chat, lambda a: a['choices'][0]['message']['content']),
              ('/v1/messages', chat, lambda a: a['content'][0]['text']),
              ('/v1/responses', {'input': 'Once upon a time', 'prompt': None, 'max_tokens': None,
                                 'max_output_tokens': 12}, lambda a: a['output'][0]['content'][0]['text']),
              ('/completion', {'n_predict': 12, 'max_tokens': None}, lambda a: a['content'])]
    for path, fields, content in shapes:
        given = {'prompt': PROMPT, 'temperature': 0.8, 'seed': 5, 'max_tokens': 12, 'ignore_eos': True,
                 **fields}
        given = {name: value for name, value in given.items() if value is not None}
        seen = []
        for kind in {'model': 'base'}, {'model': 'a'}, {'model': 'base', 'lora': [{'id': 0, 'scale': 1}]}:
            answer = worker.call('POST', path, {**given, **kind})
            assert answer.status == 200, (path, answer.body)
            assert answer.json()['model'] == kind['model'], path
            seen.append(content(answer.json()))
        assert seen[1] == seen[2] != seen[0], (path, seen)
    texts = []
    for scales in None, [], [{'id': 0, 'scale': 1}]:
        events = worker.execute(prompt=PROMPT, temperature=0.8, seed=5, max_tokens=12, ignore_eos=True,
                                lora=scales)
        texts.append(''.join(e.data['t'] for e in events if e.name == 'token'))
    assert texts == [text(worker), text(worker), text(worker, model='a')]


def test_the_openai_client_chooses_by_name(worker):
    from openai_client import client_of
    with client_of(worker) as client:
        listed = {model.id: model for model in client.models.list().data}
        assert list(listed) == ['base', 'a', 'b']
        assert listed['a'].parent == 'base' and listed['a'].root == 'a'
        assert client.models.retrieve('b').meta['rank'] == 4
        seen = {}
        for name in listed:
            stream = client.chat.completions.create(
                model=name, messages=[{'role': 'user', 'content': 'Tell'}], max_tokens=8, temperature=0,
                seed=1, stream=True, extra_body={'ignore_eos': True})
            chunks = list(stream)
            assert {chunk.model for chunk in chunks} == {name}
            seen[name] = ''.join(chunk.choices[0].delta.content or '' for chunk in chunks if chunk.choices)
        assert len(set(seen.values())) == 3, seen


def test_scales_as_llama_server_sets_them(worker):
    listed = worker.get('/lora-adapters').json()
    assert listed == [{'id': 0, 'name': 'a', 'path': 'a', 'scale': 0},
                      {'id': 1, 'name': 'b', 'path': 'b', 'scale': 0}]
    plain, with_a = text(worker), text(worker, model='a')
    assert worker.call('POST', '/lora-adapters', [{'id': 0, 'scale': 1}]).json() == {'success': True}
    assert text(worker) == with_a and text(worker, lora=[]) == plain
    assert text(worker, lora={}) == text(worker, lora='') == with_a  # as if it were not there
    assert worker.call('POST', '/lora-adapters', [{'id': 0, 'scale': 0.1234567}]).status == 200
    assert worker.get('/lora-adapters').json()[0]['scale'] == 0.1234567
    assert worker.call('POST', '/lora-adapters', []).status == 200
    worker.wait_event('adapter_scales', scales='')
    assert [e['scales'] for e in worker.events('adapter_scales')][-3:] == ['a=1', 'a=0.1234567', '']
    assert text(worker) == plain
    for body in {}, [1], [{'id': 5, 'scale': 1}], [{'id': 0}], [{'id': 0, 'scale': 1e9}], 'x', None:
        answer = worker.call('POST', '/lora-adapters', body)
        assert answer.status == 400 and answer.error['code'] == 'INVALID_REQUEST', (body, answer.body)
    assert worker.get('/lora-adapters').json() == listed


def test_adapters_of_the_start_are_applied_unless_told_otherwise(base, folder, started):
    worker = started(*options(base, folder, '--lora', f'a={folder}/a,b={folder}/b:0.5'))
    assert [one['scale'] for one in worker.get('/lora-adapters').json()] == [1, 0.5]
    assert text(worker) == text(worker, lora=BOTH)
    assert len({text(worker), text(worker, lora=[]), text(worker, model='a')}) == 3


def test_what_is_told_of_adapters(worker):
    loaded = worker.events('adapter_loaded')
    assert [(e['name'], e['rank'], e['pairs'], len(e['digest'])) for e in loaded] == [('a', 4, 6, 12),
                                                                                      ('b', 4, 6, 12)]
    assert loaded[0]['digest'] != loaded[1]['digest'] and loaded[0]['bytes'] == loaded[1]['bytes'] > 0
    health = worker.get('/health').json()
    assert (health['adapters'], health['adapters_max']) == (2, 2)
    assert health['adapters_bytes'] >= loaded[0]['bytes']
    scrape = worker.get('/metrics').body.decode()
    assert 'worker_lora_adapters 2\n' in scrape and 'worker_lora_adapter_requests{adapter="b"} 0\n' in scrape
    assert f'worker_lora_adapter_bytes{{adapter="a"}} {loaded[0]["bytes"]}\n' in scrape
    used = worker.metric('worker_lora_adapter_requests_total', adapter='a')
    answer = ask(worker, lora=BOTH)
    assert worker.metric('worker_lora_adapter_requests_total', adapter='a') == used + 1
    told = worker.wait_event('adapters_applied', job_id=answer['id'])
    assert told['adapters'] == 'a,b'
    room = worker.wait_event('adapter_room')
    assert (room['adapters'], room['rank'], room['bytes']) == (2, 4, health['adapters_bytes'])


def test_a_worker_without_adapters_says_nothing_of_them(base, folder, started):
    worker = started(*options(base, folder))
    assert 'adapter' not in worker.get('/health').body.decode()
    assert 'lora' not in worker.get('/metrics').body.decode()
    for method, path, body in (('GET', '/lora-adapters', None), ('POST', '/lora-adapters', []),
                               ('POST', '/v1/load_lora_adapter', {'lora_name': 'x', 'lora_path': 'a'})):
        answer = worker.call(method, path, body)
        assert answer.status == 404 and 'started without --lora' in answer.error['message'], answer.body
    plain = text(worker)
    assert [text(worker, lora=idle) for idle in ([], {}, '', None)] == [plain] * 4
    ask(worker, 400, lora=[{'id': 0, 'scale': 1}])
    assert not worker.events('adapters_applied') and not worker.events('adapter_room')


def test_others_may_not_set_what_everybody_gets(base, folder, started):
    """Without keys: a client that says it is a page, as one that is not on this machine."""
    worker = started(*options(base, folder, '--lora', f'a={folder}/a'))
    page = {'Origin': 'http://localhost'}
    answer = worker.call('POST', '/lora-adapters', [], page)
    assert answer.status == 403 and 'set the scales' in answer.error['message'], answer.body
    assert worker.call('GET', '/lora-adapters', None, page).json()[0]['scale'] == 1
    assert worker.call('POST', '/lora-adapters', []).status == 200


@pytest.mark.parametrize('fields, param, part', [
    ({'lora': [{'id': 2, 'scale': 1}]}, 'lora[0].id', 'no LoRA adapter has'),
    ({'lora': [{'id': 0, 'scale': 1}, {'id': 0, 'scale': 1}]}, 'lora[1].id', 'given twice'),
    ({'lora': [{'id': 0, 'scale': -101}]}, 'lora[0].scale', '-100'),
    ({'lora': [{'id': 0}]}, 'lora[0].scale', 'is missing'),
    ({'lora': {'id': 0}}, 'lora', 'an array'),
    ({'lora': 'a'}, 'lora', 'an array'),
    ({'lora': [], 'model': 'a'}, 'lora', "cannot be beside an adapter's name"),
    ({'model': 'A'}, 'model', "there is no model 'A'"),
])
def test_requests_are_refused_by_name(worker, fields, param, part):
    answer = ask(worker, 404 if param == 'model' else 400, **fields)['error']
    assert answer['param'] == param and part in answer['message'], answer


def test_nobody_may_load_unless_the_operator_says_so(worker):
    for path in '/v1/load_lora_adapter', '/v1/unload_lora_adapter':
        named = {'lora_name': 'a'} if 'unload' in path else {'lora_name': 'x', 'lora_path': 'x'}
        answer = worker.call('POST', path, named)
        assert answer.status == 403 and '--allow-lora-load' in answer.error['message']
    assert [model['id'] for model in worker.get('/v1/models').json()['data']] == ['base', 'a', 'b']


# --- what refuses the start ---------------------------------------------------------------------

def only_half(stored):
    del stored[next(name for name in stored if 'lora_B' in name)]


def not_finite(stored):
    next(iter(stored.values()))[1][3] = float('nan')


def unknown(stored):
    name, value = next(iter(stored.items()))
    stored[name.replace('q_proj', 'x_proj')] = value


def another_shape(stored):
    name, (shape, values) = next(iter(stored.items()))
    stored[name] = ((shape[0], shape[1] - 1), values[:shape[0] * (shape[1] - 1)])


@pytest.mark.parametrize('change, config', [(only_half, {}), (not_finite, {}), (unknown, {}),
                                            (another_shape, {}), (None, {'r': 0}),
                                            (None, {'use_dora': True})])
def test_a_bad_adapter_refuses_the_start_in_one_line(base, tmp_path, change, config):
    bad = write_adapter(tmp_path / 'bad', 1, change=change, **config)
    code, worker = run_to_exit('--model', base, '--lora', f'bad={bad}')
    assert code == 1
    assert len(worker.events('error')) == 1
    error = worker.events('error')[0]['message']
    assert f"--lora 'bad': {bad}" in error and '\n' not in error, error
    assert not worker.events('ready')


@pytest.mark.parametrize('given, code, part', [
    (('--lora', 'x={folder}/nothing'), 1, "--lora 'x': {folder}/nothing"),
    (('--lora', 'x={folder}/a', '--max-lora-rank', '3'), 1, '3'),
    (('--lora', f'x={DATA}/lora/adapter.gguf'), 1, 'bitnet-b1.58'),
    (('--lora', 'base={folder}/a', '--model-name', 'base'), 2, 'which the model itself is called'),
    (('--lora', 'x={folder}/a,x={folder}/b'), 2, "the name 'x' twice"),
    (('--lora', 'x={folder}/a', '--max-loras', '2'), 2, 'more come only with --allow-lora-load'),
    (('--lora', 'x={folder}/a:0'), 2, "must not have the scale 0, of 'x'"),
    (('--lora', ','.join(f'{n}={{folder}}/a' for n in 'abcdefghi')), 2, 'has 9 adapters that every request'),
    (('--allow-lora-load', '{folder}/nothing'), 1, 'is no directory'),
    (('--allow-lora-load', '{folder}', '--failover-dir', '{folder}', '--holder', 'off'), 2,
     'cannot be beside'),
    (('--lora', 'x={folder}/a', '--pooling', 'mean'), 2, 'a model that generates text'),
])
def test_options_are_refused_in_one_line(base, folder, given, code, part):
    arguments = [one.format(folder=folder) for one in given]
    seen, worker = run_to_exit('--model', base, *arguments, port=str(free_port()))
    assert seen == code, worker.lines
    log = [line for line in worker.lines if line.startswith('{')]
    told = worker.events('error')[0]['message'] if log else worker.lines[-1]
    assert part.format(folder=folder) in told, told


def test_a_path_may_hold_colons(base, folder, tmp_path, started):
    odd = write_adapter(tmp_path / 'x:7', 1)
    worker = started(*options(base, folder, '--lora', f'x={odd}:1'))
    assert worker.get('/lora-adapters').json() == [{'id': 0, 'name': 'x', 'path': odd.name, 'scale': 1}]


def test_every_form_of_an_adapter_is_the_same_one(models, started):
    """A GGUF adapter and a PEFT directory with the same content have one digest and one answer, and the cache
    knows them as one."""
    bitnet = models('lora-bitnet', '--family', 'bitnet-b1.58', '--type', 'I2_S', '--embedding', '256',
                    '--ffn', '256', '--layers', '2', '--heads', '4', '--kv-heads', '2', '--context', '512')
    worker = started('--model', bitnet, '--lora', f'gguf={DATA}/lora/adapter.gguf',
                     '--lora', f'peft={DATA}/lora', '--lora-init-without-apply')
    first, second = worker.events('adapter_loaded')
    assert first['digest'] == second['digest'] and first['rank'] == 8
    answers = [ask(worker, model=name) for name in ('lora-bitnet', 'gguf', 'peft')]
    plain, *both = [answer['choices'][0]['text'] for answer in answers]
    assert both[0] == both[1] != plain
    assert [cached(answer) > 0 for answer in answers] == [False, False, True]


# --- adapters that come and go --------------------------------------------------------------------

@pytest.fixture(scope='module')
def open_worker(base, folder):
    with Worker(*options(base, folder, '--lora', f'a={folder}/a', '--lora-init-without-apply',
                         '--max-loras', '2', '--allow-lora-load', folder)) as worker:
        worker.wait_event('ready')
        yield worker


def load(worker, name, path):
    return worker.call('POST', '/v1/load_lora_adapter', {'lora_name': name, 'lora_path': str(path)})


def unload(worker, name):
    return worker.call('POST', '/v1/unload_lora_adapter', {'lora_name': name})


class Asker(threading.Thread):
    """Asks for streams with adapter a, one after the other, until it is told to stop."""

    def __init__(self, worker, expected):
        super().__init__()
        self.worker, self.expected = worker, expected
        self.stop = threading.Event()
        self.begun, self.done, self.error = 0, [], None

    def run(self):
        try:
            while not self.stop.is_set():
                self.begun += 1
                events = open_stream(self.worker, [{'id': 0, 'scale': 1}], tokens=200).rest()
                assert check_stream(events).name == 'end' and text_of(events) == self.expected
                self.done.append(self.begun)
        except BaseException as error:  # told by check()
            self.error = error

    def check(self):
        if self.error:
            raise self.error


def test_an_adapter_comes_and_goes_while_streams_run(open_worker, serving):
    worker = open_worker
    expected = text_of(open_stream(serving, [{'id': 0, 'scale': 1}], tokens=200).rest())
    alone = text(serving, model='b')
    askers = [Asker(worker, expected) for _ in range(2)]
    for asker in askers:
        asker.start()
    try:
        wait_until(lambda: all(asker.begun > 1 or asker.error for asker in askers), 60, 'streams run')
        for _ in range(4):
            before = [asker.begun for asker in askers]
            assert load(worker, 'late', 'b').status == 200
            assert [one['name'] for one in worker.get('/lora-adapters').json()] == ['a', 'late']
            late = worker.get('/lora-adapters').json()[1]['id']
            assert text(worker, lora=[{'id': late, 'scale': 0.5}]) == alone
            assert text(worker, model='late') != alone  # 'b' has 0.5 there, this one 1
            assert unload(worker, 'late').status == 200
            assert ask(worker, 404, model='late')['error']['code'] == 'model_not_found'
            wait_until(lambda: all(asker.begun > n + 1 or asker.error for asker, n in zip(askers, before)), 60,
                       'streams that began meanwhile have ended')
    finally:
        for asker in askers:
            asker.stop.set()
        for asker in askers:
            asker.join()
    for asker in askers:
        asker.check()
        assert len(asker.done) > 4
    assert [one['id'] for one in worker.get('/lora-adapters').json()] == [0]


def test_what_is_in_use_is_not_unloaded(open_worker):
    """A stream may be over before the worker is asked, on a machine that has other things to do."""
    worker = open_worker
    for _ in range(20):
        assert load(worker, 'busy', 'c').status == 200
        number = worker.get('/lora-adapters').json()[-1]['id']
        stream = open_stream(worker, [{'id': number, 'scale': 1}], tokens=700)
        stream.until('token')
        refused = unload(worker, 'busy')
        used = worker.metric('worker_lora_adapter_requests', adapter='busy') if refused.status != 200 else 0
        assert stream.finish().name == 'end'
        if refused.status != 200 and used == 1:
            break
        if refused.status != 200:
            wait_until(lambda: unload(worker, 'busy').status == 200, 60, 'unloaded after its request')
    assert refused.status == 409 and refused.error['code'] == 'CONFLICT' and used == 1, refused.body
    assert "'busy' is in use by 1 requests" in refused.error['message']
    wait_until(lambda: unload(worker, 'busy').status == 200, 60, 'unloaded once its request is over')


def test_what_others_get_without_asking_is_not_unloaded(open_worker):
    worker = open_worker
    assert worker.call('POST', '/lora-adapters', [{'id': 0, 'scale': 0.5}]).status == 200
    refused = unload(worker, 'a')
    assert refused.status == 409 and "'a' is applied with 0.5" in refused.error['message'], refused.body
    assert worker.call('POST', '/lora-adapters', []).status == 200


def test_what_cannot_be_loaded_is_refused_by_name(open_worker, folder, tmp_path):
    worker = open_worker
    outside = write_adapter(tmp_path / 'outside', 1)
    link = folder / 'link'
    if not link.is_symlink():
        link.symlink_to(outside)
    broken = folder / 'broken'
    if not broken.exists():
        write_adapter(broken, 1, change=not_finite)
    os.mkfifo(folder / 'pipe')
    (folder / 'void').symlink_to(tmp_path / 'nothing')
    cases = [('x', outside, 403), ('x', 'pipe', 400), ('x', 'void', 403), ('x', '/root/x', 403),
             ('x', 'nothing/..', 403), ('x', 'n' * 300, 403), ('x', 'link', 403),
             ('x', '../' + folder.name + '/../outside', 403),
             ('x', '/etc/passwd', 403), ('x', 'nothing', 404), ('x', 'template.jinja', 400),
             ('x', 'broken', 400), ('x', 'high', 400), ('a', 'b', 400), ('base', 'b', 400), ('x,y', 'b', 400),
             ('', 'b', 400), ('x', '', 400)]
    for name, path, status in cases:
        answer = load(worker, name, path)
        assert answer.status == status, (name, path, answer.body)
        assert answer.error['param'] in ('lora_name', 'lora_path') and answer.error['message'], answer.error
        if not str(path).startswith('/'):
            assert str(folder) not in answer.error['message']  # where it lies is nobody's business
    assert '17' in load(worker, 'x', 'high').error['message']
    for body in ({'lora_name': 'x'}, {'lora_path': 'b'}, {'lora_name': 'x', 'lora_path': 'b', 'more': 1},
                 {'lora_name': 'x', 'lora_path': 'b', 'load_inplace': True}):
        assert worker.call('POST', '/v1/load_lora_adapter', body).status == 400, body
    assert load(worker, 'y', 'd').status == 200
    full = load(worker, 'z', 'b')
    assert full.status == 400 and 'room for 2' in full.error['message']
    assert unload(worker, 'y').status == 200
    assert unload(worker, 'y').status == 404
    assert len(unload(worker, 'y' * 10_000).body) < 500
    answer = worker.call('POST', '/v1/unload_lora_adapter', {'lora_name': 'y', 'lora_int_id': 3})
    assert answer.status == 404


def test_a_page_and_whoever_is_no_operator_change_nothing(base, folder, tmp_path, started):
    keys = tmp_path / 'keys'
    keys.write_text('secret role=operator\ntenants\n')
    keys.chmod(0o600)
    worker = started(*options(base, folder, '--api-key-file', keys, '--allow-lora-load', folder))
    key = {'Authorization': 'Bearer secret'}
    for path, body in (('/v1/load_lora_adapter', {'lora_name': 'x', 'lora_path': 'b'}),
                       ('/v1/unload_lora_adapter', {'lora_name': 'x'}), ('/lora-adapters', [])):
        assert worker.call('POST', path, body).status == 401
        assert worker.call('POST', path, body, {**key, 'Origin': 'https://elsewhere.example'}).status == 403
        assert worker.call('POST', path, body, {'Authorization': 'Bearer tenants'}).status == 403
        assert worker.call('POST', path, body, key).status == 200
    assert worker.get('/lora-adapters').status == 401
