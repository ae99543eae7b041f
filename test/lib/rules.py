"""rules: a naive model of what a workflow means, from ENGINE.md, "Edges and policies", alone: no counters, no edges that are handed on. After each step
everything is looked at anew until nothing moves any more. One archive, no retries (what those may not break is checked by the script that uses this)."""
ENDED = 'DFTA'


def words(refs):
    """(prev, name, on) of each reference"""
    for ref in refs:
        on = ref.get('on') if isinstance(ref, dict) else None
        text = ref['task'] if isinstance(ref, dict) else ref
        yield text.startswith('PREV'), text[5:] if text.startswith('PREV') else text, on


class Task:
    def __init__(self, rev, name, spec, place, skipped):
        self.rev, self.name, self.spec, self.place, self.skipped = rev, name, spec, place, skipped
        self.state, self.ending, self.ran, self.fired = 'Q', None, False, False
        self.waits, self.prevs, self.cancels, self.dying = [], [], set(), set()  # (task, must succeed)
        self.lock = None if skipped else spec.get('lock')
        self.key = None

    @property
    def over(self):
        return self.state in ENDED


def clash(a, b):
    return a.lock and b.lock and 'exclusive' in (a.lock, b.lock)


class Model:
    def __init__(self):
        self.tasks, self.posted, self.next, self.paused = {}, {}, 1, False
        self.away = False  # the only executor that has the labels which some tasks ask for

    # ---- revisions ----

    def make(self, rev, spec, index, depth, touched):
        skipped = bool(spec.get('paths')) and touched is not None and not any(p in touched for p in spec['paths'])
        self.tasks[rev, spec['name']] = task = Task(rev, spec['name'], spec, (rev, depth, index), skipped)
        return task

    @staticmethod
    def depths(flow):
        depth, names = {}, {t['name'] for t in flow}
        for _ in flow:
            for t in flow:
                before = [n for prev, n, _ in words(t.get('depends', []) + t.get('after', [])) if not prev and n in names and n != 'COMMIT']
                depth[t['name']] = max([depth.get(n, 0) + 1 for n in before] or [0])
        return depth

    def post(self, rev, flow, touched):
        if rev in self.posted:
            return
        self.posted[rev] = flow, touched
        depth = self.depths(flow)
        self.make(rev, dict(name='COMMIT'), -1, 0, None)
        for i, spec in enumerate(flow):
            if spec['name'] == 'COMMIT':
                continue
            task = self.make(rev, spec, i, depth[spec['name']], touched)
            if spec.get('unique') and not task.skipped:
                del self.tasks[rev, spec['name']]  # keys are taken when the revision is initialised
        while self.next in self.posted:
            self.open(self.next)
            self.next += 1
            self.settle()

    def earlier(self, rev, name, ran=False):
        found = [t for (r, n), t in self.tasks.items() if n == name and r < rev and not (ran and t.skipped)]
        return max(found, key=lambda t: t.rev) if found else None

    def open(self, rev):
        flow, touched = self.posted[rev]
        stands, depth = {'COMMIT': self.tasks[rev, 'COMMIT']}, self.depths(flow)
        for i, spec in enumerate(flow):
            name = spec['name']
            if name == 'COMMIT':
                continue
            task = self.tasks.get((rev, name))
            if not task:
                has = [t for t in self.tasks.values() if t.key == spec['unique']]
                if has:
                    stands[name] = has[0]
                    continue
                task = self.make(rev, spec, i, depth[name], touched)
                task.key = spec['unique']
            stands[name] = task
        for spec in [dict(name='COMMIT')] + flow:
            task = stands[spec['name']]
            if task.rev != rev:
                continue
            self.edges(task, spec, stands)
            if task.state == 'Q':
                task.state = 'S'

    def edges(self, task, spec, stands):
        commit = spec['name'] == 'COMMIT'
        before = self.earlier(task.rev, 'COMMIT') if commit else None
        if before:
            task.prevs.append((before, False))
        if not commit:
            task.waits.append((stands['COMMIT'], True))
        for list_name in ('depends', 'after'):
            for prev, name, on in words(spec.get(list_name, [])):
                if prev:
                    other = self.earlier(task.rev, name or task.name)
                    if other:
                        task.prevs.append((other, list_name == 'depends' and on == 'success'))
                else:
                    other = stands[name]
                    tolerant = next((s.get('allow_failure') for s in self.posted[task.rev][0] if s['name'] == name), False)
                    must = list_name == 'depends' and (on == 'success' or (on is None and not tolerant))
                    task.waits.append((other, must))
        for prev, name, _ in words(spec.get('cancels', [])):
            other = self.earlier(task.rev, name or task.name, ran=True)
            if other and not task.skipped:
                task.cancels.add(other)

    # ---- what follows ----

    def prev_over(self, task):
        """it has ended, and if it never ran, what it waited for by PREV is over, too"""
        return task.over and (task.ran or task.state == 'D' or all(self.prev_over(t) for t, _ in task.prevs))

    def supersede(self, task):
        todo, seen = list(task.cancels), set()
        while todo:
            other = todo.pop()
            if other in seen or other is task:
                continue
            seen.add(other)
            if not other.over:
                todo += other.cancels
                if other.state == 'X':
                    other.ending = other.ending or 'A'
                    task.dying.add(other)
                else:
                    other.state, other.key = 'A', None
            elif not other.fired:
                todo += other.cancels
        task.fired = True

    def step(self, task):
        """True: it has moved"""
        if task.state not in 'S':
            return False
        for other, must in task.waits + task.prevs:
            if must and other.over and other.state != 'D':
                task.state, task.key = ('A' if other.state == 'A' else 'F'), None
                return True
        if any(not t.over or (must and t.state != 'D') for t, must in task.waits) or any(not self.prev_over(t) for t, _ in task.prevs):
            return False
        if task.skipped:
            task.state = 'D'
            return True
        if self.paused:
            return False
        if not task.fired:
            self.supersede(task)
            return True
        if any(not t.over for t in task.dying):
            return False
        if any(clash(task, t) and not t.over and t.place < task.place for t in self.tasks.values()):
            return False
        if self.unserved(task):
            return False
        task.state = 'D' if task.name == 'COMMIT' else 'P'
        return True

    def unserved(self, task):
        """nobody can start it: it takes no slot, and without its slots it isn't pending"""
        return self.away and bool(task.spec.get('labels')) and bool(task.spec.get('semaphores'))

    def settle(self):
        moved = True
        while moved:
            moved = False
            for task in sorted(self.tasks.values(), key=lambda t: t.place):
                moved |= self.step(task)

    # ---- people and executors ----

    def granted(self, task):
        task.state, task.ran, task.key = 'X', True, None

    def finished(self, task, good):
        task.state, task.ending = task.ending or ('D' if good else 'F'), None
        self.settle()

    def cancel(self, task):
        if task.state == 'X':
            task.ending = 'T'
        elif not task.over:
            task.state, task.key = 'T', None
        self.settle()

    def executor(self, away):
        self.away = away
        for task in self.tasks.values():
            if task.state == 'P' and self.unserved(task):
                task.state = 'S'
        self.settle()

    def pause(self, paused):
        self.paused = paused
        self.settle()
