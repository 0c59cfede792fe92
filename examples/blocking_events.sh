#!/bin/sh
# Pulls the events of one answer.
set -eu
answer=$(python3 "$(dirname "$0")/with_model.py" '["Events are pulled by a loop."]' "$1")
echo "$answer"
[ "$answer" = "Events are pulled by a loop. " ]
