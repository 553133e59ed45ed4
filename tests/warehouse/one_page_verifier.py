"""Verifies a log of evidence with nothing of ours: what an auditor could write from decision 0021 on one page.

python one_page_verifier.py WAREHOUSE [HEADS.jsonl]        prints what is wrong; nothing is wrong: prints nothing
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

KEYS = {
    "bronze.record": ("cluster_id", "topic", "partition", "offset", "copy"),
    "bronze.log_line": ("cluster_id", "node", "file_id", "byte"),
    "bronze.source": ("cluster_id", "source", "read_id"),
}


def sha(data):
    return hashlib.sha256(data).digest()


def tree(leaves):
    if len(leaves) < 2:
        return leaves[0] if leaves else sha(b"")
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha(b"\x01" + tree(leaves[:half]) + tree(leaves[half:]))


def said(value):
    if isinstance(value, list):
        value = json.dumps(value, default=bytes.hex, sort_keys=True, separators=(",", ":"))
    return value.encode() if isinstance(value, str) else value


def digest(rows, columns):
    found = b""
    for values in ([said(row[column]) for row in rows] for column in columns):
        numbers = [len(v) if isinstance(v, bytes) else int(v or 0) for v in values]
        parts = [bytes(v is not None for v in values), struct.pack(f"<{len(rows)}q", *numbers)]
        parts.append(b"".join(v for v in values if isinstance(v, bytes)))
        found += sha(b"".join(map(sha, parts)))
    return sha(found).hex()


def verify(warehouse, heads=None):  # noqa: C901 - one page, from top to bottom
    wrong, files, rows, columns, published = [], {}, {}, {}, None
    lines = [
        line for chunk in sorted((warehouse / "audit/leaves").iterdir()) for line in chunk.read_bytes().splitlines()
    ]
    head = json.loads((warehouse / "audit/head.json").read_text())["head"]
    leaves = [line.partition(b" ")[2] for line in lines][: head["size"]]
    hashes = [sha(b"\x00" + leaf) for leaf in leaves]
    for each in [head, *(json.loads(line) for line in (heads.read_text().splitlines() if heads else []))]:
        message = json.dumps({k: v for k, v in each.items() if k != "signature"}, sort_keys=True, separators=(",", ":"))
        if each["key"]:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(each["key"]))
            key.verify(bytes.fromhex(each["signature"]), message.encode())
        if each["size"] > len(hashes) or tree(hashes[: each["size"]]).hex() != each["root"]:
            wrong.append(f"head of {each['size']} leaves")
    for leaf in map(json.loads, leaves):
        if leaf["what"] in ("evidence", "responses"):
            added, removed = {leaf["table"]: leaf["added"]}, {leaf["table"]: leaf["removed"]}
        if leaf["what"] == "evidence":
            rows.setdefault(leaf["table"], {}).update({k: tuple(v) for k, v in leaf["landings"].items()})
            columns[leaf["table"]] = leaf["columns"]
        elif leaf["what"] == "publication":
            added, removed, published = leaf["added"], leaf["removed"], leaf
        elif leaf["what"] == "begin":
            continue
        for name, gone in removed.items():
            for path in gone:
                files.setdefault(name, {}).pop(path, None)
        for name, came in added.items():
            files.setdefault(name, {}).update(came)
    if published and sha((warehouse / "published.json").read_bytes()).hex() != published["manifest"]:
        wrong.append("published.json")
    for name, stated in files.items():
        found = {}
        for path, (size, hashed) in stated.items():
            file = warehouse / name.replace(".", "/") / path
            if not file.exists() or len(data := file.read_bytes()) != size or sha(data).hex() != hashed:
                wrong.append(f"{name} {path}")
            elif name in columns:
                for row in pq.read_table(file).to_pylist():
                    found.setdefault(row["landing"], []).append(row)
        for landing, (count, stated) in rows.get(name, {}).items():
            here = sorted(found.get(landing, []), key=lambda row: [said(row[column]) for column in KEYS[name]])
            if len(here) != count or (here and digest(here, columns[name]) != stated):
                wrong.append(f"{name} landing {landing}")
    return wrong


if __name__ == "__main__":
    print("\n".join(verify(*map(Path, sys.argv[1:]))), end="")
