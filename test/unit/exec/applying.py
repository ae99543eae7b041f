"""applying: change sets for tests of `weir apply`: their orders, and an executor that applies them, on the fake server."""
import hashlib
import os
import pathlib
import subprocess
import sys

from crew import TMP, Crew

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'lib'))
from tarballs import LROOT, entry, meta, pack  # noqa: E402

ENV = {**os.environ, 'HOME': TMP, 'GIT_AUTHOR_NAME': 'a', 'GIT_AUTHOR_EMAIL': 'a@b', 'GIT_COMMITTER_NAME': 'a', 'GIT_COMMITTER_EMAIL': 'a@b',
       'GIT_CONFIG_NOSYSTEM': '1', 'LC_ALL': 'C.UTF-8'}


def sh(script, check=True, **more):
    done = subprocess.run(['sh', '-ec', script], cwd=TMP, env={**ENV, **more}, check=check, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


class Applier(Crew):
    """an executor that applies change sets"""

    def __init__(self, **more):
        super().__init__(options=['--apply', *more.pop('options', ())], **more)

    def apply(self, source, csid, files=None, movetype='DC', removed=(), run=(), apply=None, **spec):
        """grants a change set; apply: further members of its order"""
        order = {'target': 'docs', 'csid': csid, 'movetype': movetype, 'cause': f'docs:{csid}', 'submitter': 'ann', 'source': source}
        if movetype != 'RB':
            files = files or {}
            tar = pack(entry('meta', meta(movetype=movetype, files=files, removed=list(removed) or None).encode()),
                       *(entry(LROOT + path, text.encode(), mode=0o755 if path in run else 0o644) for path, text in files.items()))
            order.update(sha256=hashlib.sha256(tar).hexdigest(), tarball_bytes=len(tar))
            self.fake.trees[f'/v1/changesets/{csid}/tarball'] = tar
        order.update(apply or {})
        return self.fake.add(apply=order, token='job_token', holds=True, **spec)

    def end(self, task, seconds=30):
        """(exit or signal or outcome, revision, reason) of its end"""
        self.fake.wait_ended(task, seconds=seconds)
        end = task.finish
        how = end.get('outcome') or (f"signal {end['signal']}" if 'signal' in end else end['exit'])
        return how, end.get('revision'), end.get('reason', '')

    def done(self, *args, **more):
        return self.end(self.apply(*args, **more))
