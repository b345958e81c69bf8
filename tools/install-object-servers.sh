#!/bin/sh
# Installs object servers next to the Python of the virtual environment $1, where `dyno` finds them: SeaweedFS and
# rclone as wheels with hashes, versitygw from the Go module proxy, if Go is there, and with the argument `minio` MinIO
# likewise, whose build takes half an hour on 2 busy CPUs. Nothing is started, and nothing outside the environment
# changes but Go's caches.
set -eu

PATH=$PATH:/usr/local/go/bin

say() { printf 'install-object-servers: %s\n' "$*"; }

# $1: program, $2: module, $3: version, $4: hash of the module, $5: package, $6: variable with the version.
from_go() {
    if "$bin/$1" --version 2>/dev/null | grep -qF "$3"; then
        say "$1 $3 is installed."
        return
    fi
    if ! command -v go >/dev/null 2>&1; then
        say "$1 needs Go (https://go.dev/dl), which is not installed."
        return
    fi
    got=$(go mod download -json "$2@$3" | sed -n 's/^.*"Sum": "\([^"]*\)".*$/\1/p')
    if [ "$got" != "$4" ]; then
        say "$1 $3 has the hash $got instead of $4; it is not installed." >&2
        exit 1
    fi
    say "building $1 $3."
    GOBIN=$bin go install -ldflags "-X $6=$3" "$5@$3"
}

bin=$(cd "$1/bin" && pwd)
"$bin/pip" install --quiet --no-deps --require-hashes --requirement requirements-objects.lock
cd / # outside this repository, which is no Go module
from_go versitygw github.com/versity/versitygw v1.8.0 h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc= \
    github.com/versity/versitygw/cmd/versitygw main.Version
if [ "${2:-}" = minio ]; then
    from_go minio github.com/minio/minio v0.0.0-20260212201848-7aac2a2c5b7c \
        h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA= github.com/minio/minio github.com/minio/minio/cmd.ReleaseTag
fi
