"""bench/load: what one run of it asks and tells."""
import json
import subprocess
import sys

from worker_process import BINARY, PROJECT, Worker

LOAD = PROJECT / 'bench' / 'load'


def load(tmp_path, *words) -> tuple:
    """Exit code, figures and what was said."""
    out = tmp_path / 'out.json'
    command = [sys.executable, '-B', str(LOAD), '--name', 'm', '--vocab', '300', '--json', str(out)]
    done = subprocess.run([*command, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=120)
    return done.returncode, json.loads(out.read_text()) if out.exists() else {}, done.stdout.decode()


def test_no_case_finds_the_prompts_of_another_in_the_prefix_cache(tmp_path, tiny_model):
    # Of 300 tokens two random prompts share the first now and then, and the first four never.
    with Worker('--model', tiny_model, '--slots', '4', '--cache-min-tokens', '4') as worker:
        for _ in range(2):
            code, figures, said = load(tmp_path, '--url', f'http://127.0.0.1:{worker.port}',
                                       '2x300/4x2', '3x280/4')
            assert code == 0 and len(figures) == 12, said
        assert worker.metric('worker_prefix_cache_hits_total') == 0


def test_a_case_that_fails_says_why_and_the_others_are_measured(tmp_path, tiny_model):
    code, figures, said = load(tmp_path, '--model', tiny_model, '--worker', BINARY, '--options',
                               '--backend host --slots 2 --context 64', '2x10/4', '1x100/4', '2x11/4')
    assert code == 1 and 'm/http/1x100x4 failed' in said and 'maximum context' in said, said
    assert {key.split('/')[2] for key in figures} == {'2x10x4', '2x11x4'}


def test_a_server_that_does_not_start_is_told(tmp_path):
    code, figures, said = load(tmp_path, '--model', '/nothing.gguf', '--worker', BINARY, '--options',
                               '--backend host', '1x1/1')
    assert code == 1 and not figures and 'not ready' in said and 'Traceback' not in said, said
