#!/bin/sh
# The answer has no end: the program ends because the other thread cancels the run.
set -eu
status=0
python3 "$(dirname "$0")/with_model.py" '[null]' "$1" || status=$?
[ "$status" = 1 ]
