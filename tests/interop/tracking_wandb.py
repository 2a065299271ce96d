"""An offline run of ours, read with W&B's own records and uploaded by `wandb sync` to a server
of this file that notes what it is sent. usage: tracking_wandb.py RUN_FOLDER"""

import glob
import gzip
import hashlib
import http.server
import json
import os
import struct
import subprocess
import sys
import threading
import zlib

from wandb.proto import wandb_internal_pb2


def check(condition, what):
    if not condition:
        sys.exit(f"tracking_wandb.py: {what}")


def records(path):
    """The records of a file, checksums checked."""
    with open(path, "rb") as f:
        data = f.read()
    check(data[:7] == b":W&B\xe1\xbe\x00", f"header {data[:7]}")
    at, whole = 7, b""
    while at < len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        crc, length, kind = struct.unpack_from("<IHB", data, at)
        part = data[at + 7 : at + 7 + length]
        check(crc == zlib.crc32(part, zlib.crc32(bytes([kind]))), f"checksum at {at}")
        whole += part
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""
        at += 7 + length


def check_picture(path, name, found):
    with open(os.path.join(os.path.dirname(path), "files", name), "rb") as f:
        png = f.read()
    digits = hashlib.sha256(png).hexdigest()
    check(name == f"media/images/samples/grid_5_{digits[:20]}.png", f"picture {name}")
    rows = [r for r in found if r.WhichOneof("record_type") == "history" and r.history.step.num == 5]
    told = {i.nested_key[0]: json.loads(i.value_json) for i in rows[0].history.item}["samples/grid"]
    check(told["_type"] == "image-file" and told["path"] == name, f"row {told}")
    check((told["sha256"], told["size"]) == (digits, len(png)), f"row {told}")
    check((told["width"], told["height"], png[:4]) == (4, 3, b"\x89PNG"), f"row {told}")


def check_records(path):
    found = list(records(path))
    check([r.num for r in found] == list(range(1, len(found) + 1)), "numbers")
    kinds = [r.WhichOneof("record_type") for r in found]
    check(kinds[:3] == ["header", "run", "config"], f"begins with {kinds[:3]}")
    check(kinds[-3:] == ["summary", "exit", "footer"], f"ends with {kinds[-3:]}")
    media = [r for r in found if r.WhichOneof("record_type") == "files"]
    check(len(media) == 1 and kinds.count("files") == 1, "one picture")
    check_picture(path, media[0].files.files[0].path, found)
    found = [r for r in found if r.WhichOneof("record_type") != "files"]
    kinds = [r.WhichOneof("record_type") for r in found]
    check(kinds[3:-3] == ["history"] * 40, f"{len(kinds) - 6} rows")
    run = found[1].run
    check((run.project, run.display_name) == ("interop", "first"), f"run {run}")
    check(run.start_time.seconds > 1.7e9, "start")
    row = {i.nested_key[0]: json.loads(i.value_json) for i in found[3 + 19].history.item}
    check(row["val_loss"] == 0.1 and row["loss"] == 0.05 and row["_step"] == 19, f"row {row}")
    summary = {i.key: json.loads(i.value_json) for i in found[-3].summary.update}
    check(summary["val_loss"] == 0.05 and summary["_step"] == 39, f"summary {summary}")
    config = {i.key: json.loads(i.value_json) for i in found[2].config.update}
    check(config == {"lr": 0.125, "model": 'resnet "18"', "amp": True}, f"config {config}")
    check(found[-2].exit.exit_code == 0, "exit code")


class Server(http.server.BaseHTTPRequestHandler):
    """As much of W&B's server as an upload needs."""

    protocol_version = "HTTP/1.1"
    seen = []

    def log_message(self, *unused):
        pass

    def answer(self, path, body):
        if not path.startswith("/graphql"):
            return {}
        asked = json.loads(body)
        given = asked.get("variables") or {}
        if "upsertBucket" in asked["query"]:
            project = {"id": "p", "name": "interop", "entity": {"id": "e", "name": "someone"}}
            bucket = {"id": "b", "name": given["name"], "displayName": "first", "project": project,
                      "config": "{}", "historyLineCount": 0}
            return {"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}}
        if "createRunFiles" in asked["query"]:
            port = self.server.server_port
            files = [{"name": n, "uploadUrl": f"http://127.0.0.1:{port}/put/{n}"}
                     for n in given["files"]]
            return {"data": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}}
        return {"data": {}}

    def respond(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.seen.append((self.path, body))
        data = json.dumps(self.answer(self.path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = respond


def streamed(name):
    """The lines of a streamed file that arrived, in order."""
    lines = []
    for path, body in Server.seen:
        if path.endswith("/file_stream"):
            lines += (json.loads(body).get("files") or {}).get(name, {}).get("content", [])
    return [json.loads(line) for line in lines]


def check_sync(folder, client):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = dict(os.environ, WANDB_BASE_URL=f"http://127.0.0.1:{server.server_port}",
               WANDB_API_KEY="a" * 40, WANDB_ERROR_REPORTING="false", HOME=os.getcwd())
    done = subprocess.run([client, "sync", folder], env=env, timeout=180, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"wandb sync ended with {done.returncode}: {done.stderr[-2000:]}")
    check(glob.glob(folder + "/*.wandb.synced"), f"not marked as synced: {done.stderr[-2000:]}")
    rows = streamed("wandb-history.jsonl")
    check([r["_step"] for r in rows] == list(range(40)), f"rows that arrived: {rows}")
    check(rows[39]["val_loss"] == 0.05, f"last row {rows[39]}")
    check(any(b'"complete":true' in b and b'"exitcode":0' in b for _, b in Server.seen), "no end")
    check(streamed("wandb-summary.json")[-1]["val_loss"] == 0.05, "summary that arrived")


def main():
    folder = sys.argv[1]
    (path,) = glob.glob(folder + "/*.wandb")
    check_records(path)
    client = os.path.join(os.path.dirname(sys.executable), "wandb")
    if os.access(client, os.X_OK):
        check_sync(folder, client)
    print("W&B takes the run")


main()
