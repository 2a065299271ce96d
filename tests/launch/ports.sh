# Ports for tests: source it.
# shellcheck shell=bash

# A port that is free now, outside the range that systems give away by themselves.
free_port() {
    local p
    for _ in $(seq 1 50); do
        p=$((10000 + RANDOM % 20000))
        ! grep -qi ":$(printf %04X "$p") " /proc/net/tcp /proc/net/tcp6 && { echo "$p"; return; }
    done
    echo "$p"
}
