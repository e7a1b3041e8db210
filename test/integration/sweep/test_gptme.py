"""The `gptme` program, unchanged, with its provider `local`: a conversation of one turn, without its
tools."""
import subprocess
import sys

from client_program import environment_of
from worker_process import PATIENCE


def test_a_turn(demo, packages_of, tmp_path):
    environment = environment_of(demo, tmp_path, packages_of('gptme'))
    environment['OPENAI_BASE_URL'] = environment['BASE_URL']
    command = [sys.executable, '-B', '-m', 'gptme', '--non-interactive', '--no-confirm', '--system', 'short',
               '--tools', 'none', '--name', 'turn', '--model', f"local/{environment['MODEL']}",
               'Say a word about rain.']
    ended = subprocess.run(command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=8 * PATIENCE,
                           check=False)
    said = ended.stdout.decode()
    assert ended.returncode == 0, said[-4000:]
    (conversation,) = tmp_path.glob('**/conversation.jsonl')
    assert '"assistant"' in conversation.read_text(), said[-4000:]
