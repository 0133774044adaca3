#!/usr/bin/env bash
# private_apt.sh STATE TYPE SUITE...: an apt configuration of its own in STATE, which fetches packages of these suites of Debian
# without changing the machine: its sources, lists, pins and packages stay as they are. TYPE is deb or deb-src; a suite may be one of
# Debian's security. Afterwards: APT_CONFIG=STATE/apt.conf apt-get download NAME.
set -euo pipefail
state=${1:?usage: private_apt.sh STATE TYPE SUITE...}
type=${2:?usage: private_apt.sh STATE TYPE SUITE...}
shift 2
. /etc/os-release
rm -rf "$state"
mkdir -p "$state"/{lists/partial,cache/archives/partial,sources}
state=$(cd "$state" && pwd)

# source_of NUMBER SUITE: the machine's own source of this release, or of its security, with another suite. Apt asks them in the
# order of their numbers.
source_of() {
  local -r suite=$2 file_of="$state/sources/$1-$2"
  local own=$VERSION_CODENAME file
  [[ "$suite" == *-security ]] && own=$VERSION_CODENAME-security
  for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list /etc/apt/sources.list; do
    [ -f "$file" ] || continue
    case $file in
      *.sources)  # deb822: the first stanza that offers this release
        awk -v RS= -v own="$own" -v suite="$suite" -v type="$type" '
          $0 ~ "(^|\n)Suites:[^\n]*[ \t]" own "([ \t\n]|$)" {
            gsub(/(^|\n)#[^\n]*/, ""); sub(/^\n/, ""); sub(/Types:[^\n]*/, "Types: " type)
            sub(/Suites:[^\n]*/, "Suites: " suite); sub(/Components:[^\n]*/, "Components: main"); print; exit }' \
          "$file" >"$file_of.sources" ;;
      *)
        awk -v own="$own" -v suite="$suite" -v type="$type" '
          $1 == "deb" { for (i = 2; i <= NF; i++) if ($i == own) {
            $1 = type; $i = suite; line = ""; for (j = 1; j <= i; j++) line = line $j " "; print line "main"; exit } }' \
          "$file" >"$file_of.list" ;;
    esac
    grep -qs . "$file_of".* && return
    rm -f "$file_of".*
  done
  [[ "$suite" == *-security ]] && { echo "private_apt.sh: this machine has no apt source for $own; it is left out" >&2; return; }
  echo "private_apt.sh: no apt source for $own found" >&2
  exit 1
}
number=0
for suite in "$@"; do source_of $((number += 1)) "$suite"; done

cat >"$state/apt.conf" <<TEXT
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$state/sources";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$state/lists";
Dir::State::status "/dev/null";
Dir::Cache "$state/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
APT::Sandbox::User "$(id -un)";
#clear APT::Update::Post-Invoke-Success;
TEXT
APT_CONFIG=$state/apt.conf apt-get -qq update
