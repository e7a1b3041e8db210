#!/usr/bin/env bash
# Builds the image of etc/container/Containerfile without a daemon (Debian's buildah, chroot isolation) and
# without a registry: its base is a Debian that debootstrap makes here, its kernels are left out. Then runs
# --version and a streamed answer of a tiny model in the image's root, by chroot and as the image's user: no
# container runtime takes part. Needs root, Debian's mirror and some GiB in TMPDIR.
# Usage: tools/image_check.sh TOOLS_DIR [DEB]   where TOOLS_DIR has write_tiny_model
# With DEB the recipe's last stage alone is built, from that package's programs: a minute instead of all that
# there is to compile. ORCD_IMAGE_ROOT names a Debian (debootstrap --variant=minbase) to use instead of making
# one.
set -euo pipefail
cd "$(dirname "$0")/.."
tiny=$(realpath "${1:?usage: tools/image_check.sh TOOLS_DIR [DEB]}")/write_tiny_model
deb=${2:+$(realpath "$2")}
work=$(mktemp -d)
worker=

clean_up() {
  [ -z "$worker" ] || kill -KILL "$worker" 2>/dev/null || true
  buildah_here umount --all >/dev/null 2>&1 || true
  for mounted in proc sys; do umount -l "$work/debian/$mounted" 2>/dev/null || true; done
  umount -l "$work/store" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
step() { echo "== $*"; }
fail() { echo "image_check: $*" >&2; exit 1; }
buildah_here() { buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }

[ "$(id -u)" -eq 0 ] || fail "needs root"
command -v buildah >/dev/null || fail "buildah is not here: tools/packages.sh image"
step "a base"
debian=${ORCD_IMAGE_ROOT:-$work/debian}
[ -n "${ORCD_IMAGE_ROOT:-}" ] || debootstrap --variant=minbase bookworm "$debian" >"$work/log" 2>&1 ||
  fail "debootstrap: $(tail -n 1 "$work/log")"
container=$(buildah_here from scratch)
buildah_here copy --quiet "$container" "$debian" / >/dev/null
buildah_here run --isolation chroot "$container" -- mkdir -p /usr/local/cuda # stands for a toolkit
buildah_here commit --quiet --rm "$container" localhost/debian >/dev/null

step "the image"
recipe=$PWD/etc/container/Containerfile
context=$PWD
version=$(cmake/version.sh .)
if [ -n "$deb" ]; then
  context=$work/context
  mkdir "$context"
  dpkg-deb -x "$deb" "$context/staged"
  version=$(dpkg-deb -f "$deb" Version)
  cp LICENSE "$context"
  { echo 'ARG DEBIAN'; tac "$recipe" | sed '/^FROM /q' | tac; } |
    sed 's#^COPY --from=build /staged#COPY staged#' >"$work/Containerfile"
  recipe=$work/Containerfile
  grep -q '^COPY staged/usr/bin ' "$recipe" || fail "the recipe's last stage takes something else"
fi
buildah_here build --quiet --isolation chroot --pull-never --build-arg DEBIAN=localhost/debian \
  --build-arg CUDA=localhost/debian --build-arg KERNELS=OFF --build-arg VERSION="$version" \
  -f "$recipe" -t localhost/worker-orcd "$context" >"$work/log" 2>&1 ||
  { tail -n 40 "$work/log" >&2; fail "buildah build"; }
container=$(buildah_here from localhost/worker-orcd)
root=$(buildah_here mount "$container")
user=$(buildah_here inspect --format '{{.OCIv1.Config.User}}' "$container")
[ "$user" = 10001:10001 ] || fail "the image's user is '$user'"
echo "   $(du -sh "$root" | cut -f 1), user $user"

step "--version"
said=$(chroot --userspec="$user" "$root" /usr/bin/worker-orcd --version)
echo "$said"
[ "${said%%$'\n'*}" = "worker-orcd $version" ] || fail "the version is not $version"

step "a streamed answer"
"$tiny" --out "$root/tmp/model.gguf" --context 1024 >/dev/null
chmod 644 "$root/tmp/model.gguf"
chroot --userspec="$user" "$root" /usr/bin/worker-orcd --model /tmp/model.gguf --backend host --port 0 \
  2>"$work/worker.log" &
worker=$!
for _ in $(seq 600); do
  port=$(sed -n 's/.*"event":"ready".*"port":\([0-9]*\).*/\1/p' "$work/worker.log")
  [ -z "$port" ] || break
  sleep 0.1
done
[ -n "$port" ] || { cat "$work/worker.log" >&2; fail "it is not ready"; }
curl -sSN --max-time 60 "http://127.0.0.1:$port/execute" -H 'Content-Type: application/json' \
  -d '{"job_id": "image", "prompt": "Once", "max_tokens": 20, "seed": 1, "ignore_eos": true}' >"$work/answer"
[ "$(grep -c '^event: token' "$work/answer")" -ge 1 ] || fail "no tokens"
grep -q '^event: end' "$work/answer" || fail "the stream did not end"
kill -TERM "$worker"
wait "$worker" || fail "it ended with $?"
worker=
step "the image was built without a daemon, and what is in it serves"
