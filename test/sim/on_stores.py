#!/usr/bin/env python3
"""on_stores: histories of the simulator on real stores: two or three servers on a PostgreSQL of the test's own, one on SQLite. What the store answers
must be what was committed, each time it is asked (memstore_twin.c), and all that holds in memory holds there.

usage: on_stores.py SIM [POSTGRES-SEEDS [SQLITE-SEEDS]]"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
import postgres  # noqa: E402


def histories(sim, how, url, seeds):
    """the last line says how many were violated; shapes that so few can't all have had don't matter"""
    folder = tempfile.mkdtemp(prefix='weir-sim.', dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else None) # nobody pulls the plug
    try:
        done = subprocess.run([sim, *how, '--store', url, folder, '--seeds', '1', str(seeds), '2'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors='replace')
    finally:
        shutil.rmtree(folder)
    lines = done.stdout.splitlines()
    good = done.returncode == 0 and f'{seeds} histories, 0 violated' in (lines[-1] if lines else '')
    shown = [line for line in lines if not line.startswith('  ')] if good else lines
    print(f'{url.split(":")[0]}:', *shown, sep='\n  ', flush=True)
    return good


def main():
    sim, on_postgres, on_sqlite = sys.argv[1], int((sys.argv[2:] + ['5'])[0]), int((sys.argv[3:] + ['25'])[0])
    good = histories(sim, [], 'sqlite:', on_sqlite)
    good &= histories(sim, ['--quotas'], 'sqlite:', max(1, on_sqlite // 5))
    if not postgres.available():
        print(f'PostgreSQL: skipped, there is no {postgres.BIN}')
        return 0 if good else 1
    server = postgres.Postgres().start()
    for name, how, seeds in (('sim', [], on_postgres), ('quotas', ['--quotas'], max(1, on_postgres // 5))):
        server.sql('\n'.join(f"CREATE DATABASE {name}{i} TEMPLATE template0 ENCODING 'UTF8';" for i in range(1, seeds + 1)))
        good &= histories(sim, [*how, '--servers'], server.url(name + '{seed}'), seeds)
    server.remove()
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
