#!/usr/bin/env bash
# A holder and two engines on the host backend: a story streams, the engine that serves is killed in the
# middle, and the client reads on as if nothing had happened. Prints the longest pause that it saw.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh demo
tools/build.sh demo-host worker-orcd worker-orcd-holder
exec tools/watch_takeover.py build/demo-host "$(tools/fetch_demo_model.sh)"
