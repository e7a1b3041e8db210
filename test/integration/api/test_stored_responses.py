"""/v1/responses with a store: requests that go on from a response, responses that are fetched, listed and
forgotten, keys that do not see each other's, bounds, and requests that are wrong."""
import json
import threading

import pytest

from completion_worker import start

SHORT = {'temperature': 0, 'max_output_tokens': 8, 'ignore_eos': True}
IDS = {'a megabyte': 'x' * 6_000, 'slashes': 'a%2Fb', 'no text': '%ff%fe', 'nul': '%00', 'percent': '%zz',
       'quotes': '%22%5C', 'a path': '..%2F..%2Fetc'}


@pytest.fixture(scope='module')
def model(models):
    return models('stored', '--context', '16384')


@pytest.fixture(scope='module')
def worker(model, tmp_path_factory):
    with start(model, tmp_path_factory.mktemp('stored'), '--slots', '2', '--response-store-mib',
               '4') as running:
        yield running
        assert running.alive()


def respond(worker, input, headers=None, **changes):
    return worker.call('POST', '/v1/responses', {'input': input, **SHORT, **changes}, headers)


def path_of(response, more: str = '') -> str:
    return f'/v1/responses/{response["id"]}{more}'


def test_a_request_goes_on_from_a_response(worker):
    first = respond(worker, 'Once', instructions='Be brief.').json()
    assert first['store'] is True and first['previous_response_id'] is None
    second = respond(worker, [{'role': 'user', 'content': 'Go on'}], previous_response_id=first['id']).json()
    assert second['previous_response_id'] == first['id'] and second['instructions'] is None
    third = respond(worker, 'More', previous_response_id=second['id'], instructions='New.').json()
    said = [{'role': 'user', 'content': 'Once'}, *first['output'], {'role': 'user', 'content': 'Go on'}]
    by_hand = respond(worker, said, store=False).json()
    assert second['usage']['input_tokens'] == by_hand['usage']['input_tokens']
    assert second['output'][0]['content'] == by_hand['output'][0]['content']
    said += [*second['output'], {'role': 'user', 'content': 'More'}]
    by_hand = respond(worker, said, instructions='New.', store=False).json()
    assert third['usage']['input_tokens'] == by_hand['usage']['input_tokens']
    assert third['output'][0]['content'] == by_hand['output'][0]['content']


def test_one_may_be_gone_on_from_twice(worker):
    root = respond(worker, 'Once').json()
    left, right = (respond(worker, text, previous_response_id=root['id']).json() for text in ('a', 'b b b'))
    assert left['usage']['input_tokens'] < right['usage']['input_tokens']


def test_a_response_is_fetched_as_it_ended(worker):
    whole = respond(worker, 'Once', metadata={'a': 'b'}).json()
    assert worker.get(path_of(whole)).json() == whole
    assert worker.call('HEAD', path_of(whole)).status == 200
    stream = respond(worker, 'Once', stream=True).body.decode()
    last = json.loads(stream.split('data: ')[-1])
    assert last['type'] == 'response.incomplete'
    assert worker.get(path_of(last['response'], '?include[]=x')).json() == last['response']
    refused = worker.get(path_of(whole, '?stream=true'))
    assert refused.status == 400 and refused.error['param'] == 'stream'


def test_what_went_in_is_listed_in_pages(worker):
    first = respond(worker, [{'role': 'developer', 'content': 'd'},
                             {'role': 'user', 'content': [{'type': 'input_text', 'text': 'u'}]}]).json()
    second = respond(worker, 'v', previous_response_id=first['id']).json()
    listed = worker.get(path_of(second, '/input_items?order=asc')).json()
    assert [item['role'] for item in listed['data']] == ['developer', 'user', 'assistant', 'user']
    assert listed['data'][2] == first['output'][0] and not listed['has_more']
    assert listed['data'][3]['content'] == [{'type': 'input_text', 'text': 'v'}]
    seen, after = [], ''
    while True:
        page = worker.get(path_of(second, f'/input_items?limit=1{after}')).json()
        seen += page['data']
        if not page['has_more']:
            break
        after = f'&after={page["last_id"]}'
    assert seen == listed['data'][::-1]


def test_a_response_that_is_forgotten(worker):
    first = respond(worker, 'Once').json()
    second = respond(worker, 'Go on', previous_response_id=first['id']).json()
    gone = worker.call('DELETE', path_of(first))
    assert gone.json() == {'id': first['id'], 'object': 'response', 'deleted': True}
    for method, more in (('GET', ''), ('GET', '/input_items'), ('DELETE', '')):
        answer = worker.call(method, path_of(first, more))
        assert answer.status == 404 and answer.error['type'] == 'invalid_request_error'
        assert answer.error['message'] == f"Response with id '{first['id']}' not found."
    lost = respond(worker, 'x', previous_response_id=first['id'])
    assert lost.status == 400 and lost.error['code'] == 'previous_response_not_found'
    assert lost.error['param'] == 'previous_response_id' and not lost.error['retriable']
    # The one that went on from it has what it needs.
    assert respond(worker, 'x', previous_response_id=second['id']).status == 200


def test_a_response_that_is_not_to_be_kept(worker):
    before = worker.metric('worker_stored_responses')
    answer = respond(worker, 'Once', store=False).json()
    assert answer['store'] is False and worker.get(path_of(answer)).status == 404
    assert respond(worker, 'x', previous_response_id=answer['id']).status == 400
    refused = respond(worker, 'x ' * 60_000)
    assert refused.status == 400
    assert worker.metric('worker_stored_responses') == before


def test_a_long_conversation_is_read_beside_the_other_requests(worker):
    """Its requests are short, but what they go on from is not."""
    last = respond(worker, 'word ' * 1_500).json()
    for _ in range(3):
        last = respond(worker, 'word', previous_response_id=last['id']).json()
    assert last['usage']['input_tokens'] > 1_500
    large = worker.get(path_of(last, '/input_items'))
    assert len(large.json()['data']) == 7
    answers = []
    asking = [threading.Thread(target=lambda: answers.append(
        respond(worker, 'x', previous_response_id=last['id']).json()['output'][0]['content']))
        for _ in range(4)]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert len(answers) == 4 and all(one == answers[0] for one in answers)


def test_memory_has_a_bound_and_is_told(model, tmp_path):
    with start(model, tmp_path, '--slots', '2', '--response-store-mib', '1') as worker:
        kept = [respond(worker, f'{i} ' + 'a' * 100, metadata={str(n): 'm' * 500 for n in range(16)},
                        user='u' * 200_000).json() for i in range(8)]
        assert 0 < worker.metric('worker_stored_response_bytes') <= 1 << 20
        assert worker.metric('worker_stored_response_bytes_max') == 1 << 20
        held = [worker.get(path_of(one)).status for one in kept]
        assert held == sorted(held, reverse=True) and held[0] == 404 and held[-1] == 200
        assert worker.metric('worker_stored_responses') == held.count(200)
        assert worker.metric('worker_stored_responses_evicted_total') == held.count(404)
        for one in kept:
            worker.call('DELETE', path_of(one))
        assert worker.metric('worker_stored_response_bytes') == 0


def test_a_key_sees_its_own_alone(model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('secret-a alpha\nsecret-b beta\nsecret-a2 alpha\n')
    mine = {'Authorization': 'Bearer secret-a'}
    with start(model, tmp_path, '--slots', '2', '--api-key-file', str(keys), '--response-store-mib',
               '1') as worker:
        response = respond(worker, 'Zanzibar', mine).json()
        assert worker.call('GET', path_of(response)).status == 401
        assert worker.call('DELETE', path_of(response)).status == 401
        for other in ({'Authorization': 'Bearer secret-b'}, {'X-Api-Key': 'secret-a2'}):
            unknown = respond(worker, 'x', other, previous_response_id='resp_' + '0' * 32)
            theirs = respond(worker, 'x', other, previous_response_id=response['id'])
            assert theirs.status == unknown.status == 400
            assert theirs.error['code'] == unknown.error['code'] == 'previous_response_not_found'
            for method, more in (('GET', ''), ('GET', '/input_items'), ('DELETE', '')):
                assert worker.call(method, path_of(response, more), headers=other).status == 404
        assert worker.call('GET', path_of(response), headers=mine).json() == response
        assert respond(worker, 'x', mine, previous_response_id=response['id']).status == 200
        log = '\n'.join(worker.lines)
        assert 'Zanzibar' not in log and 'secret-' not in log


def test_pages_of_others_forget_nothing(worker):
    response = respond(worker, 'Once').json()
    for headers in ({'Origin': 'https://evil.example'}, {'Sec-Fetch-Site': 'cross-site'}):
        assert worker.call('DELETE', path_of(response), headers=headers).status == 403
    assert worker.get(path_of(response)).status == 200
    allowed = worker.call('OPTIONS', path_of(response))
    assert allowed.headers['allow'] == 'GET, HEAD, DELETE, OPTIONS'
    wrong = worker.call('DELETE', path_of(response, '/input_items'))
    assert wrong.status == 405 and wrong.headers['allow'] == 'GET, HEAD, OPTIONS'


@pytest.mark.parametrize('id', IDS.values(), ids=IDS)
def test_ids_that_are_none(worker, id):
    for method, more in (('GET', ''), ('GET', '/input_items'), ('DELETE', '')):
        answer = worker.call(method, f'/v1/responses/{id}{more}')
        assert answer.status == 404, (answer.status, answer.body)
        assert answer.error['type'] == 'invalid_request_error'


@pytest.mark.parametrize('query, param', [
    ('limit=0', 'limit'), ('limit=101', 'limit'), ('limit=' + '9' * 4_000, 'limit'), ('limit=-1', 'limit'),
    ('limit', 'limit'), ('order=up', 'order'), ('after=nothing', 'after'), ('after=%ff', 'after')])
def test_queries_that_ask_for_nothing(worker, query, param):
    response = respond(worker, 'Once').json()
    answer = worker.get(path_of(response, f'/input_items?{query}'))
    assert answer.status == 400 and answer.error['param'] == param


@pytest.mark.parametrize('value', [7, '', [], {}, True, 'resp_1', 'x' * 900_000, '\u0000', '../x', 'é' * 200],
                         ids=lambda value: str(value)[:10])
def test_previous_responses_that_are_none(worker, value):
    answer = respond(worker, 'x', previous_response_id=value)
    assert answer.status == 400 and answer.error['param'] == 'previous_response_id'
    assert respond(worker, 'x', previous_response_id=None).status == 200


def test_wrong_items_behind_a_conversation(worker):
    first = respond(worker, 'Once').json()
    for input, param in (([], 'input'), ([{'type': 'telepathy'}], 'input[0].type'), (7, 'input'),
                         ([{'role': 'user', 'content': 'a'}] * 4_095, 'input'),
                         ([{'type': 'item_reference', 'id': first['output'][0]['id']}], 'input[0]')):
        answer = respond(worker, input, previous_response_id=first['id'])
        assert answer.status == 400 and answer.error['param'] == param, answer.body


def test_without_a_store_nothing_is_there(tiny):
    for method, more in (('GET', ''), ('GET', '/input_items'), ('DELETE', '')):
        answer = tiny.call(method, f'/v1/responses/resp_1{more}')
        assert answer.status == 404 and '--response-store-mib' in answer.error['message']
