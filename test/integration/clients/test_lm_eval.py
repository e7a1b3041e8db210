"""lm-eval as it is in PyPI, with a loglikelihood task on a small file, through /v1/completions and the
worker's own tokenizer. The figures are those of transformers on the same file (test/oracle/README.md).
tools/python_packages.sh fetches it."""
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker_process import PATIENCE, PROJECT, Worker

PACKAGES = Path(os.environ.get('ORCD_LM_EVAL', '/nonexistent'))
GOLDEN = PROJECT / 'test' / 'data' / 'golden'
TASK = """
task: continuations
dataset_path: json
dataset_kwargs: {{data_files: {{test: '{documents}'}}}}
test_split: test
output_type: loglikelihood
doc_to_text: '{{{{context}}}}'
doc_to_target: '{{{{continuation}}}}'
target_delimiter: ''
metric_list:
  - {{metric: perplexity, aggregation: perplexity, higher_is_better: false}}
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
"""
# K and V are f16 here and in the oracle's second figure; which way a value near the middle of two rounds
# moves a sum of log probabilities by some thousandths.
TOLERANCE = 0.01


def evaluate(worker: Worker, model: str, folder: Path) -> Path:
    """Runs lm-eval; the folder with its results."""
    documents = GOLDEN / 'smollm2-loglikelihood.jsonl'
    (folder / 'continuations.yaml').write_text(TASK.format(documents=documents))
    server = f'model={model},base_url=http://127.0.0.1:{worker.port}/v1/completions,max_retries=1'
    environment = {**os.environ, 'PYTHONPATH': str(PACKAGES), 'HF_HOME': str(folder), 'HF_HUB_OFFLINE': '1',
                   'HF_DATASETS_OFFLINE': '1'}
    run = subprocess.run(
        [sys.executable, '-m', 'lm_eval', '--model', 'local-completions', '--model_args', server, '--tasks',
         'continuations', '--include_path', str(folder), '--output_path', str(folder / 'out'),
         '--log_samples', '--batch_size', '5'],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=8 * PATIENCE,
        check=False)
    assert run.returncode == 0, run.stdout.decode()[-4000:]
    return folder / 'out'


@pytest.mark.skipif(not (PACKAGES / 'lm_eval').exists(),
                    reason='lm-eval is not here: set ORCD_LM_EVAL (tools/python_packages.sh)')
def test_loglikelihoods_are_those_of_transformers(demo_model, tmp_path):
    golden = json.loads((GOLDEN / 'smollm2-loglikelihood.json').read_text())['cases']
    with Worker('--model', demo_model, '--slots', '2') as worker:
        worker.wait_event('ready')
        out = evaluate(worker, worker.get('/v1/models').json()['data'][0]['id'], tmp_path)
    (samples,) = out.rglob('samples_*.jsonl')
    told = {}
    for line in samples.read_text().splitlines():
        sample = json.loads(line)
        value, greedy = sample['filtered_resps'][0]
        told[sample['doc_id']] = (float(value), str(greedy) == 'True')
    assert sorted(told) == list(range(len(golden)))
    for i, case in enumerate(golden):
        value, greedy = told[i]
        assert abs(value - case['sum_f16_kv']) < TOLERANCE, (i, value, case)
        assert greedy == case['greedy'], (i, case)
    (results,) = out.rglob('results_*.json')
    figures = json.loads(results.read_text())['results']['continuations']
    expected = math.exp(-sum(case['sum'] for case in golden) / len(golden))
    assert abs(figures['perplexity,none'] / expected - 1) < TOLERANCE / 10
    assert figures['acc,none'] == pytest.approx(sum(case['greedy'] for case in golden) / len(golden))
