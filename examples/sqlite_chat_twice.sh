#!/bin/sh
# Starts the chat twice on one file: the second process knows what the first one was told.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "My name is Ada" | "$1" "$folder/chat.db"
echo "What is my name?" | "$1" "$folder/chat.db" | tee "$folder/out"
grep -q "You said 2 things; the first was: My name is Ada" "$folder/out"
