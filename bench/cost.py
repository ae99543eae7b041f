#!/usr/bin/env python3
"""cost.py [COST [SIZE [KIND...]]]: instructions of each kind of command with SIZE (250) and with four times as many, by callgrind; COST is the program
(build/bench/cost). Fails when a kind that works on all of them takes more than 4.8 times as many instructions, or one that works on one of them more than 1.6
times. The logarithm of tables and of SQLite's trees is in the margin; quadratic would be 16, or 4."""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MOST = {'linear': 4.8, 'flat': 1.6}


def instructions(program, kind, n):
    argv = ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', '--toggle-collect=cost_measured', str(program), kind, str(n)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    found = re.search(r'Collected : (\d+)', done.stdout)
    if done.returncode != 0 or not found:
        raise SystemExit(f'{" ".join(argv)}: {done.stdout[-800:]}')
    return int(found.group(1))


def table(program, size, names=()):
    """[(kind, may, with size, with 4 * size, good)]"""
    kinds = [line.split('\t') for line in subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
    kinds = [(kind, may) for kind, may in kinds if not names or kind in names]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(lambda job: instructions(program, *job), [(kind, n) for kind, _ in kinds for n in (size, 4 * size)]))
    rows = []
    for i, (kind, may) in enumerate(kinds):
        few, many = counts[2 * i], counts[2 * i + 1]
        rows.append((kind, may, few, many, many <= MOST[may] * few))
    return rows


def main():
    program = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / 'build' / 'bench' / 'cost'
    rows = table(program, int(sys.argv[2]) if len(sys.argv) > 2 else 250, sys.argv[3:])
    for kind, may, few, many, good in rows:
        print(f'{"ok  " if good else "FAIL"} {kind:18} {may:7} {few:14,} {many:14,}  x {many / few:.2f}')
    return 0 if all(row[4] for row in rows) else 1


if __name__ == '__main__':
    sys.exit(main())
