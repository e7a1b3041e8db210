#!/usr/bin/env bash
# Builds the Debian package twice, the second time in another folder, under another umask, time zone and
# language, and compares the bytes. The second build compiles everything again (for the host's package 13
# minutes of one core), so that it is not part of CI. ccache takes part both times, because it shortens the
# paths that the compiler sees.
# Usage: tools/package_twice.sh [PRESET]   package-host (the default), package
# With ORCD_CACHED=1 what has been compiled comes from the cache: links, documents and the whole package are
# made twice, the objects once. That takes about two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-package-host}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# Before the first build, which takes a while: what is changed meanwhile is in neither.
first=$work/first again=$work/a-folder-of-another-length
mkdir -p "$first" "$again"
# The folders have no repository.
cmake/version.sh . >"$work/.version"
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - -f "$work/sources.tar"
tar -x -f "$work/sources.tar" -C "$first"
cp "$work/.version" "$first"
deb=$(cd "$first" && tools/package.sh "$preset")
[ -n "${ORCD_CACHED:-}" ] || export CCACHE_RECACHE=1
umask 077
tar -x -f "$work/sources.tar" -C "$again"
cp "$work/.version" "$again"
other=$(cd "$again" && TZ=Asia/Tokyo LC_ALL=C tools/package.sh "$preset")
if ! cmp "$deb" "$other"; then
  mkdir "$work/unpacked" "$work/unpacked-again"
  dpkg-deb -R "$deb" "$work/unpacked"
  dpkg-deb -R "$other" "$work/unpacked-again"
  diff -rq "$work/unpacked" "$work/unpacked-again" || true
  exit 1
fi
sha256sum "$deb" "$other" | sed "s#$work/##"
