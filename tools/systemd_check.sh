#!/usr/bin/env bash
# Tries the Debian package's units under a real systemd, booted in namespaces of its own inside a clean
# Debian: notify, the watchdog's end of a hung worker, a stop beside a running stream, a restart without a
# refused connect under socket activation, twenty restarts of the engines of a pair, and a holder that dies
# with its engine, whose connections and weights systemd keeps. Needs root and Debian's mirror. The network is
# the host's; no GPU is used.
# Usage: tools/systemd_check.sh DEB TOOLS_DIR   where TOOLS_DIR has write_tiny_model
# ORCD_SYSTEMD_ROOT names a Debian (debootstrap --variant=minbase --include=systemd,dbus) to copy instead of
# making one.
set -euo pipefail
cd "$(dirname "$0")/.."
usage='usage: tools/systemd_check.sh DEB TOOLS_DIR'
deb=$(realpath "${1:?$usage}")
tiny=$(realpath "${2:?$usage}")/write_tiny_model
work=$(mktemp -d)
root=$work/root
cgroup=
init= # systemd's process, as this one sees it

clean_up() {
  [ -z "$init" ] || kill -KILL "$init" 2>/dev/null || true # and with it all of its name space
  sleep 1
  if [ -n "$cgroup" ]; then find "$cgroup" -depth -type d -exec rmdir {} \; 2>/dev/null || true; fi
  for mounted in proc sys; do umount -l "$root/$mounted" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
step() { echo "== $*"; }
fail() {
  echo "systemd_check: $*" >&2
  [ -z "$init" ] || inside journalctl --no-pager -n 60 -o short-monotonic >&2 || true
  exit 1
}
inside() { nsenter -t "$init" -p -m -u -i -C -r -w "$@"; }
# Waits up to half a minute for a command to succeed.
until_true() {
  for _ in $(seq 300); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  fail "waited in vain: $*"
}
property() { inside systemctl show -p "$2" --value "$1"; }
is() { [ "$(property "$1" "$2")" = "$3" ]; }
differs() { [ "$(property "$1" "$2")" != "$3" ] && [ "$(property "$1" "$2")" != 0 ]; }
healthy() { curl -sf --max-time 5 -o "$work/health" "http://127.0.0.1:$port/health"; }
# A stream of so many tokens, into a file.
ask() {
  curl -sSN --max-time 120 "http://127.0.0.1:$port/execute" -H 'Content-Type: application/json' -o "$2" \
    -d "{\"job_id\": \"job-$1-$RANDOM\", \"prompt\": \"Once\", \"max_tokens\": $1, \"temperature\": 0,
         \"seed\": 1, \"ignore_eos\": true}"
}
ask_beside() { # sets `asking`; returns once its tokens come
  rm -f "$2"
  ask "$1" "$2" &
  asking=$!
  until_true grep -q '^event: token' "$2"
}
# Connects again and again beside what follows, until connects_were_served() judges it.
watch_connects() {
  rm -f "$work/over" "$work/asked" "$work/refused"
  ( while [ ! -e "$work/over" ]; do
      curl -s --max-time 60 -o /dev/null "http://127.0.0.1:$port/health" ||
        echo "curl says $?" >>"$work/refused"
      echo one >>"$work/asked"
      sleep 0.01
    done ) &
  watching=$!
}
connects_were_served() {
  touch "$work/over" "$work/refused"
  wait "$watching"
  echo "   $(wc -l <"$work/asked") requests during $1, $(wc -l <"$work/refused") failed"
  [ ! -s "$work/refused" ] || fail "$(head -n 1 "$work/refused")"
}
tokens() { sed -n 's/^data: .*"t":\("[^"]*"\).*/\1/p' "$1"; }
whole() { [ "$(grep -c '^event: token' "$1")" -gt 0 ] && grep -q '^event: end' "$1"; }

make_root() {
  if [ -n "${ORCD_SYSTEMD_ROOT:-}" ]; then cp -a "$ORCD_SYSTEMD_ROOT" "$root"; else
    debootstrap --variant=minbase --include=systemd,dbus bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
      fail "debootstrap: $(tail -n 1 "$work/debootstrap.log")"
  fi
  cp "$deb" "$root/srv/worker-orcd.deb"
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get update -qq && apt-get install -y -qq --no-install-recommends /srv/worker-orcd.deb' \
    >"$work/apt.log" 2>&1 || { cat "$work/apt.log" >&2; fail "apt-get install"; }
  umount -l "$root/proc" "$root/sys" 2>/dev/null || true
}
write_configuration() {
  "$tiny" --out "$root/srv/model.gguf" --layers 6 --embedding 512 --heads 8 --kv-heads 4 --ffn 1536 \
    --context 8192 --type Q8_0
  chmod 644 "$root/srv/model.gguf"
  local name
  for name in check pair; do
    printf '%s\n' 'model = /srv/model.gguf' 'backend = host' 'threads = 1' "max-tokens-out = 8000" \
      "port = $port" >"$root/etc/worker-orcd/$name.conf"
    chmod 640 "$root/etc/worker-orcd/$name.conf"
    chroot "$root" chgrp worker-orcd "/etc/worker-orcd/$name.conf"
  done
  echo 'share-weights = require' >>"$root/etc/worker-orcd/pair.conf"
  echo "HOLDER_PORT=$port" >"$root/etc/worker-orcd/pair-holder.env"
  mkdir -p "$root/etc/systemd/system/worker-orcd@.service.d" "$root/etc/systemd/system/worker-orcd@.socket.d"
  printf '[Service]\nWatchdogSec=2\n' >"$root/etc/systemd/system/worker-orcd@.service.d/check.conf"
  printf '[Socket]\nListenStream=\nListenStream=127.0.0.1:%s\n' "$port" \
    >"$root/etc/systemd/system/worker-orcd@.socket.d/check.conf"
}
# In new name spaces. What systemd would set for the whole machine is out of its reach: no devices but the
# plain ones, no sysctl, a cgroup of its own.
boot='
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for one in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
  set -- $one
  mknod -m 666 "dev/$1" c "$2" "$3"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for place in dev/shm run tmp; do mount -t tmpfs tmpfs "$place"; done
pivot_root . . # not chroot, in which PrivateUsers= has no way
umount -l .
exec /usr/bin/env -i container=worker-orcd-check PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit=multi-user.target'
boot() {
  local unified
  unified=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
  [ -n "$unified" ] || fail "no cgroup2 is mounted here"
  cgroup=$unified/worker-orcd-check-$$
  mkdir "$cgroup" || fail "no cgroup can be made in $unified"
  (
    echo 0 >"$cgroup/cgroup.procs"
    exec unshare --pid --mount --uts --ipc --cgroup --fork --kill-child bash -c "$boot" boot "$root"
  ) >"$work/boot.log" 2>&1 </dev/null &
  local outer=$!
  until_true pgrep -P "$outer" -x systemd
  init=$(pgrep -P "$outer" -x systemd)
  until_true inside systemctl is-active --quiet basic.target
}

[ "$(id -u)" -eq 0 ] || fail "needs root"
port=$((20000 + RANDOM % 10000))
make_root
write_configuration
boot
step "booted: $(inside systemctl --version | head -n 1), $(inside systemctl is-system-running || true)"

worker=worker-orcd@check.service
step "start: ready when systemctl returns"
inside systemctl start "$worker" || fail "the start failed"
healthy || fail "it is not ready though systemd takes it to be"
echo "   $(property $worker ActiveState), status: $(property $worker StatusText)"
ask 20 "$work/answer"
whole "$work/answer" || fail "no whole stream: $(head -c 300 "$work/answer")"

step "the watchdog ends a worker that hangs"
hung=$(property $worker MainPID)
inside systemctl kill --kill-who=main -s STOP "$worker" || fail "no signal"
until_true differs $worker MainPID "$hung"
until_true is $worker ActiveState active
healthy || fail "the next worker does not serve"
inside journalctl -u "$worker" --no-pager -o cat >"$work/journal"
grep -m 1 -i 'watchdog timeout' "$work/journal" | sed 's/^/   /' || fail "no watchdog"
[ "$(property $worker NRestarts)" -ge 1 ] || fail "it was not systemd that started it again"

step "a stop beside a running stream"
ask_beside 400 "$work/answer"
inside systemctl stop "$worker" || fail "the stop failed"
wait "$asking" || fail "the stop ended a stream"
whole "$work/answer" || fail "the stream is not whole"
is $worker Result success || fail "the stop was: $(property $worker Result)"

step "a restart under socket activation refuses no connect"
inside systemctl start worker-orcd@check.socket || fail "the socket"
healthy || fail "a first connect starts no worker"
watch_connects
for _ in 1 2 3; do inside systemctl restart "$worker" || fail "the restart failed"; done
connects_were_served "three restarts"
inside systemctl stop worker-orcd@check.socket "$worker"

step "restarts of both engines of a pair, in turn, beside streams"
holder=worker-orcd-holder@pair.service
engine() { echo "worker-orcd-engine-$1@pair.service"; }
inside systemctl start "$holder" "$(engine 0)" || fail "the pair"
until_true healthy
inside systemctl start "$(engine 1)" || fail "the one that stands by"
ask 1000 "$work/expected"
watch_connects
for number in $(seq 20); do
  ask_beside 1000 "$work/answer"
  # It returns when the engine stands by again.
  inside systemctl restart "$(engine $(((number + 1) % 2)))" || fail "restart $number failed"
  wait "$asking" || fail "restart $number ended the stream"
  whole "$work/answer" || fail "restart $number: the stream is not whole"
  [ "$(tokens "$work/answer")" = "$(tokens "$work/expected")" ] || fail "restart $number changed tokens"
done
connects_were_served "twenty restarts"
inside systemctl stop "$(engine 1)" || fail "the one that stands by does not stop"

step "a holder that dies with its engine: systemd keeps connections and weights"
until_true healthy
ask 2000 "$work/expected"
ask_beside 2000 "$work/answer"
sleep 0.5 # what is new is kept a quarter of a second later
kept=$(property "$holder" NFileDescriptorStore)
# Listener, journal and a connection; and of the weights their memory, KV cache, its ledger and what they are.
[ "$kept" -ge 7 ] || fail "systemd keeps $kept descriptors"
inside systemctl kill --kill-who=main -s KILL "$holder" "$(engine 0)"
wait "$asking" || fail "the stream was cut off"
whole "$work/answer" || fail "the stream is not whole"
[ "$(tokens "$work/answer")" = "$(tokens "$work/expected")" ] || fail "the stream went on with other tokens"
logged() { inside journalctl -u "$1" --no-pager -o cat | grep "$2" >/dev/null; }
logged "$holder" weights_restored || fail "the weights did not come back"
logged "$(engine 0)" weights_imported || fail "the engine loaded the weights again"
echo "   systemd kept $kept descriptors; the stream went on, token for token, with the same weights"
step "all units behaved under a real systemd"
