#!/usr/bin/env bash
# torch.load() reads our .pt files bit for bit, and we read torch.save()'s.
. "$GR_SOURCE/tests/launch/lib.sh"

# Looked for and not imported: that takes seconds.
has_torch='from importlib.util import find_spec as find; assert find("torch") and find("numpy")'
python=
for p in "${GR_PYTHON:-}" python3 "${VIRTUAL_ENV:-/nonexistent}/bin/python" ~/venv/bin/python; do
    [ -n "$p" ] && "$p" -c "$has_torch" 2>/dev/null && python=$p && break
done
[ -n "$python" ] || skip "no python3 with PyTorch (set GR_PYTHON)"
tool=$GR_BIN/../interop/ckpt_tool
[ -x "$tool" ] || skip "ckpt_tool is not built"
expect 0 "$python" "$GR_SOURCE/tests/interop/pt_files.py" "$tool"
said 'ours load there, theirs load here'
