#!/usr/bin/env bash
# Ranks share memory that no mount limits: a /dev/shm of 64 KB, less than a container's 64 MB,
# is enough for gradients of megabytes. P12.
. "$GR_SOURCE/tests/launch/lib.sh"

unshare -m true 2>why.txt || skip "mount namespaces are not permitted here: $(head -1 why.txt)"
unshare -m sh -c 'mount -t tmpfs -o size=64k tmpfs /dev/shm && df -k /dev/shm && exec "$@"' sh \
    "$RUN" --nproc-per-node 2 "$GR_BIN/gradus" train shapes --device cpu --n_train 256 --n_eval 64 \
    --batch_size 32 --epochs 1 --output_dir run >out.txt 2>err.txt || fail "a small /dev/shm"
said '^tmpfs +64 '
said '^Done after 4 steps'
