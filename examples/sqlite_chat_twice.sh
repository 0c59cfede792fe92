#!/bin/sh
# Starts the chat twice on one file: the second process knows what the first one was told.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
echo "My name is Ada" | "$1" "$directory/chat.db"
echo "What is my name?" | "$1" "$directory/chat.db" | tee "$directory/out"
grep -q "You sent 2 messages; the first was: My name is Ada" "$directory/out"
