"""The `aider-chat` program, unchanged: it asks about a file and streams the answer."""
import subprocess
import sys

from client_program import environment_of
from worker_process import PATIENCE


def test_a_question_about_a_file(demo, packages_of, tmp_path):
    environment = environment_of(demo, tmp_path, packages_of('aider'))
    (tmp_path / 'poem.txt').write_text('Rain falls.\n')
    command = [sys.executable, '-B', '-m', 'aider', '--model', f"openai/{environment['MODEL']}",
               '--openai-api-base', environment['BASE_URL'], '--openai-api-key', 'none',
               '--edit-format', 'ask',
               '--no-git', '--yes-always', '--no-pretty', '--no-check-update', '--no-show-release-notes',
               '--analytics-disable', '--no-show-model-warnings', '--map-tokens', '0', '--no-detect-urls',
               '--no-suggest-shell-commands', '--message', 'What does the file say?', 'poem.txt']
    before = served(demo)
    ended = subprocess.run(command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=8 * PATIENCE,
                           check=False)
    said = ended.stdout.decode()
    assert ended.returncode == 0, said[-4000:]
    assert 'Tokens:' in said, said[-4000:]
    assert served(demo) > before and (tmp_path / 'poem.txt').read_text() == 'Rain falls.\n'


def served(worker) -> float:
    """Chats that were answered."""
    return worker.metrics().get('worker_http_requests_total{route="/v1/chat/completions",status="2xx"}', 0.0)
