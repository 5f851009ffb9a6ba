# Shared by the scripts beside: where things are, what must be installed, and building. Sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case ${VROUTER_PROFILE:=release} in
release) programs=$target/release cargo_profile=(--release) ;;
dev) programs=$target/debug cargo_profile=() ;;
*)
    echo "VROUTER_PROFILE=$VROUTER_PROFILE: wanted release or dev" >&2
    exit 2
    ;;
esac

say() {
    printf '\n==> %s\n' "$*" >&2
}

need_root() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "${0##*/}: network namespaces need root" >&2
        exit 1
    fi
}

# need_commands COMMAND=PACKAGE...: installs the packages of the commands that are missing.
need_commands() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "${0##*/}: please install: ${missing[*]}" >&2
        return 1
    fi
    say "Installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# need_without_service COMMAND=PACKAGE...: installs packages, but not to have their services run.
need_without_service() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM HUP
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    need_commands "$@"
)

need_lab_commands() {
    need_commands ip=iproute2 bridge=iproute2 nft=nftables sysctl=procps setsid=util-linux "$@"
}

# Builds the programs of the lab where they are missing or older than a source.
build_programs() {
    local stamp=$programs/.lab-programs name
    if [ -e "$stamp" ]; then
        for name in vrouter vrouter-control vrouter-cni vrctl vrouter-lab vrouter-pod; do
            [ -x "$programs/$name" ] || rm -f "$stamp"
        done
    fi
    if [ -e "$stamp" ] && [ -z "$(newer_sources "$stamp")" ]; then
        return
    fi
    say "Building ($VROUTER_PROFILE)"
    # The stamp is as old as the sources that the build saw.
    mkdir -p "$programs"
    touch "$stamp.new"
    cargo build --manifest-path "$root/Cargo.toml" "${cargo_profile[@]}" --bins \
        -p vrouter-daemon -p vrouter-control -p vrouter-cni -p vrctl -p vrouter-lab >&2 || return
    mv "$stamp.new" "$stamp"
}

newer_sources() {
    find "$root"/Cargo.toml "$root"/Cargo.lock "$root"/{proto,vrouter,control,tests/lab} -newer "$1" \
        \( -name '*.rs' -o -name '*.proto' -o -name 'Cargo.*' \) -print -quit
}
