#!/bin/sh
# Runs the compiler that is given as words. Where ptxas is asked what it does (-Xptxas=-v), it is an error
# that it makes tensor-core products (wgmma) wait for each other: anything that diverges between two of them,
# or a sum that some path copies, leads to that. The result is right, and much slower, and ptxas says it only
# when asked. The rest of what it says then is left out.
messages=$(mktemp) || exit 1
trap 'rm -f "$messages"' EXIT
"$@" 2>"$messages"
status=$?
case " $* " in
  *" -Xptxas=-v "*) ;;
  *) cat "$messages" >&2; exit $status ;;
esac
grep -vE '^ptxas info|^ *[0-9]+ bytes stack frame' "$messages" >&2
[ $status -eq 0 ] || exit $status
if ! grep -q '^ptxas info' "$messages"; then
  echo "no messages of ptxas: $*" >&2
  exit 1
fi
if grep -E '\(C75[0-9][0-9]\).*serialized' "$messages" >&2; then
  exit 1
fi
