"""A worker for the tests of the OpenAI endpoints, and short ways to ask it."""
import json
from pathlib import Path
from typing import List, Optional

from http_client import Connection, Response
from worker_process import PROJECT, Worker

TEMPLATES = PROJECT / 'test' / 'data' / 'chat' / 'templates'
QWEN = TEMPLATES / 'Qwen-Qwen2.5-7B-Instruct.jinja'
# Every message of a chat on a line of its own; what a tiny model answers is noise, but always the same.
TEMPLATE = ("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
            "{% if enable_thinking is defined %}thinking {{ enable_thinking }}\n{% endif %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")
CHAT = {'messages': [{'role': 'user', 'content': 'Once upon a time'}], 'temperature': 0, 'max_tokens': 8,
        'seed': 7, 'ignore_eos': True}
TEXT = {'prompt': 'Once upon a time', 'temperature': 0, 'max_tokens': 8, 'seed': 7, 'ignore_eos': True}


def write_thinker(folder) -> Path:
    """Qwen's template, but the prompt ends with the beginning of the reasoning."""
    template = folder / 'template.jinja'
    template.write_text(QWEN.read_text() + "{%- if add_generation_prompt %}{{- '<think>\\n' }}{%- endif %}")
    return template


def start(model, folder, *arguments: str) -> Worker:
    template = folder / 'template.jinja'
    template.write_text(TEMPLATE)
    worker = Worker('--model', model, '--chat-template', str(template), *arguments)
    worker.wait_event('ready')
    return worker


def chat(worker: Worker, headers: Optional[dict] = None, **changes) -> Response:
    return worker.call('POST', '/v1/chat/completions', {**CHAT, **changes}, headers)


def text(worker: Worker, **changes) -> Response:
    return worker.call('POST', '/v1/completions', {**TEXT, **changes})


def send(worker: Worker, **changes) -> Connection:
    """Asks for a chat and does not wait for the answer."""
    connection = worker.connect()
    connection.request('POST', '/v1/chat/completions', json.dumps({**CHAT, **changes}).encode())
    return connection


def refuses(answer: Response, param: Optional[str]) -> None:
    """Asserts that the answer names what was wrong. Without a `param` the request may be served: it is
    costly, but within the limits."""
    if param is None and answer.status == 200:
        return
    assert answer.status == 400, (answer.status, answer.body)
    assert answer.error['type'] == 'invalid_request_error' and answer.error['message']
    if param is not None:
        assert answer.error['param'] == param, answer.error


def frames(body: bytes) -> List[str]:
    """What the `data:` lines of a stream hold; nothing else may be in it but comments."""
    out = []
    for block in body.decode('utf-8').split('\n\n'):
        if block and not block.startswith(':'):
            assert block.startswith('data: ') and '\n' not in block, block
            out.append(block[len('data: '):])
    return out


def contents(body: bytes, choice: int = 0) -> str:
    """The text of one choice of a chat stream that ended well."""
    *chunks, done = frames(body)
    assert done == '[DONE]'
    parts = [c['delta'].get('content', '') for chunk in chunks for c in json.loads(chunk)['choices']
             if c['index'] == choice]
    return ''.join(parts)
