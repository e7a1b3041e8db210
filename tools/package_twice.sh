#!/usr/bin/env bash
# Builds the Debian package once more, in another folder, under another umask, time zone and language, and
# compares the bytes. That compiles everything again, so that it takes minutes and is not part of CI. ccache
# takes part both times, because it shortens the paths that the compiler sees.
# Usage: tools/package_twice.sh DEB [PRESET]
# With ORCD_CACHED=1 what has been compiled comes from the cache: links, documents and the whole package are
# made twice, the objects once.
set -euo pipefail
cd "$(dirname "$0")/.."
deb=$(realpath "${1:?usage: tools/package_twice.sh DEB [PRESET]}")
preset=${2:-package}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -n "${ORCD_CACHED:-}" ] || export CCACHE_RECACHE=1
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
again=$work/a-folder-of-another-length
mkdir -p "$again"
git ls-files -z --cached --others --exclude-standard | xargs -0 tar -c | tar -x -C "$again"
other=$(umask 077 && cd "$again" && TZ=Asia/Tokyo LC_ALL=C tools/package.sh "$preset")
if ! cmp "$deb" "$other"; then
  mkdir "$work/first" "$work/second"
  dpkg-deb -R "$deb" "$work/first"
  dpkg-deb -R "$other" "$work/second"
  diff -rq "$work/first" "$work/second" || true
  exit 1
fi
sha256sum "$deb" "$other" | sed "s#$work/##"
