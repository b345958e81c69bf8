#!/bin/sh
# Installs object servers next to the Python of the virtual environment $1, where `dyno` finds them: SeaweedFS and
# rclone as wheels with hashes, and versitygw from the Go module proxy, if Go is installed. With the further argument
# `minio`, it also builds MinIO, which takes half an hour on 2 busy CPUs; with `garage`, it builds Garage from
# crates.io, which took 43 minutes on 2 busy CPUs. Nothing is started, and nothing outside the environment changes
# except the caches of Go and Cargo.
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

# Cargo compares each part of Garage with the hash in its Cargo.lock. Installed libraries are not built.
garage_from_crates() {
    if "$bin/garage" --version 2>/dev/null | grep -qF 2.5.0; then
        say "garage 2.5.0 is installed."
        return
    fi
    cargo info --quiet garage@2.5.0 >/dev/null # downloads it
    for crate in "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/garage-2.5.0.crate; do
        echo "e1752af176a3cd84e9afd6edf30df594db92b7730cc67bddcd74769841b3f3f5  $crate" | sha256sum --check --quiet
    done
    libraries=bundled-libs
    if pkg-config --exists libsodium libzstd sqlite3 2>/dev/null; then libraries=system-libs; fi
    say "building garage 2.5.0 with $libraries, which takes 10 to 45 minutes on 2 CPUs."
    cargo install garage --version 2.5.0 --locked --no-default-features --features "lmdb,sqlite,$libraries" \
        --root "${bin%/bin}"
}

bin=$(cd "$1/bin" && pwd)
shift
"$bin/pip" install --quiet --no-deps --require-hashes --requirement requirements-objects.lock
cd / # outside this repository, which is not a Go module
from_go versitygw github.com/versity/versitygw v1.8.0 h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc= \
    github.com/versity/versitygw/cmd/versitygw main.Version
for name; do
    case $name in
    minio) from_go minio github.com/minio/minio v0.0.0-20260212201848-7aac2a2c5b7c \
        h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA= github.com/minio/minio github.com/minio/minio/cmd.ReleaseTag ;;
    garage) garage_from_crates ;;
    *) say "WITH=$name: only minio and garage are known." >&2 && exit 2 ;;
    esac
done
