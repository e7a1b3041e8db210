"""A worker on the host backend for comparisons of whole models: K and V in f32, because the others round
nothing there either."""
import http.client
import json
import os
import subprocess
import threading
from typing import Dict, List


class Served:
    def __init__(self, build: str, path: str):
        self.process = subprocess.Popen(
            [os.path.join(build, 'worker-orcd'), '--model', path, '--backend', 'host', '--port', '0',
             '--kv-type-k', 'f32', '--kv-type-v', 'f32'], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            event = json.loads(line)
            if event['event'] == 'ready':
                self.port = event['port']
                # Its log is read on, so that it never waits for a full pipe.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise SystemExit('the worker did not start')

    def complete(self, prompt: List[int], tokens: int, likely: int) -> Dict:
        """Greedy tokens, and the log probabilities of the `likely` best at each."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port)
        body = {'prompt': prompt, 'n_predict': tokens, 'temperature': 0, 'return_tokens': True,
                'ignore_eos': True, 'n_probs': likely}
        connection.request('POST', '/completion', json.dumps(body), {'Content-Type': 'application/json'})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def __enter__(self) -> 'Served':
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait()


def gap(answer: Dict, at: int) -> float:
    """Between the two most likely tokens at a position: log probabilities differ as logits do."""
    first, second = answer['completion_probabilities'][at]['top_logprobs'][:2]
    return first['logprob'] - second['logprob']
