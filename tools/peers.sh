#!/bin/sh
# Makes .peers: one environment of Python for each calculator that `make bench PEERS=1` asks. Theirs
# are locked with hashes, each in an environment of its own: their requirements contradict.
set -eu
python=$1
mkdir -p .peers
for lock in tests/bench/requirements/*.txt; do
    name=$(basename "$lock" .txt)
    "$python" -m venv ".peers/$name"
    ".peers/$name/bin/python" -m pip -q --disable-pip-version-check install --no-deps --require-hashes -r "$lock"
done
