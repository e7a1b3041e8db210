"""The file of local build settings (M0-W-1701): its section [build] is read, others are left alone."""
import subprocess

import pytest

from worker_process import PROJECT


def read(tmp_path, text: str):
    file = tmp_path / '.llorch.toml'
    if text is not None:
        file.write_text(text)
    run = subprocess.run(['cmake', f'-DLLORCH_FILE={file}', '-P', str(PROJECT / 'cmake' / 'llorch.cmake')],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return run.returncode, run.stdout.decode()


@pytest.mark.parametrize('text, expected', [
    (None, 'cuda= auto_detect_cuda=true'),
    ('', 'cuda= auto_detect_cuda=true'),
    ('[build]\ncuda = true\nauto_detect_cuda = false\n', 'cuda=true auto_detect_cuda=false'),
    ('[build]\n  cuda=false # not here\n', 'cuda=false auto_detect_cuda=true'),
    ('\r\n[ build ]\r\ncuda = true\r\n', 'cuda=true auto_detect_cuda=true'),
    ('# cuda = true\n[build]\n# cuda = true\n', 'cuda= auto_detect_cuda=true'),
    # The keys of others may have the same names.
    ('cuda = true\n[test]\ncuda = false\nauto_detect_cuda = false\n', 'cuda= auto_detect_cuda=true'),
    ('[build]\ncuda = true\n[deploy]\ncuda = false\nhosts = ["a;b", "[c]"]\n',
     'cuda=true auto_detect_cuda=true'),
    ('[[build]]\n[tools]\nx = [\n  1,\n]\n[build]\ncuda = false', 'cuda=false auto_detect_cuda=true'),
])
def test_the_section_build_is_read_and_no_other(tmp_path, text, expected):
    code, output = read(tmp_path, text)
    assert code == 0 and output.strip() == '-- ' + expected, output


@pytest.mark.parametrize('line', ['cuda = yes', 'cuda = "true"', 'cuda', 'kuda = true', 'cuda = true false'])
def test_what_cannot_be_read_is_refused_with_its_line(tmp_path, line):
    code, output = read(tmp_path, f'[build]\n{line}\n')
    message = ' '.join(output.split())  # CMake breaks lines
    assert code != 0 and 'line 2' in message and line in message, output
