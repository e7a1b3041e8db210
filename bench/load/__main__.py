"""Load of many streams at once through HTTP, on this worker or on llama.cpp's server, with the same requests.

    python3 bench/load --model FILE --name NAME --worker WORKER [--options "--slots 256"] CASE...
    python3 bench/load --model FILE --name NAME --llama-server SERVER [--options "-np 64 -c 131072"] CASE...
    python3 bench/load --name NAME --url http://127.0.0.1:8080 CASE...

CASE is STREAMSxIN/OUT or STREAMSxIN/OUTxROUNDS: so many streams at once, each of which asks for OUT tokens
after a prompt of IN tokens, ROUNDS times (1) one after the other. 1000x215/194 is a burst of a thousand
requests. Prompts are random token ids of which no two requests share a beginning, of all cases; another run
at the same --url has others, a server that was started for its run the same. Every answer must have all
of its tokens, or the case has failed: it says why and has no figures, the next one begins, and the exit code
is 1. The clients are processes of their own, half as many as there are cores unless --processes says
otherwise; all connections are open before the first request is sent. The server ends with the run, at a
SIGTERM too.

For each case, printed and with --json written as one flat object of NAME/http/STREAMSxINxOUT/FIGURE:
output_tok_s                tokens of all answers over the time from the first request to the last token
tok_s_a_stream              median over the answers: tokens behind the first over their time
first_ms_p50, first_ms_p99  request sent to the first piece with text
gap_ms_p50, gap_ms_p99      between two reads of an answer that have text
"""
import argparse
import json
import os
import shlex
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from client import Case, percentile, run_case  # noqa: E402
from servers import Failure, LlamaServer, RunningServer, Worker, exit_on_sigterm  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cases', nargs='+', type=Case.parse, metavar='CASE')
    parser.add_argument('--name', required=True)
    parser.add_argument('--model')
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument('--worker')
    where.add_argument('--llama-server')
    where.add_argument('--url')
    parser.add_argument('--options', default='', help="more options of the server's program")
    parser.add_argument('--processes', type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument('--vocab', type=int, default=32000, help='ids of the prompts are below')
    parser.add_argument('--seed', help='of the prompts (1; with --url the time)')
    parser.add_argument('--json')
    chosen = parser.parse_args()
    chosen.seed = chosen.seed or (str(time.time_ns()) if chosen.url else '1')
    if not chosen.url and not chosen.model:
        parser.error('--model is needed to start a server')
    return chosen


def start(chosen):
    if chosen.url:
        return RunningServer(chosen.url)
    kind, binary = (Worker, chosen.worker) if chosen.worker else (LlamaServer, chosen.llama_server)
    return kind(binary, chosen.model, shlex.split(chosen.options))


def figures_of(case, answers):
    begin = min(a.begin for a in answers)
    end = max(a.times[-1] for a in answers)
    gaps = [(b - a) * 1e3 for answer in answers for a, b in zip(answer.times, answer.times[1:])]
    first = [(a.times[0] - a.begin) * 1e3 for a in answers]
    rates = [(case.tokens - 1) / (a.times[-1] - a.times[0]) for a in answers if a.times[-1] > a.times[0]]
    return {'output_tok_s': case.tokens * len(answers) / (end - begin),
            'tok_s_a_stream': statistics.median(rates) if rates else 0.0,
            'first_ms_p50': percentile(first, 0.5), 'first_ms_p99': percentile(first, 0.99),
            'gap_ms_p50': percentile(gaps, 0.5), 'gap_ms_p99': percentile(gaps, 0.99)}


def measure(chosen, server, number, case):
    """Figures of a case by their keys, printed; none of one that failed."""
    try:
        answers = run_case(server.address, case, chosen.processes, chosen.vocab, f'{chosen.seed}/{number}')
    except Failure as what:
        print(f'{chosen.name}/http/{case} failed: {what}', flush=True)
        return {}
    figures = {f'{chosen.name}/http/{case}/{key}': value for key, value in figures_of(case, answers).items()}
    for key, value in figures.items():
        print(f'{key:<60} {value:12.2f}', flush=True)
    return figures


def measure_all(chosen):
    figures, failed = {}, False
    with start(chosen) as server:
        for number, case in enumerate(chosen.cases):
            of_case = measure(chosen, server, number, case)
            failed = failed or not of_case
            figures.update((key, round(value, 3)) for key, value in of_case.items())
            if chosen.json:  # after each case, so that a run that is ended keeps what it has
                Path(chosen.json).write_text(json.dumps(figures, indent=2) + '\n')
    return 1 if failed else 0


def main():
    chosen = arguments()
    exit_on_sigterm()
    try:
        return measure_all(chosen)
    except Failure as what:
        raise SystemExit(str(what)) from None


if __name__ == '__main__':
    sys.exit(main())
