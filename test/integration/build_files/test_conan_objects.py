"""Conan's build takes its objects from the compiler's cache of the build with CUDA: one flag more in either,
and it compiles for a quarter of an hour."""
import json
import re
import subprocess
from pathlib import Path

import pytest

from worker_process import BUILD, CUDA, PROJECT

# What really differs with CUDA.
OTHERS = {'app/model/model_setup.cpp', 'app/options/parse_options.cpp', 'gpu/capi/cuda_api.cpp'}


def commands(build: Path) -> dict:
    """How each object is made, wherever the folders are: the sources, where several are compiled together,
    and the command."""
    found = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        made = re.search(r' -o (\S+)', entry['command']).group(1)
        together = Path(entry['file']).read_text() if '/Unity/' in entry['file'] else ''
        found[made] = tuple(text.replace(str(build), 'BUILD').replace(str(PROJECT), 'SOURCE')
                            for text in (together, entry['command']))
    return found


@pytest.mark.skipif(not CUDA, reason='it is the build with CUDA that has the same objects')
def test_conan_compiles_what_the_build_with_cuda_has_compiled(tmp_path):
    # As conanfile.py has it.
    options = ('CMAKE_BUILD_TYPE=Release', 'BUILD_SHARED_LIBS=ON', 'WORKER_TESTS=OFF', 'WORKER_CUDA=OFF',
               'WORKER_LIBRARY=ON')
    subprocess.run(['cmake', '-S', PROJECT, '-B', tmp_path, '-G', 'Ninja', *(f'-D{o}' for o in options)],
                   check=True, stdout=subprocess.DEVNULL, timeout=300)
    ours, conans = commands(BUILD), commands(tmp_path)
    assert len(conans) > 150 and set(conans) <= set(ours)
    different = {how[-1].split()[-1].replace('SOURCE/', '') for made, how in conans.items()
                 if how != ours[made]}
    assert different == OTHERS
