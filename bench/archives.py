"""archives: the cells of row 13: a commit's way to its job, revisions through a workflow, workflows read and expanded, histories imported.

Each cell takes the bed of bench/run and returns {figure: value} of one round, with the bare thing it stands beside in the same round.
"""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.request

IMPORTED = 2000  # revisions
SPAWNED = 500
WAIT_S = 300
NOTHING = "- name: a\n  depends: [PREV]\n- name: b\n  depends: [a]\n- name: c\n  depends: [b]\n"
TRUE = "defaults: {checkout: false}\ntasks:\n" + "".join(f"  - {{name: {n}, depends: [{d}], command: /bin/true}}\n" for n, d in (("a", "PREV"), ("b", "a"), ("c", "b")))
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "check": True}


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(percent / 100 * (len(ordered) - 1) + 0.5))]


def run(*argv, **more):
    subprocess.run([str(a) for a in argv], **{**QUIET, **more})


# ---- repositories ----

def svn_make(folder, revisions, workflow):
    """A repository of that many revisions, each changes one small file; loaded, not committed one by one."""
    def props(pairs):
        return b"".join(b"K %d\n%s\nV %d\n%s\n" % (len(k), k, len(v), v) for k, v in pairs) + b"PROPS-END\n"

    def node(path, action, text):
        return b"Node-path: %s\nNode-kind: file\nNode-action: %s\nText-content-length: %d\nContent-length: %d\n\n%s\n\n" % (path, action, len(text), len(text), text)

    parts, seen = [b"SVN-fs-dump-format-version: 2\n\n"], set()
    for rev in range(1, revisions + 1):
        p = props([(b"svn:author", b"ann"), (b"svn:date", b"2026-01-01T00:00:00.000000Z"), (b"svn:log", b"revision %d" % rev)])
        parts.append(b"Revision-number: %d\nProp-content-length: %d\nContent-length: %d\n\n%s\n" % (rev, len(p), len(p), p))
        if rev == 1:
            parts += [b"Node-path: %s\nNode-kind: dir\nNode-action: add\n\n\n" % path for path in (b"_workflows", b"docs")]
            parts.append(node(b"_workflows/w.yaml", b"add", workflow.encode()))
        path = b"docs/page%d.txt" % (rev % 100)
        parts.append(node(path, b"change" if path in seen else b"add", b"text %d\n" % rev * 20))
        seen.add(path)
    run("svnadmin", "create", folder)
    subprocess.run(["svnadmin", "load", "-q", str(folder)], input=b"".join(parts), check=True, stdout=subprocess.DEVNULL)
    return folder


def git_make(folder, revisions, workflow):
    parts = []
    for rev in range(1, revisions + 1):
        parts.append(f"commit refs/heads/main\ncommitter ann <ann@example.org> {1767225600 + rev} +0000\ndata {len(f'revision {rev}')}\nrevision {rev}\n")
        if rev == 1:
            parts.append(f"M 644 inline _workflows/w.yaml\ndata {len(workflow)}\n{workflow}\n")
        text = f"text {rev}\n" * 20
        parts.append(f"M 644 inline docs/page{rev % 100}.txt\ndata {len(text)}\n{text}\n")
    run("git", "init", "--quiet", "--bare", "--initial-branch=main", folder)
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input="".join(parts).encode(), check=True)
    return folder


# ---- what the server says ----

def counts(server, archive):
    with urllib.request.urlopen(f"{server.url}/v1/archives/{archive}", timeout=60) as answer:
        return json.load(answer)["counts"]


def until_done(server, archive, tasks):
    """Until so many tasks are done; anything that ended otherwise is a fault of the measurement."""
    deadline = time.monotonic() + WAIT_S
    while True:
        now = counts(server, archive)
        if now["D"] >= tasks:
            return
        if now["F"] + now["T"] + now["A"] > 0 or time.monotonic() > deadline:
            raise OSError(f"{archive}: {now} instead of {tasks} done")
        time.sleep(0.01)


def add(bed, server, name, *options):
    run(bed.weir, "archive", "add", name, *options, env={**os.environ, "WEIR_SERVER": server.url})


# ---- a commit's way to its job ----

def stamps(path):
    return [int(line) for line in path.read_text().split()] if path.exists() else []


class Copy:
    """A repository with a working copy; every commit's hook says when it began."""

    def __init__(self, bed, workflow):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=bed.tmp))
        self.stamp, self.repository, self.copy = bed.bin / "stamp", self.folder / "repository", self.folder / "copy"
        self.hooked, self.began = self.folder / "hooked", self.folder / "began"
        self.hook = self.repository / "hooks" / "post-commit"
        run("svnadmin", "create", self.repository)
        run("svn", "checkout", "-q", f"file://{self.repository}", self.copy)
        (self.copy / "_workflows").mkdir()
        (self.copy / "_workflows" / "w.yaml").write_text(workflow.replace("STAMP", f"{self.stamp} {self.began}"))
        (self.copy / "book.txt").write_text("begin\n")
        run("svn", "add", "-q", self.copy / "_workflows", self.copy / "book.txt")
        self.commit()

    def commit(self):
        start = time.monotonic()
        run("svn", "commit", "-q", "-m", "more", self.copy)
        return time.monotonic() - start

    def hook_set(self, lines):
        self.hook.write_text(f"#!/bin/sh\n{self.stamp} {self.hooked}\n{lines}\n")
        self.hook.chmod(0o755)

    def commits(self, seconds, began_each):
        """Commits for so long, one after the other's job has begun; (ms from hook to job, ms of a whole commit)."""
        waits, walls, until = [], [], time.monotonic() + seconds
        while time.monotonic() < until or len(walls) < 20:
            n = len(stamps(self.began))
            with open(self.copy / "book.txt", "a") as book:
                book.write("more\n")
            walls.append(self.commit() * 1000)
            if not began_each:
                continue
            deadline = time.monotonic() + 30
            while len(stamps(self.began)) <= n:
                if time.monotonic() > deadline:
                    raise OSError("a commit's job didn't begin")
                time.sleep(0.001)
            waits.append((stamps(self.began)[n] - stamps(self.hooked)[-1]) / 1e6)
        return waits, walls

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def commit_cell(bed):
    """From the first line of the hook to the first instruction of the job; bare: the hook itself starts the job, and does nothing else."""
    seconds, found = float(os.environ.get("CELL_S", "3")), {}
    bare = Copy(bed, "[]\n")
    bare.hook_set("exit 0")
    found["commit, trivial hook ms"] = statistics.median(bare.commits(seconds / 2, False)[1])
    bare.hook_set(f"( {bare.stamp} {bare.began} </dev/null >/dev/null 2>&1 & ) || :")
    waits = bare.commits(seconds, True)[0]
    found["bare p50 ms"], found["bare p99 ms"] = percentile(waits, 50), percentile(waits, 99)
    bare.remove()
    found["bare spawn ms"] = 1000 / bed.cell(bed.bin / "base_spawn", 1000, 1)["true in-flight=1 rate"]
    for name, options in (("weir", ""), ("no checkout", ", checkout: false")):
        with bed.serve(slots=2) as server:
            copy = Copy(bed, f"- {{name: job, command: STAMP{options}}}\n")
            add(bed, server, "docs", "--svn", copy.repository)
            hook = copy.hook.read_text().split("\n", 1)[1]
            copy.hook_set(hook)
            copy.commits(0.1, True)  # warm
            waits, walls = copy.commits(seconds * 2, True)
            copy.remove()
        found[f"{name} p50 ms"], found[f"{name} p99 ms"] = percentile(waits, 50), percentile(waits, 99)
        found.setdefault("commit, weir's hook ms", statistics.median(walls))
    return found


# ---- revisions a second; imports ----

def import_cell(bed, kind, revisions, workflow, slots=0):
    folder = pathlib.Path(tempfile.mkdtemp(dir=bed.tmp)) / "r"
    (svn_make if kind == "svn" else git_make)(folder, revisions, workflow)
    log = ["svn", "log", "-v", "-q", f"file://{folder}"] if kind == "svn" else ["git", "-C", str(folder), "log", "--first-parent", "--name-only", "--format=%H", "main"]
    start = time.monotonic()
    run(*log)
    bare = time.monotonic() - start
    with bed.serve(slots=slots) as server:
        start = time.monotonic()
        add(bed, server, "docs", f"--{kind}", folder, "--no-hook", "--from", "1")
        until_done(server, "docs", revisions * 4)
        took = time.monotonic() - start
    shutil.rmtree(folder.parent, ignore_errors=True)
    return took, bare


def import_row(bed):
    found = {}
    for kind in ("svn", "git"):
        took, bare = import_cell(bed, kind, IMPORTED, NOTHING)
        found.update({f"{kind} s": took, f"{kind} log s": bare, f"{kind} revisions/s": IMPORTED / took})
    return found


def revisions_row(bed):
    base = bed.cell(bed.bin / "base_spawn", 2000, 4)["true in-flight=4 rate"]
    took, _ = import_cell(bed, "svn", SPAWNED, TRUE, slots=4)
    return {"bare spawn/s": base, "jobs/s": 3 * SPAWNED / took, "revisions/s": SPAWNED / took}


def expand_row(bed):
    found = bed.cell(bed.bin / "expand_bench", 1000)
    return {"libyaml us": found["libyaml"], "read us": found["read"], "expand us": found["expand"], "edges": found["edges"]}
