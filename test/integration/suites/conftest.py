"""The workers that the tables name, each started once."""

import sys
from pathlib import Path
from typing import Iterator

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gguf_edit import with_integers  # noqa: E402
from worker_process import PROJECT, Worker  # noqa: E402

ANY_NAME = ('--model-name', '*', '--slots', '2', '--context', '1024')


@pytest.fixture(scope='module')
def workers(demo_model, models, tmp_path_factory) -> Iterator[dict]:
    folder = tmp_path_factory.mktemp('suites')
    keys = folder / 'keys'
    keys.write_text('test-key\n')
    infill = folder / 'infill.gguf'
    infill.write_bytes(
        with_integers(
            demo_model.read_bytes(),
            {
                b'tokenizer.ggml.fim_pre_token_id': 5,
                b'tokenizer.ggml.fim_suf_token_id': 6,
                b'tokenizer.ggml.fim_mid_token_id': 7,
            },
        )
    )
    options = {
        'text': (demo_model, *ANY_NAME, '--slots-endpoint'),
        'tools': (
            demo_model,
            *ANY_NAME,
            '--chat-template',
            PROJECT / 'test/data/chat/templates/Qwen-Qwen3-0.6B.jinja',
        ),
        'keyed': (demo_model, '--slots', '2', '--context', '1024', '--api-key-file', keys, '--no-page'),
    }
    for name, kind in (('embedding', '1'), ('rerank', '4')):
        model = models(f'suites-{name}', '--family', 'bert', '--pooling', kind)
        options[name] = (model, '--slots', '4', '--max-queue', '64', '--model-name', '*')
    options['infill'] = (infill, *ANY_NAME)
    running = {}
    try:
        for name, (model, *rest) in options.items():
            running[name] = Worker('--model', model, *map(str, rest))
        for worker in running.values():
            worker.wait_event('ready')
        yield running
    finally:
        for worker in running.values():
            worker.end()
