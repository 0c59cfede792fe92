#!/bin/sh
# Agrees to one command, and replaces another.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
printf '%s\n' y 'ls old' | "$1" | tee "$directory/out"
grep -q "^ran: ls$" "$directory/out"
grep -q "^error: .*this sandbox has no root user" "$directory/out"
grep -q "^ran: rm build.log$" "$directory/out"
grep -q "^ran: ls old$" "$directory/out"
