#!/usr/bin/env bash
# The safetensors package reads our checkpoints, and we read its files, bit for bit.
. "$GR_SOURCE/tests/launch/lib.sh"

# Looked for and not imported: that takes seconds.
has_both='from importlib.util import find_spec as find; assert find("torch") and find("safetensors")'
python=
for p in "${GR_PYTHON:-}" python3 "${VIRTUAL_ENV:-/nonexistent}/bin/python" ~/venv/bin/python; do
    [ -n "$p" ] && "$p" -c "$has_both" 2>/dev/null && python=$p && break
done
[ -n "$python" ] || skip "no python3 with PyTorch and safetensors (set GR_PYTHON)"
tool=$GR_BIN/../interop/ckpt_tool
[ -x "$tool" ] || skip "ckpt_tool is not built"
expect 0 "$python" "$GR_SOURCE/tests/interop/safetensors.py" "$tool"
said 'ours load there, theirs load here'
