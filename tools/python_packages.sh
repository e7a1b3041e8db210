#!/usr/bin/env bash
# Puts a Python program that only tests need, pinned, with what it needs at build/tools/python/NAME and prints
# the path. A second run takes nothing from the network.
# Usage: tools/python_packages.sh NAME, one of: openai openai-agents anthropic litellm lm_eval schemathesis
# playwright axe conan kubernetes clients vllm-router otlp trillim oracle pytritium llama-cpp sweep-CLIENT
set -euo pipefail
cd "$(dirname "$0")/.."

# Puts the MIT-licensed Python of one release of the Trillim SDK at FOLDER/sdk-VERSION. The programs in the
# same wheel have a licence of their own: they are not unpacked, and the wheel stays neither in a folder nor
# in pip's cache.
fetch_trillim() (
  folder=$1 version=$2
  wheel=$(mktemp -d)
  trap 'rm -rf "$wheel"' EXIT
  /usr/bin/python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --only-binary=:all: --python-version 3.12 \
    --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 \
    --dest "$wheel" "trillim==$version" >&2
  /usr/bin/python3 - "$wheel" "$folder/sdk-$version" <<'PYTHON'
import pathlib, sys, zipfile
for wheel in pathlib.Path(sys.argv[1]).glob('*.whl'):
    with zipfile.ZipFile(wheel) as parts:
        for name in parts.namelist():
            if name.endswith(('.py', 'METADATA')) or 'LICENSE' in name:
                parts.extract(name, sys.argv[2])
PYTHON
)

# uv takes a tenth of pip's time, most of which goes into compiling what nobody imports. It is told what pip's
# environment says of indexes.
with_uv() {
  local uv=build/tools/python/.uv
  if [ "$(cat $uv/.version 2>/dev/null)" != "$uv_version" ]; then
    with_pip --target $uv --upgrade "uv==$uv_version" || return
    echo "$uv_version" >$uv/.version
  fi
  SSL_CERT_FILE=${SSL_CERT_FILE:-${PIP_CERT:-}} $uv/bin/uv pip install --quiet --python /usr/bin/python3 \
    ${PIP_INDEX_URL:+--default-index "$PIP_INDEX_URL"} \
    ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"} "$@" >&2
}
with_pip() {
  /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-compile "$@" >&2
}

uv_version=0.13.9
options=()
case "${1:-}" in
  openai) package=openai==3.54.0 ;;
  openai-agents) package=openai-agents==0.24.0 ;;
  anthropic) package=anthropic==2.14.0 ;;
  litellm) package=litellm==1.110.2 ;;
  lm_eval) package='lm_eval[api]==0.4.13' ;;
  schemathesis) package=schemathesis==4.32.5 ;;
  playwright) package=playwright==1.65.2 ;;
  conan) package=conan==2.34.0 ;;
  vllm-router) package=vllm-router==0.1.17 ;;
  axe) package=axe-playwright-python==0.1.8 ;;
  # The messages of OTLP, with the reader of their JSON.
  otlp) package=$'opentelemetry-proto==1.45.2\nprotobuf==7.36.2' ;;
  # What the Trillim SDK's Python needs, all of it; that itself comes below.
  trillim) package=$(<tools/python_trillim.txt) options=(--no-deps) ;;
  # Schemas of the Kubernetes API and of its monitors, an interpreter of policies, a linter of recipes.
  kubernetes) package=$(<tools/python_kubernetes.txt) ;;
  # What test/oracle compares with; torch brings gigabytes.
  oracle) package=$(grep -v '^#' test/oracle/requirements.txt) ;;
  pytritium) package=pytritium==1.1.0rc2 ;;
  llama-cpp) package=$'llama-cpp-python==0.3.36\ndiskcache' && export CMAKE_ARGS=-DGGML_NATIVE=OFF ;;
  # Clients that tests run in processes of their own; the file pins all that they need as well.
  clients) package=$(<tools/python_clients.txt) options=(--no-deps) ;;
  # Frameworks that the night tries, each in a folder of its own.
  sweep-*) package=$(sed -n "s/^${1#sweep-}: //p" tools/python_sweep.txt | tr ' ' '\n'); [ -n "$package" ] ;;
  *) sed -n '/^# Usage: /,/^set/{s/^# //p}' tools/python_packages.sh >&2; exit 2 ;;
esac
target=build/tools/python/$1
if [ "$(cat "$target/.package" 2>/dev/null)" != "$package" ]; then
  rm -rf "$target"
  mapfile -t packages <<<"$package"
  with_uv --target "$target" "${options[@]}" "${packages[@]}" ||
    { rm -rf "$target" && with_pip --target "$target" "${options[@]}" "${packages[@]}"; }
  if [ "$1" = trillim ]; then
    fetch_trillim "$target" 0.1.5
    fetch_trillim "$target" 0.12.2
  fi
  echo "$package" >"$target/.package"
fi
echo "$target"
