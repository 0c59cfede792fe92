#!/bin/sh
# The model calls the tool, plans a day that does not exist, and corrects itself.
set -eu
plan=$(python3 "$(dirname "$0")/with_model.py" \
    '[{"call": "trains", "arguments": {"from": "Oslo", "to": "Rome"}}, "{\"value\": [{\"day\": 0, \"city\": \"Rome\"}]}",
      "{\"value\": [{\"day\": 1, \"city\": \"Rome\"}]}"]' "$1")
echo "$plan"
[ "$plan" = "day 1: Rome" ]
