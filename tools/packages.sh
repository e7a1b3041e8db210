#!/usr/bin/env bash
# Installs the Debian packages that a purpose needs and that are missing.
# Usage: tools/packages.sh demo|test|fronts|image
set -euo pipefail

build=(g++ cmake ninja-build ccache pkg-config git ca-certificates
       libboost1.81-dev libboost-json1.81-dev libboost-program-options1.81-dev libboost-log1.81-dev
       libboost-thread1.81-dev libboost-filesystem1.81-dev libboost-test1.81-dev
       libssl-dev libsystemd-dev libutf8proc-dev libyaml-cpp-dev xz-utils
       libjpeg62-turbo-dev libpng-dev libwebp-dev libmpg123-dev
       libjs-marked node-highlight.js libjs-katex fonts-katex) # of the page at /
demo=("${build[@]}" python3 python3-pip curl)
test=("${demo[@]}" clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev python3-pytest
      python3-pytest-xdist chromium node-dompurify systemd dpkg-dev debootstrap curl groff-base zsh)
fronts=(nginx haproxy) # Debian starts what it installs
image=(buildah debootstrap curl)

case "${1:-}" in
  demo) wanted=("${demo[@]}") ;;
  test) wanted=("${test[@]}") ;;
  fronts) wanted=("${fronts[@]}") ;;
  image) wanted=("${image[@]}") ;;
  *) echo "usage: tools/packages.sh demo|test|fronts|image" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
