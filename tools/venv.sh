#!/bin/sh
# Makes .venv with pip in it. On Debian the modules for that are packages of their own, which root may install.
set -eu
python=$1
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Fitgauge needs Python 3.11 or newer; $python is $version. Try: make PYTHON=python3.11" >&2
    exit 1
}
"$python" -m venv .venv 2>/dev/null && exit 0
rm -rf .venv
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq "python$version-venv" >/dev/null
    exec "$python" -m venv .venv
fi
"$python" -m virtualenv -q .venv 2>/dev/null && exit 0
echo "Python's venv module is missing. As root: apt-get install python$version-venv" >&2
exit 1
