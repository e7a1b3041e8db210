#!/usr/bin/env bash
# Tries the Debian package from beginning to end: install in a clean Debian, --version without a driver, a
# streamed answer of a tiny model, an upgrade beside a running stream to the package of one commit more, what
# an older one over a newer is, removal and purge. Needs root and Debian's mirror for a chroot; without them
# the package is only unpacked and run, which is said. Needs the repository with its whole history, too.
# Usage: tools/package_check.sh DEB TOOLS_DIR   where DEB is as tools/package.sh left it, and TOOLS_DIR has
# write_tiny_model
# ORCD_PACKAGE_ROOT names a Debian (debootstrap --variant=minbase) to copy instead of making one.
set -euo pipefail
cd "$(dirname "$0")/.."
deb=$(realpath "${1:?usage: tools/package_check.sh DEB TOOLS_DIR}")
tiny=$(realpath "${2:?usage: tools/package_check.sh DEB TOOLS_DIR}")/write_tiny_model
work=$(mktemp -d)
root=$work/root
workers=()

clean_up() {
  for worker in "${workers[@]}"; do kill -KILL "$worker" 2>/dev/null || true; done
  # What debootstrap mounted in there must not be looked into by rm.
  for mounted in proc sys; do umount -l "$root/$mounted" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
step() { echo "== $*"; }
fail() { echo "package_check: $*" >&2; exit 1; }

make_root() {
  [ "$(id -u)" -eq 0 ] || { why="not root"; return 1; }
  if [ -n "${ORCD_PACKAGE_ROOT:-}" ]; then cp -a "$ORCD_PACKAGE_ROOT" "$root"; return; fi
  debootstrap --variant=minbase bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
    { why=$(tail -n 1 "$work/debootstrap.log"); rm -rf --one-file-system "$root"; return 1; }
}
inside() {
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}

# Starts the packaged worker at any free port: sets `port` and `worker`.
start_worker() {
  local log=$work/worker.log
  : >"$log"
  "$@" --backend host --host 127.0.0.1 --port 0 --max-tokens-out 8000 2>"$log" &
  worker=$!
  workers+=("$worker")
  for _ in $(seq 600); do
    port=$(sed -n 's/.*"event":"ready".*"port":\([0-9]*\).*/\1/p' "$log")
    [ -z "$port" ] || return 0
    kill -0 "$worker" 2>/dev/null || break
    sleep 0.1
  done
  cat "$log" >&2
  fail "the packaged worker is not ready"
}
# A streamed answer of so many tokens must end with its one `end`.
ask() {
  local answer=$work/answer-$1
  curl -sSN --max-time 300 "http://127.0.0.1:$port/execute" -H 'Content-Type: application/json' >"$answer" \
    -d @- <<<"{\"job_id\": \"job-$1\", \"prompt\": \"Once\", \"max_tokens\": $1, \"temperature\": 0,
               \"seed\": 1, \"ignore_eos\": true}"
  grep -q '^event: token' "$answer" || fail "no tokens: $(head -c 300 "$answer")"
  grep -q '^event: end' "$answer" || fail "the stream did not end: $(tail -n 3 "$answer")"
}
stop_worker() {
  kill -TERM "$worker"
  wait "$worker" || fail "the worker ended with $?"
}
# What the build makes of the same tree after one more commit, which is in a repository of its own: no more
# than the version is compiled. The first package goes back to where it was.
make_next() {
  local commit preset
  preset=$(basename "$(dirname "$deb")")
  cp "$deb" "$work/first.deb"
  git clone --quiet --shared --bare . "$work/git" # of a cut-off history there is none
  (
    export GIT_DIR=$work/git GIT_WORK_TREE=$PWD GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost
    export GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
    commit=$(git commit-tree -p HEAD -m next 'HEAD^{tree}')
    git update-ref --no-deref HEAD "$commit"
    git read-tree HEAD
    mv "$(tools/package.sh "$preset")" "$work/next.deb"
  )
  cp -p "$work/first.deb" "$deb"
}
version_of() { dpkg-deb -f "$1" Version; }
installed() { inside dpkg-query -W -f '${Version}' worker-orcd; }
# The package and what is inside have one version.
says_version() {
  local program said
  for program in "$root"/usr/bin/{worker-orcd*,trillim-quantize,inference}; do
    said=$("$program" --version)
    [ "${said%%$'\n'*}" = "$(basename "$program") $1" ] || fail "it says $said, where the package is of $1"
  done
}

step "the version rises with a commit"
make_next
older=$(version_of "$work/first.deb")
newer=$(version_of "$work/next.deb")
echo "   $older, then $newer"
dpkg --compare-versions "$older" lt "$newer" || fail "$newer is not newer than $older"

slow=(--layers 6 --embedding 512 --heads 8 --kv-heads 4 --ffn 1536 --context 8192 --type Q8_0)
if ! make_root; then
  step "no chroot here ($why): the package is unpacked and run, not installed, upgraded and removed"
  dpkg-deb -x "$deb" "$root"
  "$tiny" --out "$work/model.gguf" "${slow[@]}"
  says_version "$older"
  start_worker "$root/usr/bin/worker-orcd" --model "$work/model.gguf"
  ask 20
  stop_worker
  exit 0
fi

step "install"
cp "$work/first.deb" "$root/tmp/worker-orcd.deb"
inside apt-get update -qq
inside apt-get install -y -qq --no-install-recommends /tmp/worker-orcd.deb >"$work/apt.log" 2>&1 ||
  { cat "$work/apt.log" >&2; fail "apt-get install"; }
[ "$(installed)" = "$older" ] || fail "$(installed) is installed, not $older"
says_version "$older"
inside id worker-orcd
[ "$(stat -c '%a %U' "$root/etc/worker-orcd")" = "750 root" ] || fail "/etc/worker-orcd is open"

step "without a driver"
for program in "$root"/usr/bin/worker-orcd*; do
  inside "$(basename "$program")" --version
  inside ldd "/usr/bin/$(basename "$program")" >>"$work/ldd"
done
grep -E 'libcuda|not found' "$work/ldd" && fail "it needs what is not there"

step "a streamed answer"
"$tiny" --out "$root/tmp/model.gguf" "${slow[@]}"
chmod 644 "$root/tmp/model.gguf"
as_account=(chroot --userspec=worker-orcd:worker-orcd "$root"
            /usr/bin/worker-orcd --model /tmp/model.gguf)
start_worker "${as_account[@]}"
ask 20

step "upgrade beside a running stream"
echo '# of the operator' >>"$root/etc/worker-orcd/worker-orcd.conf"
echo 'model = /srv/a.gguf' >"$root/etc/worker-orcd/a.conf"
ask 6000 &
asking=$!
for _ in $(seq 600); do
  grep -q '^event: token' "$work/answer-6000" 2>/dev/null && break
  sleep 0.05
done
cp "$work/next.deb" "$root/tmp/next.deb"
inside dpkg -i /tmp/next.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "upgrade"; }
wait "$asking" || fail "the upgrade ended a stream"
stop_worker
[ "$(installed)" = "$newer" ] || fail "$(installed) is installed, not $newer"
says_version "$newer"
grep -q 'of the operator' "$root/etc/worker-orcd/worker-orcd.conf" || fail "the upgrade changed a file"
start_worker "${as_account[@]}"
ask 30
stop_worker

step "an older one is a downgrade"
inside apt-get install -y -qq /tmp/worker-orcd.deb >"$work/apt.log" 2>&1 && fail "apt-get took an older one"
grep -q 'downgraded' "$work/apt.log" || { cat "$work/apt.log" >&2; fail "apt-get did not call it one"; }
inside dpkg -i /tmp/worker-orcd.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "downgrade"; }
grep -q "downgrading worker-orcd from $newer to $older" "$work/dpkg.log" ||
  { cat "$work/dpkg.log" >&2; fail "dpkg did not call it one"; }
says_version "$older"

step "set up once more"
inside dpkg -i /tmp/next.deb >/dev/null 2>&1
inside dpkg-reconfigure worker-orcd
inside dpkg -i /tmp/next.deb >/dev/null 2>&1

step "removal keeps the configuration"
inside dpkg -r worker-orcd >/dev/null 2>&1
[ ! -e "$root/usr/bin/worker-orcd" ] || fail "the program is still there"
grep -q 'of the operator' "$root/etc/worker-orcd/worker-orcd.conf" || fail "removal took the configuration"

step "a purge takes what the package brought, and only that"
inside dpkg -P worker-orcd >/dev/null 2>&1
[ ! -e "$root/etc/worker-orcd/worker-orcd.conf" ] || fail "the purge left the configuration"
[ -e "$root/etc/worker-orcd/a.conf" ] || fail "the purge took the operator's own file"
step "the package was installed, upgraded, removed and purged in a chroot"
