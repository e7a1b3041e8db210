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
    """How each object is made, wherever the folders are."""
    found = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        command = entry['command'].replace(str(build), 'BUILD').replace(str(PROJECT), 'SOURCE')
        found[re.search(r' -o (\S+)', command).group(1)] = command
    return found


@pytest.mark.skipif(not CUDA, reason='it is the build with CUDA that has the same objects')
def test_conan_compiles_what_the_build_with_cuda_has_compiled(tmp_path):
    # As conanfile.py has it.
    options = ('CMAKE_BUILD_TYPE=Release', 'BUILD_SHARED_LIBS=ON', 'WORKER_TESTS=OFF', 'WORKER_CUDA=OFF',
               'WORKER_LIBRARY=ON')
    subprocess.run(['cmake', '-S', PROJECT, '-B', tmp_path, '-G', 'Ninja', *(f'-D{o}' for o in options)],
                   check=True, stdout=subprocess.DEVNULL, timeout=300)
    ours, conans = commands(BUILD), commands(tmp_path)
    assert len(conans) > 300 and set(conans) <= set(ours)
    different = {command.split()[-1].replace('SOURCE/', '') for made, command in conans.items()
                 if command != ours[made]}
    assert different == OTHERS
