"""The GGUF files that trillim-quantize writes, opened by the reader that others use (gguf-py), which knows no
I2_S: the forks that have that type added it, and so does the test."""
import json
import os
import subprocess
from pathlib import Path

import pytest

from quantizer import run
from safetensors_files import read_gguf
from worker_process import PATIENCE, SANITIZED

LIBRARY = Path(os.environ.get('ORCD_TRILLIM', '/nonexistent'))
READ = '''
import json, sys
from gguf import GGUFReader, constants
kind = int.__new__(constants.GGMLQuantizationType, 36)
kind._name_, kind._value_ = 'I2_S', 36
if sys.argv[2] == 'with I2_S':
    constants.GGMLQuantizationType._value2member_map_[36] = kind
    constants.GGML_QUANT_SIZES[kind] = (128, 32)
opened = GGUFReader(sys.argv[1])
print(json.dumps({
    'keys': {name: field.contents() for name, field in opened.fields.items() if not name.startswith('GGUF.')},
    'tensors': {t.name: [list(map(int, t.shape)), int(t.tensor_type), t.data.tobytes()[:8].hex()]
                for t in opened.tensors}}))
'''

pytestmark = [pytest.mark.skipif(not (LIBRARY / 'gguf').is_dir(),
                                 reason='gguf-py is not here: set ORCD_TRILLIM (tools/python_packages.sh)'),
              pytest.mark.skipif(SANITIZED, reason='about files: once is enough')]


@pytest.mark.parametrize('kind', ['tq1_0', 'tq2_0', 'qmodel.tensors'])
def test_others_open_what_is_written(place, kind):
    image = place / 'out.gguf'
    if kind == 'qmodel.tensors':
        assert run(place / 'tiny', '--out', place / 'OUT').returncode == 0
        image.write_bytes((place / 'OUT' / kind).read_bytes()[256:])
    else:
        assert run(place / 'tiny', '--out', image, '--type', kind).returncode == 0
    done = subprocess.run(['/usr/bin/python3', '-B', '-c', READ, image,
                           'with I2_S' if kind == 'qmodel.tensors' else 'as it is'], stdout=subprocess.PIPE,
                          check=True, timeout=PATIENCE, env={**os.environ, 'PYTHONPATH': str(LIBRARY)})
    told = json.loads(done.stdout)
    keys, tensors = read_gguf(image.read_bytes())
    assert set(told['keys']) == set(keys)
    assert all(told['keys'][name] == pytest.approx(value) for name, value in keys.items())
    assert told['tensors'] == {name: [list(t.extents), t.kind, t.data[:8].hex()]
                               for name, t in tensors.items()}
