#!/usr/bin/env bash
# Puts every second client of tools/python_sweep.txt, from the first or the second on, where its test finds it
# (tools/python_packages.sh) and prints the tests. Usage: tools/sweep_clients.sh 1|2
set -euo pipefail
cd "$(dirname "$0")/.."
first=${1:?usage: tools/sweep_clients.sh 1|2}
for client in $(sed -n 's/^\([a-z-]*\): .*/\1/p' tools/python_sweep.txt | sed -n "$first~2p"); do
  tools/python_packages.sh "sweep-$client" >&2
  echo "test/integration/sweep/test_${client//-/_}.py"
done
