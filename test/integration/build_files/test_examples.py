"""What the documents show is what works: their files, commands and answers are taken from them."""
import json
import re
import subprocess

import pytest

from lora_files import Shape, write_adapter
from worker_process import BUILD, PROJECT, Worker

OPERATIONS, README = PROJECT / 'docs' / 'operations.md', PROJECT / 'README.md'
API = [PROJECT / 'docs' / 'api.md', *sorted((PROJECT / 'docs' / 'api').glob('*.md'))]
TEMPLATE = '''{% for t in tools %}tool {{ t.function.name }}
{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}'''


def blocks(page, language: str = '') -> list:
    found = re.findall(r'^```(\w*)\n(.*?)^```$', page.read_text(), re.M | re.S)
    return [text for named, text in found if named == language]


def test_the_chat_and_its_tools_are_what_inspect_reads(tmp_path):
    files = {}
    for name, text in zip(('chat', 'tools'), blocks(OPERATIONS, 'json')):
        files[name] = tmp_path / f'{name}.json'
        files[name].write_text(text)
    (tmp_path / 'template.jinja').write_text(TEMPLATE)
    shown = [line for block in blocks(OPERATIONS) for line in block.splitlines()]
    command = next(line for line in shown if ' chat FILE' in line)
    words = command.split('#')[0].split()
    words = [{'FILE': str(tmp_path / 'template.jinja'), 'chat.json': str(files['chat']),
              'tools.json': str(files['tools']), 'worker-orcd-inspect': str(BUILD / 'worker-orcd-inspect')
              }.get(w, w) for w in words]
    said = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
    assert said.splitlines()[0] == 'tool weather' and 'user: What is the weather in Oslo?' in said, said


def test_the_program_of_the_c_api_compiles_as_shown(tmp_path):
    (block,) = [b for page in API for b in blocks(page) if 'worker_cuda' in b]
    lines = block.splitlines()
    assert [line.split()[0] for line in lines] == [
        'tools/packages.sh', 'tools/build.sh', 'tools/fetch_demo_model.sh', 'cc', './example']
    for line in lines[:3]:
        assert (PROJECT / line.split()[0]).exists()
    assert f'add_library({lines[1].split()[2]} SHARED' in (PROJECT / 'gpu/capi/CMakeLists.txt').read_text()
    # Without CUDA there is no library to link with.
    words = [w for w in lines[3].split() if not w.startswith(('-L', '-l', '-Wl'))]
    words[words.index('-o') + 1] = str(tmp_path / 'example.o')
    subprocess.run([*words, '-c', '-Wall', '-Werror'], cwd=PROJECT, check=True, timeout=60)
    assert lines[4].split()[1] in (PROJECT / 'tools/fetch_demo_model.sh').read_text()


def fields_of(text: str, event: str) -> list:
    found = re.search(rf'^event: {event}\n(?:id: \d+\n)?data: (.*)$', text, re.M)
    return list(json.loads(found.group(1)))


def test_the_readme_shows_the_events_with_their_fields(tiny):
    shown = README.read_text()
    sent = {e.name: list(e.data) for e in tiny.execute(max_tokens=2, ignore_eos=True)}
    for event in ('started', 'token', 'end'):
        assert fields_of(shown, event) == sent[event], event


def transcripts(page) -> list:
    """Of each example its command, whose further lines are indented, and the lines that it prints."""
    out = []
    for line in (line for block in blocks(page, 'console') for line in block.splitlines()):
        if line.startswith('$ '):
            out.append((line[2:], []))
        elif line.startswith(' '):
            out[-1] = (out[-1][0] + '\n' + line, out[-1][1])
        else:
            out[-1][1].append(line)
    return out


def shape(value):
    """Names and kinds: what a model says differs."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return 'number' if number else type(value).__name__


def shapes(lines) -> list:
    """Of JSON, alone or in events; other lines as they are."""
    out = []
    for line in lines:
        text = line[len('data: '):] if line.startswith('data: ') else line
        out.append(shape(json.loads(text)) if text.startswith('{') else line)
    return out


def test_the_commands_of_the_api_print_what_is_shown(tiny):
    by_page = {page.name: transcripts(page) for page in API}
    for page in ('openai.md', 'anthropic.md', 'llama_server.md', 'ollama.md'):
        assert by_page[page], page
    shown = [one for examples in by_page.values() for one in examples]
    assert len(shown) >= 6
    for command, answer in shown:
        assert command.startswith('curl -s') and 'http://127.0.0.1:8080/' in command, command
        here = command.replace('http://127.0.0.1:8080/', f'http://127.0.0.1:{tiny.port}/')
        said = subprocess.run(['bash', '-c', here], stdout=subprocess.PIPE, check=True, timeout=60).stdout
        said = shapes([line for line in said.decode().splitlines() if line and not line.startswith(':')])
        expected = shapes(answer)
        assert answer and expected[-1] == said[-1], (command, said[-1])
        assert all(one in said for one in expected), (command, said)
        assert answer[0].startswith('data: ') or len(said) == len(expected), command


def test_the_adapters_of_the_api_are_chosen_as_shown(models, tmp_path):
    (block,) = [b for page in API for b in blocks(page) if '--lora' in b]
    start, ask = block.splitlines()
    assert start.startswith('worker-orcd --model base.gguf ')
    words = start.split()[1:]
    words[words.index('base.gguf')] = str(models('base', *Shape().options()))
    for seed, name in enumerate(('legal.gguf', 'tone')):
        folder = write_adapter(tmp_path / name, seed)
        words = [word.replace(f'/models/{name}', str(folder)) for word in words]
    with Worker(*words) as worker:
        worker.wait_event('ready')
        here = ask.replace(':8080/', f':{worker.port}/')
        said = json.loads(subprocess.run(['bash', '-c', here], stdout=subprocess.PIPE, check=True,
                                         timeout=60).stdout)
        assert said['model'] == 'legal' and said['choices'][0]['text'], said


@pytest.mark.parametrize('page', [README, OPERATIONS, *API], ids=lambda page: page.name)
def test_tools_that_a_document_calls_are_there(page):
    for name in set(re.findall(r'\b((?:tools|bench|test)/[\w./]+\.(?:sh|py|cpp|hpp))\b', page.read_text())):
        assert (PROJECT / name).exists(), name
