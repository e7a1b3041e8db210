"""What is shipped was built so that a fault of memory ends it (cmake/hardening.cmake): read from its ELF."""
import re
import shutil
import subprocess

import pytest

from worker_process import BUILD, SANITIZED

pytestmark = pytest.mark.skipif(SANITIZED, reason='about CMake: once is enough')

PROGRAMS = ('worker-orcd', 'worker-orcd-decoder', 'worker-orcd-holder', 'worker-orcd-inspect',
            'worker-orcd-pod', 'trillim-quantize', 'inference')
PARTS = ('app/liborcd_app.a', 'app/liborcd_process.a', 'engine/liborcd_engine.a', 'gpu/liborcd_gpu.a',
         'net/liborcd_net.a')
LIBRARIES = tuple(name for name in ('libworker_cuda.so',) if (BUILD / name).exists())


def read(name: str, *options: str) -> str:
    return subprocess.run([shutil.which('readelf') or 'readelf', '-W', *options, BUILD / name], check=True,
                          stdout=subprocess.PIPE, timeout=60).stdout.decode()


@pytest.mark.parametrize('name', PROGRAMS)
def test_programs_lie_at_any_address(name):
    assert re.search(r'Type: +DYN', read(name, '-h'))
    assert re.search(r'\(FLAGS_1\) .*\bPIE\b', read(name, '-d'))


@pytest.mark.parametrize('name', PROGRAMS + LIBRARIES)
def test_the_loader_s_tables_are_read_only_before_the_first_line_runs(name):
    dynamic = read(name, '-d')
    assert re.search(r'\(FLAGS\) .*\bBIND_NOW\b|\(BIND_NOW\)', dynamic), dynamic
    assert re.search(r'\(FLAGS_1\) .*\bNOW\b', dynamic) and '(TEXTREL)' not in dynamic, dynamic
    assert 'GNU_RELRO' in read(name, '-l')


@pytest.mark.parametrize('name', PROGRAMS + LIBRARIES)
def test_nothing_can_be_written_and_executed(name):
    row = r'^ +(\w+)' + r' +0x\S+' * 5 + r' +([RWE ]{3}) '
    segments = re.findall(row, read(name, '-l'), re.M)
    assert {kind for kind, _ in segments} >= {'LOAD', 'GNU_STACK'}, segments
    assert [flags for kind, flags in segments if kind == 'GNU_STACK'] == ['RW '], segments
    assert not [flags for _, flags in segments if 'W' in flags and 'E' in flags], segments


@pytest.mark.parametrize('part', PARTS)
def test_stacks_and_copies_are_checked(part):
    """In our own objects: Debian's static libraries bring such calls into every program."""
    taken = set(re.findall(r' UND (__\w+_chk|__stack_chk_fail)$', read(part, '--symbols'), re.M))
    assert '__stack_chk_fail' in taken and len(taken) > 1, taken
