#!/usr/bin/env python3
"""What drafts gain by kind of request, through HTTP, with a model that was trained; and llama.cpp beside it.

    bench/drafts.py --model FILE --worker WORKER [--backend cuda] [--llama-server SERVER] [--json OUT.json]

Kinds: edit (a source file is asked for again with one name changed; the file is the request's `prediction`),
quote (sentences of a passage), json (rows in a JSON schema) and free (open questions); six requests of each,
one after the other, at temperature 0. The worker runs with --speculate off and then with auto; llama.cpp's
server runs plainly and with each of its n-gram drafters. For each:
demo/http/drafts/KIND/off_tok_s, auto_tok_s, ratio  tokens behind the first over their time, of all requests
demo/http/drafts/KIND/accepted, tokens_a_step       share of the drafts that were right, as /metrics counts
                                                    them; with auto
demo/http/drafts/KIND/llama_cpp/DRAFTER_tok_s
The worker's answers with and without drafts must be the same, or the run fails. A drafter that llama.cpp's
server does not have, or fails with, is told and has no figures.
"""
import argparse
import http.client
import json
import re
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / 'load'))

from servers import Failure, LlamaServer, Worker, exit_on_sigterm  # noqa: E402

LIMIT = 400  # tokens of an answer
NGRAM_DRAFTERS = ('ngram-simple', 'ngram-map-k', 'ngram-mod', 'ngram-cache')
SOURCES = ('gpu_figures.py', 'gpu_http.py', 'http_bench.py', 'prefix_soak.py', 'quantize.py',
           'load/client.py')
RENAMED = ('write', 'percentile', 'commit', 'main', 'main', 'percentile')
PASSAGE = ('The lighthouse stood at the end of a long pier. Every evening the keeper climbed its stairs, two '
           'hundred and four of them, and lit the lamp. In winter the storms came from the north, and the '
           'waves reached the gallery. The keeper wrote the hour of each ship in a large book. Nobody ever '
           'read that book. When he grew old, his daughter took the lamp over and kept the book as he had.')
QUOTES = ('Repeat the passage word by word.', 'Quote the second and the third sentence.',
          'Quote every sentence about the book.', 'Repeat the passage and then name its place.',
          'Quote the last sentence, then the first one.', 'Copy the passage exactly.')
QUESTIONS = ('Why is the sky blue?', 'Tell a story about a fox.', 'What is a good breakfast?',
             'Explain what a computer does.', 'Describe a walk by the sea.', 'How do birds fly?')
SCHEMA = {'type': 'object', 'additionalProperties': False, 'required': ['people'], 'properties': {
    'people': {'type': 'array', 'minItems': 6, 'maxItems': 6, 'items': {
        'type': 'object', 'additionalProperties': False,
        'required': ['first_name', 'family_name', 'age_in_years', 'is_member'],
        'properties': {'first_name': {'type': 'string', 'maxLength': 12},
                       'family_name': {'type': 'string', 'maxLength': 12},
                       'age_in_years': {'type': 'integer', 'minimum': 1, 'maximum': 99},
                       'is_member': {'type': 'boolean'}}}}}}


def chat(text, **more):
    return {'messages': [{'role': 'user', 'content': text}], 'temperature': 0, 'max_tokens': LIMIT,
            'stream': True, 'stream_options': {'include_usage': True}, 'cache_prompt': False, **more}


def edits():
    for name, word in zip(SOURCES, RENAMED):
        source = ''.join((HERE / name).read_text().splitlines(keepends=True)[:40])
        task = f'Write this file again, with {word} renamed to {word}_all. Write nothing else.'
        yield chat(f'{task}\n\n{source}', prediction={'type': 'content', 'content': source})


def kinds():
    rows = {'type': 'json_schema', 'json_schema': {'name': 'people', 'strict': True, 'schema': SCHEMA}}
    return {'edit': list(edits()),
            'quote': [chat(f'{PASSAGE}\n\n{what}') for what in QUOTES],
            'json': [chat(f'{i + 1}. Invent six members of a club.', response_format=rows) for i in range(6)],
            'free': [chat(question) for question in QUESTIONS]}


def ask(address, body):
    """The text of an answer, its usage, and the seconds from its first piece to its last."""
    connection = http.client.HTTPConnection(*address, timeout=300)
    headers = {'Content-Type': 'application/json'}
    connection.request('POST', '/v1/chat/completions', json.dumps(body), headers)
    answer = connection.getresponse()
    if answer.status != 200:
        raise Failure(f'{answer.status}: {answer.read(400).decode(errors="replace")}')
    text, usage, times = '', {}, []
    for line in answer:
        if not line.startswith(b'data: {'):
            continue
        chunk = json.loads(line[6:])
        usage = chunk.get('usage') or usage
        piece = ''.join(c['delta'].get('content') or '' for c in chunk.get('choices', []))
        if piece:
            times.append(time.perf_counter())
            text += piece
    connection.close()
    if not times:
        raise Failure('an answer has no text')
    return text, usage, times[-1] - times[0]


def drafts_so_far(address):
    """Drafts that the worker has checked, and those that became output."""
    with urllib.request.urlopen('http://{}:{}/metrics'.format(*address), timeout=10) as answer:
        text = answer.read().decode()
    counts = dict(re.findall(r'^(worker_draft_tokens\w*_total) (\S+)$', text, re.M))
    return float(counts['worker_draft_tokens_total']), float(counts['worker_draft_tokens_accepted_total'])


def run_kind(address, bodies, prediction):
    """Answers of a kind, their tokens behind the first ones, and tokens a second."""
    texts, tokens, seconds = [], 0, 0.0
    for body in bodies:
        asked = body if prediction else {k: v for k, v in body.items() if k != 'prediction'}
        text, usage, took = ask(address, asked)
        texts.append(text)
        tokens += usage['completion_tokens'] - 1
        seconds += took
    return texts, tokens, tokens / seconds


def measure_worker(chosen, figures):
    answers = {}
    for mode in ('off', 'auto'):
        options = ['--backend', chosen.backend, '--slots', '1', '--context', '4096', '--speculate', mode]
        with Worker(chosen.worker, chosen.model, options) as server:
            run_kind(server.address, kinds()['free'][:1], True)
            for kind, bodies in kinds().items():
                checked, right = drafts_so_far(server.address)
                texts, tokens, rate = run_kind(server.address, bodies, True)
                if answers.setdefault(kind, texts) != texts:
                    raise Failure(f'{kind}: drafts changed an answer')
                figures[f'demo/http/drafts/{kind}/{mode}_tok_s'] = rate
                if mode == 'auto':
                    checked, right = (b - a for a, b in zip((checked, right), drafts_so_far(server.address)))
                    figures[f'demo/http/drafts/{kind}/accepted'] = right / max(1, checked)
                    figures[f'demo/http/drafts/{kind}/tokens_a_step'] = tokens / max(1, tokens - right)
    for kind in answers:
        figures[f'demo/http/drafts/{kind}/ratio'] = (figures[f'demo/http/drafts/{kind}/auto_tok_s'] /
                                                     figures[f'demo/http/drafts/{kind}/off_tok_s'])


def measure_llama(chosen, drafter, figures):
    options = ['-ngl', '99', '-fa', 'on', '-np', '1', '-c', '4096', '--spec-type', drafter]
    with LlamaServer(chosen.llama_server, chosen.model, options) as server:
        run_kind(server.address, kinds()['free'][:1], False)
        for kind, bodies in kinds().items():
            rate = run_kind(server.address, bodies, False)[-1]
            figures[f'demo/http/drafts/{kind}/llama_cpp/{drafter}_tok_s'] = rate


def measure(chosen, figures):
    """Whether all was measured."""
    measure_worker(chosen, figures)
    complete = True
    for drafter in ('none',) + NGRAM_DRAFTERS if chosen.llama_server else ():
        try:
            measure_llama(chosen, drafter, figures)
        except (Failure, OSError, http.client.HTTPException) as what:
            print(f'{drafter} of llama.cpp failed: {what}', flush=True)
            complete = False
    return complete


def tell(chosen, figures):
    for key, value in figures.items():
        figures[key] = round(value, 3)
        print(f'{key:<60} {value:10.2f}')
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(figures, indent=2) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True)
    parser.add_argument('--worker', required=True)
    parser.add_argument('--backend', default='cuda')
    parser.add_argument('--llama-server')
    parser.add_argument('--json')
    chosen = parser.parse_args()
    exit_on_sigterm()
    figures = {}
    try:
        return 0 if measure(chosen, figures) else 1
    except Failure as what:
        raise SystemExit(str(what)) from None
    finally:
        tell(chosen, figures)


if __name__ == '__main__':
    sys.exit(main())
