"""What the documents show is what works: their files, commands and answers are taken from them."""
import json
import re
import subprocess

import pytest

from worker_process import BUILD, PROJECT

API, OPERATIONS, README = (PROJECT / name for name in ('docs/api.md', 'docs/operations.md', 'README.md'))
TEMPLATE = '''{% for t in tools %}tool {{ t.function.name }}
{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}'''


def blocks(page, language: str = '') -> list:
    return re.findall(rf'^```{language}\n(.*?)^```$', page.read_text(), re.M | re.S)


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
    (block,) = [b for b in blocks(API) if 'worker_cuda' in b]
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


@pytest.mark.parametrize('page', [README, API, OPERATIONS])
def test_tools_that_a_document_calls_are_there(page):
    for name in set(re.findall(r'\b((?:tools|bench|test)/[\w./]+\.(?:sh|py|cpp|hpp))\b', page.read_text())):
        assert (PROJECT / name).exists(), name
