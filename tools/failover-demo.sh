#!/usr/bin/env bash
# A holder and two engines: a story streams, the engine that serves is killed in the middle, and the client
# reads on as if nothing had happened. Prints the longest pause that it saw.
# Usage: tools/failover-demo.sh   on the CPU; with ORCD_BACKEND=cuda on a GPU, which needs nvcc 13
set -euo pipefail
cd "$(dirname "$0")/.."
backend=${ORCD_BACKEND:-host}
case "$backend" in
  host) preset=demo-host ;;
  cuda) preset=release ;;
  *) echo "ORCD_BACKEND is '$backend'; it must be host or cuda" >&2 && exit 2 ;;
esac

tools/packages.sh demo
tools/build.sh "$preset" worker-orcd worker-orcd-holder
exec tools/watch_takeover.py "build/$preset" "$(tools/fetch_demo_model.sh)" --backend "$backend"
