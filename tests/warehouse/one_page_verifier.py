"""Verifies a log of evidence with nothing of ours: what an auditor could write from decision 0021 on one page.

python one_page_verifier.py WAREHOUSE [HEADS.jsonl [KEY]]  prints what is wrong; nothing is wrong: prints nothing
KEY: the public key that must have signed, hexadecimal; if not given, the key of the oldest head.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

import pyarrow.parquet as pq
from cryptography.exceptions import InvalidSignature
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


def signed(head, key):
    if not head["key"] or head["key"] != key:
        return not head["key"] and not key
    message = json.dumps({k: v for k, v in head.items() if k != "signature"}, sort_keys=True, separators=(",", ":"))
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(head["signature"]), message.encode()
        )
    except InvalidSignature:
        return False
    return True


def hashed(file):
    return sha(file.read_bytes()).hex() if file.exists() else None


def verify(warehouse, heads=None, key=None):  # noqa: C901 - one page, from top to bottom
    wrong, files, rows, columns, commits, published = [], {}, {}, {}, {}, None
    lines = [line for chunk in sorted(warehouse.glob("audit/leaves/*")) for line in chunk.read_bytes().splitlines()]
    head = json.loads((warehouse / "audit/head.json").read_text())["head"]
    leaves = [line.partition(b" ")[2] for line in lines][: head["size"]]
    hashes = [sha(b"\x00" + leaf) for leaf in leaves]
    every = [*(json.loads(line) for line in (heads.read_text().splitlines() if heads else [])), head]
    for each in every:
        if not signed(each, key or every[0]["key"]):
            wrong.append(f"head of {each['size']} leaves: signature")
        if each["size"] > len(hashes) or tree(hashes[: each["size"]]).hex() != each["root"]:
            wrong.append(f"head of {each['size']} leaves")
    if f"head of {head['size']} leaves" in wrong:
        return wrong  # leaves that were changed state nothing
    for leaf in map(json.loads, leaves):
        if leaf["what"] in ("evidence", "responses"):
            added, removed = {leaf["table"]: leaf["added"]}, {leaf["table"]: leaf["removed"]}
            stated = {leaf["table"]: leaf.get("commits", {})}
        if leaf["what"] == "evidence":
            rows.setdefault(leaf["table"], {}).update({k: tuple(v) for k, v in leaf["landings"].items()})
            columns[leaf["table"]] = leaf["columns"]
        elif leaf["what"] == "publication":
            added, removed, stated, published = leaf["added"], leaf["removed"], leaf.get("commits", {}), leaf
        elif leaf["what"] == "begin":
            continue
        for name, gone in removed.items():
            for path in gone:
                files.setdefault(name, {}).pop(path, None)
        for name, came in added.items():
            files.setdefault(name, {}).update(came)
        for name, of_versions in stated.items():
            commits.setdefault(name, {}).update(of_versions)
    if published and hashed(warehouse / "published.json") != published["manifest"]:
        wrong.append("published.json")
    for name, of_versions in commits.items():
        table = warehouse / name.replace(".", "/")
        newest = max(map(int, of_versions), default=-1)
        for version, stated in of_versions.items():
            here = hashed(table / f"_delta_log/{int(version):020d}.json")
            if here != stated and (here or int(version) == newest):  # old ones are cleaned up
                wrong.append(f"{name} commit {version}")
        for later in table.glob("_delta_log/*.json"):
            if name in columns and int(later.stem) > newest and b'"remove":' in later.read_bytes():
                wrong.append(f"{name} commit {int(later.stem)}")
    for name, stated in files.items():
        found = {}
        for path, (_, stated_hash) in stated.items():
            file = warehouse / name.replace(".", "/") / path
            if hashed(file) != stated_hash:
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
    print("\n".join(verify(*map(Path, sys.argv[1:3]), *sys.argv[3:])), end="")
