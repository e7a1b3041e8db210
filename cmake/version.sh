#!/bin/sh
# Prints the version of the sources in FOLDER: that of the file VERSION, how many commits led here, and the
# last one, as in 0.1.0+690.gd77fcfd1a2b3; .dirty follows where a file of that commit is another one now.
# Debian and Conan both put these in the order of their commits.
# Where the history is cut off, which is a shallow clone, the number is 0, before all that are known. A folder
# that is no repository, or one that git refuses to read, has its version in the file .version, which an
# export writes with this script; without that file it is 0.1.0+0.unknown.
# Usage: cmake/version.sh FOLDER
set -eu
cd "${1:?usage: cmake/version.sh FOLDER}"
release=$(head -n 1 VERSION)

# Looks, and writes nothing, not even what it has learnt of the files.
ask_git() { GIT_OPTIONAL_LOCKS=0 git "$@" 2>/dev/null; }

# Fails unless the folder is a repository's own: one below it may be anything.
say_commit() {
  above=$(ask_git rev-parse --show-cdup) && [ -z "$above" ] || return 1
  commit=$(ask_git rev-parse --verify HEAD) || return 1
  count=0
  if [ "$(ask_git rev-parse --is-shallow-repository)" = false ]; then
    count=$(ask_git rev-list --count HEAD) || return 1
  fi
  changed=$(ask_git status --porcelain --untracked-files=no) || return 1
  printf '%s+%s.g%.12s%s\n' "$release" "$count" "$commit" "${changed:+.dirty}"
}

say_stamped() {
  [ -f .version ] || return 1
  stamped=$(cat .version)
  rest=${stamped#"$release"+}
  case "$rest" in
    "$stamped" | '' | *[!0-9A-Za-z.]*)
      echo "version.sh: the file .version says '$stamped', where VERSION says $release" >&2
      exit 1 ;;
  esac
  echo "$stamped"
}

say_commit || say_stamped || echo "$release+0.unknown"
