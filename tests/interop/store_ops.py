"""PyTorch's client through every request, against the store that gradrun hosts; then our client
against a store that PyTorch hosts. usage: store_ops.py RANK_WORKER"""

import os
import subprocess
import sys
from datetime import timedelta

import torch.distributed as dist


def expect(got, want):
    assert got == want, f"got {got!r}, expected {want!r}"


def use(store):
    store.set("a", "1")
    expect(store.get("a"), b"1")
    expect(store.add("n", 5), 5)
    expect(store.add("n", 2), 7)
    expect(store.get("n"), b"7")
    expect(store.compare_set("c", "", "x"), b"x")
    expect(store.compare_set("c", "y", "z"), b"x")
    expect(store.compare_set("c", "x", "z"), b"z")
    expect(store.compare_set("none", "y", "z"), b"y")
    expect(store.check(["a", "n"]), True)
    expect(store.check(["a", "missing"]), False)
    store.append("a", "23")
    store.multi_set(["m1", "m2"], ["p", "qq"])
    expect(store.multi_get(["m1", "a", "m2"]), [b"p", b"123", b"qq"])
    store.wait(["m1", "m2"])
    try:
        store.wait(["missing"], timedelta(milliseconds=100))
        raise AssertionError("a wait for nothing ended")
    except dist.DistStoreError:
        pass
    expect(store.get("m1"), b"p")  # the connection is still good
    n = store.num_keys()
    expect(store.delete_key("m1"), True)
    expect(store.delete_key("m1"), False)
    expect(store.num_keys(), n - 1)
    if hasattr(store, "queue_push"):
        store.queue_push("q", "first")
        store.queue_push("q", "second")
        expect(store.queue_len("q"), 2)
        expect(store.queue_pop("q"), b"first")
        expect(store.queue_pop("q"), b"second")
    if hasattr(store, "list_keys"):
        expect({"a", "c", "m2", "n"} <= set(store.list_keys()), True)
    if hasattr(store, "barrier"):
        try:
            store.barrier("b", 1)
        except TypeError:
            store.barrier("b", 1, timedelta(seconds=10))
    big = "x" * (4 << 20)
    store.set("big", big)
    expect(len(store.get("big")), len(big))


ours = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
use(ours)
print("PyTorch's client is content", flush=True)
theirs = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
subprocess.run([sys.argv[1], "ops", "127.0.0.1", str(theirs.port)], check=True)
