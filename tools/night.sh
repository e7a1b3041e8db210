#!/usr/bin/env bash
# What takes too long for each change: tools/night.sh --list names its parts, --help says the rest.
# Usage: tools/night.sh [OPTION...] [PART...]
exec python3 -B "$(dirname "$0")/night" "$@"
