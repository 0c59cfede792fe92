#!/bin/sh
# Starts a run, lists what waits, and approves it, each in a process of its own. A second answer is refused.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" "$directory/runs.db" start
question=$("$1" "$directory/runs.db" list | cut -d ' ' -f 1)
"$1" "$directory/runs.db" approve "$question" | tee "$directory/out"
grep -q "^deploying 1.4$" "$directory/out"
grep -q "^completed: deployed 1.4$" "$directory/out"
if "$1" "$directory/runs.db" approve "$question"; then
    echo "the second answer was accepted" >&2
    exit 1
fi
