"""The `cohere` package, unchanged, with its ClientV2: a ranking."""
import pytest

from client_program import run
from worker_process import Worker

PROGRAM = '''
import os
import cohere

DOCUMENTS = ['hello world', 'a', 'The quick brown fox, and 12 more!']

def client():
    return cohere.ClientV2('none', base_url=os.environ['URL'])

def case_all():
    answer = client().rerank(model=os.environ['MODEL'], query='hello', documents=DOCUMENTS)
    return [[r.index, r.relevance_score] for r in answer.results]

def case_best():
    answer = client().rerank(model=os.environ['MODEL'], query='hello', documents=DOCUMENTS, top_n=2,
                             max_tokens_per_doc=4)
    return [[r.index, r.relevance_score] for r in answer.results]

def case_refused():
    try:
        client().rerank(model='other', query='hello', documents=DOCUMENTS)
    except cohere.NotFoundError as e:
        return e.status_code
'''


@pytest.fixture(scope='module')
def told(models, packages_of, tmp_path_factory):
    model = models('sweep-ranker', '--family', 'bert', '--pooling', '4')
    with Worker('--model', model, '--slots', '2') as worker:
        worker.wait_event('ready')
        yield run(worker, PROGRAM, tmp_path_factory.mktemp('cohere'), packages_of('cohere'))


def test_a_ranking(told):
    scores = [score for _, score in told['all']]
    assert scores == sorted(scores, reverse=True) and all(0 < score < 1 for score in scores)
    assert sorted(index for index, _ in told['all']) == [0, 1, 2]
    assert len(told['best']) == 2


def test_another_model_is_not_found(told):
    assert told['refused'] == 404
