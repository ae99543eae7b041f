#!/usr/bin/env python3
"""Random histories of an external archive beside a naive model of the rules (test/lib/rules.py): revisions posted in any order, starts, ends, cancels,
pauses, promotions, an executor that is away; after each step every task stands where the model says. With retries the order is the engine's, and what must hold whatever
it is: clashing locks never run at once, nothing starts before what it depends on, and everything comes to an end.

WEIR_MODEL_HISTORIES (50), WEIR_MODEL_SEED (1: the first), WEIR_MODEL_SECONDS (20: no history begins later)."""
import json
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, os.environ.get('WEIR_TEST_LIB') or str(pathlib.Path(__file__).resolve().parents[1] / 'lib'))
from house import House, TMP, Worker, end, ok
from rules import ENDED, Model, clash, words

HISTORIES, FIRST, SECONDS = (int(os.environ.get(f'WEIR_MODEL_{n}', d)) for n, d in (('HISTORIES', 50), ('SEED', 1), ('SECONDS', 20)))
NAMES = 'abcd'
REVS, STEPS = 7, 26

(TMP / 'weir.yaml').write_text(json.dumps({'semaphores': {'wide': 100000}}))  # nobody waits for it; only who can be started takes it
s = House('data', '--config', TMP / 'weir.yaml', slots=0)
w = Worker(s, kinds=['command'], slots=90)
x = Worker(s, name='x', kinds=['command'], slots=90, labels=dict(os='x'))


class Wrong(Exception):
    pass


def flow_of(rng, archive, retries):
    flow, names = [], rng.sample(NAMES, rng.randint(1, 4))
    for i, name in enumerate(names):
        task, said = dict(name=name, command='true'), set()
        for kind in ('depends', 'after', 'cancels'):
            refs = []
            while rng.random() < (0.45 if kind != 'cancels' else 0.35) and len(refs) < 2:
                prev = kind == 'cancels' or i == 0 or rng.random() < 0.5
                ref = rng.choice(['PREV', f'PREV:{rng.choice(NAMES)}']) if prev else rng.choice(names[:i])
                full = f'PREV:{name}' if ref == 'PREV' else ref
                if full in said:
                    continue
                said.add(full)
                refs.append(dict(task=ref, on=rng.choice(['success', 'finished'])) if kind == 'depends' and rng.random() < 0.2 else ref)
            if refs:
                task[kind] = refs
        if rng.random() < 0.5:
            task['lock'] = rng.choice(['shared', 'exclusive'])
        if rng.random() < 0.2:
            task['paths'] = [f'{name}/x']
        if rng.random() < 0.2:
            task['unique'] = f'{archive}/k' if retries and rng.random() < 0.3 else f'{archive}/{name}'
        if rng.random() < 0.15:
            task['allow_failure'] = True
        if rng.random() < 0.25:
            task['labels'] = dict(os='x')
        if rng.random() < 0.4:
            task['semaphores'] = ['wide']
        flow.append(task)
    if rng.random() < 0.15:
        flow.append(dict(name='COMMIT', depends=[f'PREV:{rng.choice(NAMES)}']))
    return flow


class History:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.archive, self.retries = f'h{seed}', seed % 2 == 0
        self.model, self.log, self.fences, self.seen = Model(), [], {}, {}
        self.exact, self.twins, self.beaten = True, False, time.monotonic()
        s.post('/v1/archives', dict(name=self.archive, kind='external'))
        order = list(range(1, REVS + 1))
        for _ in range(3):
            i = self.rng.randrange(REVS - 1)
            order[i], order[i + 1] = order[i + 1], order[i]
        self.to_post = order

    def wrong(self, text):
        raise Wrong(f'{text}\n' + '\n'.join(f'  {line}' for line in self.log))

    def look(self):
        """(rev, name) -> (letter, id); a small x: executing, to end"""
        answer = s.get(f'/v1/tasks?archive={self.archive}&limit=1000').json['tasks']
        return {(t['key']['rev'], t['key']['name']): ('x' if t['state'] == 'X' and t.get('ending') else t['state'], t['id']) for t in answer}

    def compare(self):
        deadline = time.monotonic() + 8
        while True:
            self.beat()
            self.seen = is_ = {k: v[0] for k, v in self.look().items()}
            for key, task in self.model.tasks.items():
                if task.state in 'FA' and is_.get(key) in ('F', 'A') and is_[key] != task.state:
                    task.state = is_[key]  # of two that took it along, the first in the turn counts
                    self.model.settle()
            want = {k: 'x' if t.ending else t.state for k, t in self.model.tasks.items()}
            if self.model.paused:  # parked by the next poll
                is_ = {k: 'P' if v == 'S' and want.get(k) == 'P' else v for k, v in is_.items()}
            if is_ == want:
                return
            if time.monotonic() > deadline:
                text = ', '.join(f'{r}:{n} is {is_.get((r, n))}, not {want.get((r, n))}' for r, n in sorted(set(is_) | set(want))
                                 if is_.get((r, n)) != want.get((r, n)))
                self.wrong(text)
            time.sleep(0.02)

    def safe(self):
        """what holds whatever was retried"""
        seen = self.look()
        self.seen = {k: v[0] for k, v in seen.items()}
        runs = [self.model.tasks[k] for k, v in self.seen.items() if v in 'Xx' and k in self.model.tasks]
        for i, a in enumerate(runs):
            for b in runs[:i]:
                if clash(a, b):
                    self.wrong(f'{a.rev}:{a.name} and {b.rev}:{b.name} run at once, and their locks clash')
        for t in [] if self.twins else runs:
            for other, must in t.waits:
                if must and self.seen.get((other.rev, other.name)) not in ('D', None):
                    self.wrong(f'{t.rev}:{t.name} runs, and {other.rev}:{other.name}, which it depends on, is {self.seen[other.rev, other.name]}')

    def check(self):
        if self.exact:
            self.compare()
        else:
            self.safe()

    # ---- steps ----

    def post(self):
        rev = self.to_post.pop(0)
        flow = flow_of(self.rng, self.archive, self.retries)
        touched = [f'{n}/x' for n in NAMES if self.rng.random() < 0.6]
        self.log.append(f'post {rev} {flow} touched {touched}')
        answer = s.post(f'/v1/archives/{self.archive}/revisions', dict(rev=rev, workflow=flow, touched=touched))
        if answer.status != 202:
            self.wrong(f'revision {rev}: {answer}')
        keys = [t['unique'] for t in flow if 'unique' in t]
        if len(keys) > len(set(keys)):
            self.exact, self.twins = False, True  # two are one, and what would close a circle by that isn't waited for
        self.model.post(rev, flow, touched)

    def poll(self, worker, free):
        """(worker, grant) for each"""
        own = [dict(task=g['task'], fence=g['fence']) for who, g in self.fences.values() if who is worker]
        return [(worker, grant) for grant in worker.claim(free, 0, renew=own)]

    def beat(self):
        """neither is to be taken for lost on a busy machine"""
        if time.monotonic() - self.beaten > 2:
            self.beaten = time.monotonic()
            self.poll(w, 0), self.poll(x, 0)

    def start(self):
        free = self.rng.choice([1, 1, 2, 50])
        first, second = self.rng.sample([w, x], 2)
        for worker, grant in self.poll(first, free) + self.poll(second, free):
            key = next(k for k, v in self.look().items() if v[1] == grant['task'])
            self.log.append(f'start {key}')
            task = self.model.tasks.get(key)
            if self.exact and (not task or task.state != 'P' or self.model.paused):
                self.wrong(f'{key} starts; the model says {task.state if task else None}')
            self.fences[key] = worker, grant
            if task and self.exact:
                self.model.granted(task)

    def finish(self, good=None):
        if not self.fences:
            return
        key = self.rng.choice(sorted(self.fences))
        good = self.rng.random() < 0.75 if good is None else good
        self.log.append(f'finish {key} {good}')
        worker, grant = self.fences.pop(key)
        answer = worker.finish(grant, exit=0 if good else 1)
        if answer.status != 200:
            self.wrong(f'finish: {answer}')
        if self.exact:
            self.model.finished(self.model.tasks[key], good)

    def cancel(self):
        seen = self.look()
        keys = sorted(k for k, v in seen.items() if v[0] in 'QSPX' and (k[1] != 'COMMIT' or self.rng.random() < 0.3))
        if not keys:
            return
        key = self.rng.choice(keys)
        self.log.append(f'cancel {key}')
        if s.post(f'/v1/tasks/{seen[key][1]}/cancel').status == 200 and self.exact:
            self.model.cancel(self.model.tasks[key])

    def pause(self):
        self.log.append('resume' if self.model.paused else 'pause')
        s.post(f'/v1/lanes/{self.archive}/{"resume" if self.model.paused else "pause"}', dict(reason='model'))
        self.model.pause(not self.model.paused)

    def executor(self):
        self.log.append('the executor comes back' if self.model.away else 'the executor goes')
        s.post(f'/v1/executors/{x.id}/{"resume" if self.model.away else "pause"}', dict(reason='model'))
        self.model.executor(not self.model.away)

    def promote(self):
        seen = self.look()
        keys = sorted(k for k, v in seen.items() if v[0] == 'P')
        if keys:
            s.post(f'/v1/tasks/{seen[self.rng.choice(keys)][1]}/promote')

    def retry(self):
        seen = self.look()
        keys = sorted(k for k, v in seen.items() if v[0] in 'FTA' and k[1] != 'WORKFLOW')
        if not keys or not self.retries:
            return
        key = self.rng.choice(keys)
        force = self.rng.random() < 0.3
        answer = s.post(f'/v1/tasks/{seen[key][1]}/retry', dict(force=True, reason='model') if force else {})
        self.log.append(f'retry {key} force {force}: {answer.status}')
        if answer.status == 200:
            self.exact = False

    def drain(self):
        while self.to_post:
            self.post()
        if self.model.paused:
            self.pause()
        if self.model.away:
            self.executor()
        for _ in range(400):
            self.start()
            self.check()
            if not self.fences:
                break
            for _ in range(len(self.fences)):
                self.finish(True if self.retries else None)
            self.check()
        left = {k: v for k, v in self.seen.items() if v not in ENDED}
        if left:
            self.wrong(f'these never end: {left}')

    def run(self):
        steps = [(self.post, 7), (self.start, 6), (self.finish, 6), (self.cancel, 3), (self.pause, 1), (self.executor, 2), (self.promote, 1), (self.retry, 3)]
        for _ in range(STEPS):
            step = self.rng.choices([f for f, _ in steps], [n for _, n in steps])[0]
            if step != self.post or self.to_post:
                step()
                self.check()
        self.drain()


began, done, exact = time.monotonic(), 0, 0
for seed in range(FIRST, FIRST + HISTORIES):
    if time.monotonic() - began > SECONDS:
        break
    history = History(seed)
    try:
        history.run()
    except Wrong as wrong:
        ok(False, f'history {seed}: {wrong}')
        break
    done += 1
    exact += history.exact
ok(done > 0 and exact > 0, f'{done} histories, {exact} of them without a retry, are as the model says')
end()
