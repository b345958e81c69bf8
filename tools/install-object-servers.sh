#!/bin/sh
# Installs object servers next to the Python of the virtual environment $1, where `dyno` finds them: SeaweedFS and
# rclone as wheels with hashes, and versitygw from the Go module proxy, if Go is there. Nothing is started, and nothing
# outside the environment changes but Go's caches.
set -eu

VERSITYGW=github.com/versity/versitygw
VERSITYGW_VERSION=v1.8.0
VERSITYGW_SUM='h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc='
PATH=$PATH:/usr/local/go/bin

say() { printf 'install-object-servers: %s\n' "$*"; }

bin=$(cd "$1/bin" && pwd)
"$bin/pip" install --quiet --no-deps --require-hashes --requirement requirements-objects.lock

if [ "$("$bin/versitygw" --version 2>/dev/null | sed -n 's/^Version *: *//p')" = "$VERSITYGW_VERSION" ]; then
    say "versitygw $VERSITYGW_VERSION is installed."
elif ! command -v go >/dev/null 2>&1; then
    say "versitygw needs Go (https://go.dev/dl), which is not installed; SeaweedFS and rclone are."
else
    cd / # outside this repository, which is no Go module
    got=$(go mod download -json "$VERSITYGW@$VERSITYGW_VERSION" | sed -n 's/^.*"Sum": "\([^"]*\)".*$/\1/p')
    if [ "$got" != "$VERSITYGW_SUM" ]; then
        say "versitygw $VERSITYGW_VERSION has the hash $got instead of $VERSITYGW_SUM; it is not installed." >&2
        exit 1
    fi
    say "building versitygw $VERSITYGW_VERSION, which takes a few minutes."
    GOBIN=$bin CGO_ENABLED=0 go install -ldflags "-X main.Version=$VERSITYGW_VERSION" \
        "$VERSITYGW/cmd/versitygw@$VERSITYGW_VERSION"
fi
