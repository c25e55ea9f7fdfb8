#!/bin/sh
# Makes .hosts: one environment of Python for each set of hosts, Open WebUI's wheel, and packages
# from npm. Python's are locked with hashes; npm's are pinned in package.json, since a lock file
# would name the host of a registry.
set -eu
python=$1
pip="-m pip -q --disable-pip-version-check"
mkdir -p .hosts
for name in agents langchain semantic_kernel; do
    "$python" -m venv ".hosts/$name"
    ".hosts/$name/bin/python" $pip install --no-deps --require-hashes -r "tests/hosts/requirements/$name.txt"
done
.venv/bin/python $pip download --no-deps --require-hashes -d .hosts/open_webui \
    -r tests/hosts/requirements/open_webui.txt
cp tests/hosts/package.json .hosts/
npm install --prefix .hosts --no-audit --no-fund --no-package-lock --loglevel=error
