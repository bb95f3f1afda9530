#!/bin/sh
# The programs that the tests of systems need beside Python's packages: PostgreSQL's server, Chromium and its driver.
# Those that are missing are installed where this machine has apt and its user may; a test that lacks one says so.
missing=""
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || missing="postgresql"
{ command -v chromium && command -v chromedriver; } >/dev/null 2>&1 || missing="$missing chromium chromium-driver fonts-dejavu-core"
[ -n "$missing" ] || exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing $missing" >&2
  timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 420 apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi || echo "could not install $missing" >&2
exit 0
