#!/bin/sh
# Fills in the form. The first license is none of the options, so the form is shown again.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
printf '%s\n' lighthouse beer docs lighthouse mit 'docs ci' | "$1" | tee "$directory/out"
grep -q "Please try again: .*license" "$directory/out"
grep -q '"license":"mit","features":\["docs","ci"\]' "$directory/out"
