#!/bin/sh
# The model calls the tool once and answers.
set -eu
answer=$(python3 "$(dirname "$0")/with_model.py" \
    '[{"call": "weather", "arguments": {"city": "Oslo"}}, "Snow in Oslo, for three days."]' "$1")
echo "$answer"
[ "$answer" = "Snow in Oslo, for three days. " ]
